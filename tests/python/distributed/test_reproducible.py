"""Sharded(..., reproducible=True): norms, and what follows from them, have the bits of one process on any number of ranks,
of plain parameters and of DTensors."""

import pytest
import ranks
import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import altgrad

SHAPES = (100, 90), (7,), (3, 50, 64), (50_000,), (12, 12), (64, 300)
CASES = {
    "AdamW": dict(lr=0.01, max_grad_norm=0.1),
    "LAMB": dict(lr=0.01, max_grad_norm=0.1),
    "SGD": dict(lr=0.1, momentum=0.9, max_grad_norm=0.5),
    "AdamW8bit": dict(lr=0.01, max_grad_norm=0.1, statistics=True),
}


def params_of():
    torch.manual_seed(0)
    dtypes = [torch.float32] * 4 + [torch.bfloat16] * 2
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape, dtype in zip(SHAPES, dtypes)]


def grads_of(params, step):
    """The same on all ranks, so that their average is exact. The last parameter has none in the second step."""
    torch.manual_seed(step)
    grads = [(torch.randn(param.shape) * 10.0 ** torch.randint(-3, 3, param.shape)).to(param.dtype) for param in params]
    return grads[:-1] if step == 1 else grads


def steps(name, words, make):
    params, norms = params_of(), []
    optimizer = make(getattr(altgrad.optim, name), params, **words)
    for step in range(3):
        for param, grad in zip(params, grads_of(params, step)):
            param.grad = grad
        optimizer.step()
        norms.append(optimizer.grad_norm)
        for param in params:
            param.grad = None
    return [param.detach().float().tolist() for param in params], [norm.item() for norm in norms if norm is not None]


def scaled(make):
    """Under a loss scaler, with a step that it skips and scales that change."""
    params = params_of()[:4]
    optimizer, norms = make(altgrad.optim.AdamW, params, lr=0.01, max_grad_norm=0.1), []
    scaler = altgrad.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step in range(5):
        scaler.scale(torch.ones(()))
        for param, grad in zip(params, grads_of(params, 0)):
            param.grad = grad * (float("inf") if step == 3 else scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        norms.append(optimizer.grad_norm.item())
        for param in params:
            param.grad = None
    return [param.detach().tolist() for param in params], norms


def every(make):
    return [*[steps(name, words, make) for name, words in CASES.items()], scaled(make)]


def sharded(rank, group):
    return every(lambda kind, params, **words: altgrad.distributed.Sharded(kind, params, bucket_bytes=60_000,
                                                                           reproducible=True, **words))


@pytest.mark.parametrize("count", [2, 4])
def test_norms_have_the_bits_of_one_process(tmp_path, count):
    alone = every(lambda kind, params, **words: kind(params, **words))
    answers, = ranks.run([sharded], tmp_path, count)
    for found in answers:
        assert not isinstance(found, str), found
        for name, one, other in zip([*CASES, "scaler"], found, alone):
            assert one[1] == other[1], (name, one[1], other[1])
            assert one[0] == other[0], name


def on_mesh(rank, group):
    """Shards of a mesh that end between chunks and within them, columns, and replicas."""
    count, found = group.size(), []
    square = init_device_mesh("cpu", (2, 2) if count == 4 else (count, 1))
    on = lambda kind: [Replicate(), kind] if count == 4 else [kind, Replicate()]
    places = on(Shard(0)), on(Replicate()), on(Shard(0)), on(Shard(1))
    for name in ("AdamW", "LAMB"):
        found.append(train(name, lambda tensor, index: distribute_tensor(
            tensor, square, places[index % 4], src_data_rank=None), altgrad.distributed.Sharded))
    return found


def on_meshes(rank, group):
    """Several meshes at once: slices, all ranks in one and two dimensions, and two that have half of the ranks each."""
    flat, square = init_device_mesh("cpu", (4,)), init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    first, second = [DeviceMesh("cpu", half) for half in ([0, 1], [2, 3])]
    homes = [(flat, [Shard(0)]), (square, [Shard(0), Shard(0)]), (square["dp"], [Shard(0)]), (square["tp"], [Replicate()]),
             (first, [Shard(0)]), (second, [Replicate()]), (square, [Replicate(), Shard(0)])]
    return [train(name, lambda tensor, index: distribute_tensor(tensor, *homes[index], src_data_rank=None),
                  altgrad.distributed.Sharded) for name in ("AdamW", "LAMB")]


def train(name, place, make=None):
    torch.manual_seed(0)
    shapes, norms = [(24, 4096), (50, 30), (24_576,), (40, 300), (6, 1000), (7,), (9000,)], []
    params = [torch.nn.Parameter(place(torch.randn(shape), index)) for index, shape in enumerate(shapes)]
    kind, words = getattr(altgrad.optim, name), dict(lr=0.01, max_grad_norm=0.1)
    optimizer = make(kind, params, reproducible=True, **words) if make else kind(params, **words)
    for step in range(3):
        for index, (param, shape) in enumerate(zip(params, shapes)):
            param.grad = place(torch.randn(shape) * 10.0 ** torch.randint(-3, 3, shape), index)
        optimizer.step()
        norms.append(optimizer.grad_norm.item())
    whole = [param.full_tensor() if make else param for param in params
             if not make or param.device_mesh.get_coordinate() is not None]
    return [param.detach().flatten().tolist() for param in whole], norms


@pytest.mark.parametrize("count", [2, 3, 4])
def test_shards_of_a_mesh_have_the_bits_of_one_process(tmp_path, count):
    answers, = ranks.run([on_mesh], tmp_path, count)
    expected = [train(name, lambda tensor, index: tensor) for name in ("AdamW", "LAMB")]
    for answer in answers:
        assert answer == expected, answer if isinstance(answer, str) else [of[1] for of in answer]


def test_shards_of_several_meshes_have_the_bits_of_one_process(tmp_path):
    answers, = ranks.run([on_meshes], tmp_path, 4)
    expected = [train(name, lambda tensor, index: tensor) for name in ("AdamW", "LAMB")]
    for rank, answer in enumerate(answers):
        assert not isinstance(answer, str), answer
        for (params, norms), (whole, alone) in zip(answer, expected):
            here = [of for place, of in enumerate(whole) if place != (5 if rank < 2 else 4)]  # without the other half's
            assert norms == alone and params == here
