"""DTensors beside plain parameters, against torch's class on whole ones: one norm, one verdict."""

import copy
import warnings

import pytest
import ranks
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import altgrad

KINDS = "plain", "shard", "replicate", "plain", "shard"
CASES = [("AdamW", {}), ("AdamW", dict(max_grad_norm=0.3)), ("SGD", dict(momentum=0.9, max_grad_norm=0.3)),
         ("Adagrad", dict(max_grad_norm=0.3)), ("AdamW", dict(max_grad_norm=0.3, scaler=True))]


def train(library, mesh, name, max_grad_norm=None, scaler=False, **words):
    """The parameters and the norms of four steps; without a mesh all of them are plain."""
    torch.manual_seed(0)
    place = lambda kind, value: value if mesh is None or kind == "plain" else distribute_tensor(
        value, mesh, [Shard(0) if kind == "shard" else Replicate()])
    params = [torch.nn.Parameter(place(kind, torch.randn(6, 5))) for kind in KINDS]
    ours = dict(max_grad_norm=max_grad_norm) if library is altgrad else {}
    optimizer, norms = getattr(library.optim, name)(params, lr=0.1, **words, **ours), []
    scaler = library.amp.GradScaler("cpu", init_scale=4.0) if scaler else None
    for step in range(4):
        for kind, param in zip(KINDS, params):
            grad = torch.randn(6, 5) * (4.0 if scaler else 1.0)
            if scaler and step == 2 and kind == "shard":
                grad[0, 0] = torch.inf  # on the first rank alone
            param.grad = place(kind, grad)
        if scaler:
            scaler.scale(torch.ones(()))
        if library is torch and max_grad_norm:
            if scaler:
                scaler.unscale_(optimizer)
            norms.append(torch.nn.utils.clip_grad_norm_(params, max_grad_norm, foreach=False).item())
        scaler.step(optimizer) if scaler else optimizer.step()
        if scaler:
            scaler.update()
        if library is altgrad and max_grad_norm:
            norms.append(optimizer.grad_norm.item())
        if step == 1:
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    return [(p.full_tensor() if isinstance(p, DTensor) else p).tolist() for p in params], norms


def steps(rank, group):
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [train(altgrad, mesh, name, **words) for name, words in CASES]


def with_a_group(rank, group):
    mesh = dist.device_mesh.init_device_mesh("cpu", (2,))
    param = torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)]))
    param.grad = distribute_tensor(torch.ones(4), mesh, [Shard(0)])
    optimizer = altgrad.optim.AdamW([param], max_grad_norm=1.0, process_group=group)
    optimizer.step()
    return optimizer.grad_norm.item()


def test_as_torchs_class_on_whole_tensors(tmp_path):
    every, norms_of_group = ranks.run([steps, with_a_group], tmp_path)
    for answer in every:
        assert not isinstance(answer, str), answer
        for (name, words), (params, norms) in zip(CASES, answer):
            expected, others = train(torch, None, name, **words)
            torch.testing.assert_close(torch.tensor(params), torch.tensor(expected))
            finite = [(a, b) for a, b in zip(norms, others) if b == b and b < torch.inf]
            assert all(a == pytest.approx(b) for a, b in finite)
    assert norms_of_group == (2.0, 2.0)  # what a mesh has added up counts once in a group of its ranks
