"""DistAdamW on a mesh of replicas x shards: the bits of all ranks in one group, and what travels where."""

import pytest
import ranks
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import altgrad

SHAPES = (100, 90), (7,), (3, 50, 64), (50_000,)
CASES = {"AdamW": dict(lr=0.01), "AdamW8bit": dict(lr=0.01, max_grad_norm=0.1), "LAMB": dict(lr=0.01, max_grad_norm=0.1)}


def train(case, mesh, rank, **words):
    """(parameters, norms, the optimizer) after steps with gradients that are other ones on each rank; their average is exact."""
    torch.manual_seed(0)
    params, norms = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES], []
    if rank == 3:
        params[1].data += 1.0  # what the first rank has is taken
    optimizer = altgrad.distributed.Sharded(getattr(altgrad.optim, case), params, process_group=mesh, bucket_bytes=60_000,
                                            reproducible=True, **CASES[case], **words)
    for step in range(4):
        torch.manual_seed(100 + step)
        grads = [12.0 * torch.randint(-10, 11, (4, *shape)) for shape in SHAPES]
        loss = sum([(param * grad[rank]).sum() for param, grad in zip(params, grads)][:3 if rank == 1 and step == 1 else None])
        loss.backward()
        optimizer.step()
        norms.append(None if optimizer.grad_norm is None else optimizer.grad_norm.item())
    return [param.detach() for param in params], norms, optimizer


def on_meshes(rank, group):
    found, mesh = [], init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    for case in CASES:
        (whole, alone, _), (params, norms, optimizer) = train(case, None, rank), train(case, mesh, rank)
        assert norms == alone and all(map(torch.equal, params, whole)), case
        for param, held in optimizer.local_optimizer.state.items():  # replicas have the same states
            for key, value in held.items():
                theirs = [torch.empty_like(value) for _ in range(2)]
                dist.all_gather(theirs, value.contiguous(), group=mesh.get_group(0))
                assert torch.equal(*theirs), key
        found.append(tuple(optimizer.state_dict()["ranks"]))
    for words, message in (({}, "of 3 dimensions"), (dict(kind=altgrad.optim.Muon), "plain parameters")):
        with pytest.raises(ValueError, match=message):
            altgrad.distributed.Sharded(words.get("kind", altgrad.optim.AdamW), [torch.nn.Parameter(torch.ones(4, 4))],
                                        process_group=mesh if words else init_device_mesh("cpu", (2, 2, 1)))
    return found


def replaced(rank, group):
    """A change that one rank alone has found is an error on all of them, of the other row, too."""
    mesh = init_device_mesh("cpu", (2, 2))
    params, _, optimizer = train("AdamW", mesh, rank)
    for param in params:
        param.grad = torch.ones_like(param)
    if rank == 2:
        optimizer.param_groups[0]["params"] = [torch.nn.Parameter(torch.ones(3))]
    with pytest.raises(RuntimeError, match="make another one" if rank == 2 else "parameters of rank 2 were replaced"):
        optimizer.step()


def test_as_one_group(tmp_path):
    answers, refused = ranks.run([on_meshes, replaced], tmp_path, 4)
    for rank, answer in enumerate(answers):
        assert answer == [(rank % 2, 2)] * len(CASES), answer
    assert refused == (None,) * 4, refused
