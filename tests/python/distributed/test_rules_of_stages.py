"""Ranks of a process group that have different rules of one class, of which each sums over the step."""

import pytest
import ranks
import torch

from altgrad.optim import FromRule, by_group

ADDED = "rule added(param w, grad g, global d)\n  d = sum(g over step)\n  w = w - d\n"
MOST = "rule most(param w, grad g, global e)\n  e = max(g over step)\n  w = w - 2 * e\n"
BOTH = by_group(a=FromRule(ADDED), b=FromRule(MOST))
STAGES = [[("a", 1.0), ("b", 2.0)], [("b", 3.0)]]


def train(stage, empty=True, **words):
    """The parameters after three steps; with `empty` there are also groups without parameters."""
    params = [(rule, torch.nn.Parameter(torch.full((3,), value))) for rule, value in stage]
    groups = [dict(params=[param for of, param in params if of == rule], rule=rule) for rule in "ab"]
    optimizer = BOTH([group for group in groups if group["params"] or empty], **words)
    for step in range(3):
        for rule, param in params:
            param.grad = torch.full((3,), 1.0 + step + 5 * (rule == "b"))
        optimizer.step()
    return [param.tolist() for _, param in params]


def staged(rank, group):
    with pytest.raises(ValueError, match="rank 1 of the ranks 0, 1 has rules with other sums over the step than rank 0: give"):
        train(STAGES[rank], empty=False, process_group=group)
    return train(STAGES[rank], process_group=group)


def test_sums_are_those_of_one_process_where_all_ranks_have_all_groups(tmp_path):
    answers, = ranks.run([staged], tmp_path, 2)
    assert [*answers[0], *answers[1]] == train([*STAGES[0], *STAGES[1]]), answers
