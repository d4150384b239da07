"""Kernels step the parts of DTensors: the bits of one process, whatever the mesh, and no dispatch of a DTensor."""

import pytest
import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import altgrad

SHAPES = (5, 512), (1, 512), (16, 4, 256), (6000,), (7,), (24, 256)
ELEMENTS = {
    "AdamW": dict(),
    "AdamW8bit": dict(),
    "Lion": dict(storage="param=bf16,stochastic m=bf16,stochastic", seed=5),
    "AdamW4bit": dict(),
    "SGD": dict(momentum=0.9, nesterov=True),
}
SUMS = {
    "LAMB": dict(max_grad_norm=1.0),
    "AdamW": dict(max_grad_norm=0.5, statistics=True),
    "Adagrad": dict(max_grad_norm="agc:0.01"),
    "GridOptim": dict(seed=3, weight_decay=3.0),
}


def train(name, words, place, steps=3, scaled=False):
    """(numbers of parameters and states, norms, statistics) after some steps; `place` makes tensors of whole ones."""
    torch.manual_seed(0)
    dtype = torch.bfloat16 if "stochastic" in words.get("storage", "") else torch.float32
    params = [torch.nn.Parameter(place(torch.randn(shape).to(dtype), index)) for index, shape in enumerate(SHAPES)]
    optimizer = getattr(altgrad.optim, name)(params, lr=0.1, **words)
    scaler, norms = altgrad.amp.GradScaler("cpu", init_scale=4.0) if scaled else None, []
    for step in range(steps):
        for index, (param, shape) in enumerate(zip(params, SHAPES)):
            grad = torch.randn(shape).to(dtype)
            if scaled and step == 1 and index == 2:
                grad.view(-1)[-1] = torch.nan  # on the last rank alone
            param.grad = place(grad, index)
        if scaled:
            scaler.scale(torch.ones(())), scaler.step(optimizer), scaler.update()
        else:
            optimizer.step()
        if optimizer.grad_norm is not None:
            norms.append(optimizer.grad_norm.item())
    said = {} if "statistics" not in words else {key: getattr(optimizer.statistics(), key).tolist() for key in (
        "grad_norm", "param_norm", "update_norm", "nonfinite", "steps")}
    assert optimizer.fallback_counts == {}
    kept = [{"param": param, **optimizer.state[param]} for param in params]
    assert all(isinstance(value, DTensor) == isinstance(of["param"], DTensor) for of in kept
               for value in of.values() if value.dim())
    return [{key: whole(value).flatten().float().tolist() for key, value in of.items()} for of in kept], norms, said


def whole(value):
    if not isinstance(value, DTensor):
        return value.detach()
    if value.dtype.is_floating_point and value.dtype.itemsize == 1:  # gloo cannot send them
        return DTensor.from_local(value.to_local().float(), value.device_mesh, value.placements, shape=value.shape,
                                  stride=value.stride()).full_tensor()
    return value.detach().full_tensor()


def plain(tensor, index):
    return tensor


def meshes(count):
    """How parameters are placed, by name."""
    mesh = init_device_mesh("cpu", (2, 2) if count == 4 else (count,))
    on = lambda *kinds: lambda tensor, index: distribute_tensor(tensor, mesh, kinds, src_data_rank=None)
    if count == 4:
        return {"hybrid": on(Replicate(), Shard(0)), "twice": on(Shard(0), Shard(0))}
    mixed = plain, on(Replicate()), on(Shard(0))
    return {"sharded": on(Shard(0)), "mixed": lambda tensor, index: mixed[index % 3](tensor, index)}


def elements(rank, group):
    return {how: [train(name, words, place) for name, words in ELEMENTS.items()]
            for how, place in meshes(group.size()).items()}


def sums(rank, group):
    return {how: [train(name, words, place) for name, words in SUMS.items()]
            + [train("AdamW", dict(max_grad_norm=0.5), place, scaled=True)]
            for how, place in meshes(group.size()).items()}


@pytest.mark.parametrize("count", [2, 3, 4])
def test_as_one_process(count, tmp_path):
    every, added = ranks.run([elements, sums], tmp_path, count)
    expected = [train(name, words, plain) for name, words in ELEMENTS.items()]
    for answer in every:
        assert not isinstance(answer, str), answer
        for how, got in answer.items():
            for name, one, other in zip(ELEMENTS, got, expected):
                for place, (a, b) in enumerate(zip(one[0], other[0])):
                    if name in ("AdamW8bit", "AdamW4bit") and SHAPES[place] == (6000,) and how != "mixed":
                        continue  # a vector that is cut has no blocks
                    assert a == b, (how, name, place, [key for key in a if a[key] != b[key]])
    expected = [train(name, words, plain) for name, words in SUMS.items()] + [
        train("AdamW", dict(max_grad_norm=0.5), plain, scaled=True)]
    for answer in added:
        assert not isinstance(answer, str), answer
        for how, got in answer.items():
            for name, one, other in zip([*SUMS, "scaled"], got, expected):
                assert one[1] == pytest.approx(other[1], rel=1e-6, nan_ok=True), (how, name)
                for key, values in one[2].items():
                    assert values == pytest.approx(other[2][key], rel=1e-5), (how, key)
                for a, b in zip(one[0], other[0]) if name != "GridOptim" else ():
                    assert all(a[key] == pytest.approx(b[key], rel=1e-4, abs=1e-5) for key in b), (how, name)
