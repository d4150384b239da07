"""Ranks of a process group that have different rules of one class, of which some sum over the step."""

import pytest
import ranks
import torch

from altgrad.optim import FromRule, by_group

ADDED = "rule added(param w, grad g, global d)\n  d = sum(g over step)\n  w = w - d\n"
MOST = "rule most(param w, grad g, global e)\n  e = max(g over step)\n  w = w - 2 * e\n"
ALONE = "rule alone(param w, grad g)\n  w = w - g\n"
MIXED = by_group(a=FromRule(ADDED), b=FromRule(MOST), c=FromRule(ALONE))
NARROW = torch.bfloat16
STAGES = {"rules": [[("a", 1.0), ("b", 2.0)], [("b", 3.0)]],
          "without": [[("a", 1.0), ("b", 2.0)], [("c", 3.0)]],
          "dtypes": [[("a", 1.0), ("b", 2.0, NARROW)], [("a", 3.0, NARROW), ("b", 4.0)]]}


def train(stage, empty=True, **words):
    """The parameters after three steps; with `empty` there are also groups without parameters."""
    params = [(rule, torch.nn.Parameter(torch.full((3,), value, dtype=dtype[0] if dtype else torch.float32)))
              for rule, value, *dtype in stage]
    groups = [dict(params=[param for of, param in params if of == rule], rule=rule) for rule in "abc"]
    optimizer = MIXED([group for group in groups if group["params"] or empty], **words)
    for step in range(3):
        for rule, param in params:
            param.grad = torch.full_like(param, 1.0 + step + 5 * (rule == "b"))
        optimizer.step()
    return [param.tolist() for _, param in params]


def staged(rank, group):
    for name in "rules", "without":
        with pytest.raises(ValueError, match="rank 1 of the ranks 0, 1 has rules with other sums over the step than rank 0: give"):
            train(STAGES[name][rank], empty=False, process_group=group)
    return [train(stages[rank], process_group=group) for stages in STAGES.values()]


def test_sums_are_those_of_one_process_where_all_ranks_have_all_groups(tmp_path):
    answers, = ranks.run([staged], tmp_path, 2)
    for (name, stages), *parts in zip(STAGES.items(), *answers, strict=True):
        assert [*parts[0], *parts[1]] == train([*stages[0], *stages[1]]), name
