"""ZeroRedundancyOptimizer keeps process_group= for itself; the norm is of all ranks' parameters nevertheless."""

import pytest
import ranks
import torch
from torch.distributed.optim import ZeroRedundancyOptimizer

import altgrad

SHAPES = [(7,), (4100,), (3, 5), (64,)]


def train(rank, group, words, own_group=False):
    """The parameters after three steps of equal gradients, as with DistributedDataParallel."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    named = dict(process_group=group) if own_group else {}
    optimizer = (ZeroRedundancyOptimizer(params, optimizer_class=altgrad.optim.AdamW, lr=0.1, **named, **words)
                 if group is not None else altgrad.optim.AdamW(params, lr=0.1, **words))
    for _ in range(3):
        for p in params:
            p.grad = torch.randn_like(p)
        optimizer.step()
    local = getattr(optimizer, "optim", optimizer)
    return [p.detach().tolist() for p in params], None if local.grad_norm is None else local.grad_norm.item()


def norm(rank, group):
    return train(rank, group, dict(max_grad_norm=0.5))


def of_its_own(rank, group):
    return train(rank, group, dict(max_grad_norm=0.5), own_group=True)


def each(rank, group):
    return train(rank, group, dict(max_grad_norm="agc:0.01"))


def none(rank, group):
    return train(rank, group, {})


def adaptive(rank, group):
    return train(rank, group, dict(max_grad_norm="percentile:50"))


def test_every_rank_clips_by_the_whole_norm(tmp_path):
    got = ranks.run([norm, of_its_own, each, none, adaptive], tmp_path)
    for function, answers in zip((norm, of_its_own, each, none), got):
        expected, whole = function(0, None)
        for answer in answers:
            assert not isinstance(answer, str), answer
            params, found = answer
            for p, q in zip(params, expected):
                torch.testing.assert_close(torch.tensor(p), torch.tensor(q))
            assert found == pytest.approx(whole) if whole is not None else found is None
    # Of the last norms of one rank's share: refused in words.
    assert all(isinstance(answer, str) and "there is a process_group" in answer for answer in got[-1])
