"""What ranks say of their gradients travels with the gradients: a step has no collective for it alone."""

import collections

import ranks
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

import altgrad

SHAPES = (5000, 3), (7,), (128, 64)


def counted(optimizer, params, absent):
    """The collectives of backward and a step, {name: how many}."""
    counts, kept = collections.Counter(), {}
    for name in ("all_gather", "all_gather_into_tensor", "all_reduce", "broadcast", "reduce_scatter_tensor", "all_gather_object"):
        kept[name] = getattr(dist, name)

        def call(*given, _name=name, **words):
            counts[_name] += 1
            return kept[_name](*given, **words)
        setattr(dist, name, call)
    try:
        if used := [param.square().sum() for place, param in enumerate(params) if place not in absent]:
            sum(used).backward()
        optimizer.step()
    finally:
        for name, function in kept.items():
            setattr(dist, name, function)
    return dict(counts)


def steps(rank, group):
    """Both ranks have all gradients; then rank 1 lacks one; then both do, whose parameter stays as it is."""
    found = []
    for words in ({}, {"max_grad_norm": 1.0}):
        torch.manual_seed(0)
        params = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
        optimizer = altgrad.distributed.DistAdamW(params, lr=0.1, bucket_bytes=1 << 14, **words)
        counted(optimizer, params, ())  # the first step agrees on more
        for absent in ((), (1,) * rank, (1,), (0, 2)):
            before = [param.detach().clone() for param in params]
            counts = counted(optimizer, params, absent)
            found.append((counts, [not torch.equal(a, b) for a, b in zip(before, params)]))
    return found


def test_flags_of_gradients_travel_with_gradients(tmp_path):
    answers, = ranks.run([steps], tmp_path)
    assert answers[0] == answers[1] and not isinstance(answers[0], str), answers
    for place, (counts, changed) in enumerate(answers[0]):
        buckets = counts.pop("reduce_scatter_tensor")
        assert buckets > 1 and counts.pop("all_gather_into_tensor") == buckets
        assert counts == ({} if place < 4 else {"all_reduce": 1})  # the norm
        assert changed == [[True] * 3, [True] * 3, [True, False, True], [False, True, False]][place % 4]


def sums(rank, group):
    """The collectives of a step of Prodigy, which has two sums over the step, without a clip and with it."""
    mesh, found = init_device_mesh("cpu", (group.size(),)), []
    for words in ({}, {"max_grad_norm": 1.0}):
        param = torch.nn.Parameter(distribute_tensor(torch.ones(5, 3), mesh, [Shard(0)], src_data_rank=None))
        optimizer = altgrad.optim.Prodigy([param], **words)
        param.grad = distribute_tensor(torch.ones(5, 3), mesh, [Shard(0)], src_data_rank=None)
        optimizer.step()
        found.append(counted(optimizer, [], ()))
    return found


def test_sums_of_a_rule_are_one_all_reduce(tmp_path):
    answers, = ranks.run([sums], tmp_path)
    assert answers == ([{"all_reduce": 1}, {"all_reduce": 2}],) * 2, answers
