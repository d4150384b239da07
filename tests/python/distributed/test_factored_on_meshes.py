"""Numbers of rows and columns of DTensors, of several meshes and beside plain parameters: the bits of one process."""

import copy

import pytest
import ranks
import torch
from meshes import place
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import altgrad

SHAPES = (48, 96), (65, 40), (33, 7), (24,), (5,), (3, 4, 6)
KINDS = {"Adafactor": dict(lr=0.05, weight_decay=0.1), "CAME": dict(max_grad_norm=1.0), "SM3": dict(momentum=0.9)}


def places(count):
    """(mesh, placements) of each parameter, () of a plain one."""
    flat = init_device_mesh("cpu", (count,))
    square = init_device_mesh("cpu", (2, 2) if count == 4 else (1, count))
    return [(flat, [Shard(0)]), (flat, [Shard(1)]), (square, [Replicate(), Shard(0)]), (flat, [Shard(0)]), (), (square, [Shard(0), Shard(1)])]


def whole(param):
    return (param.detach().full_tensor() if isinstance(param, DTensor) else param.detach()).clone()


def train(name, homes, words, halves=False):
    """The parameters after six steps; `halves`: the last three by another optimizer, from the file of the first."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(place(torch.randn(shape), home)) for shape, home in zip(SHAPES, homes)]
    optimizer = getattr(altgrad.optim, name)(params, **words)
    for step in range(6):
        if halves and step == 3:
            kept, optimizer = copy.deepcopy(optimizer.state_dict()), type(optimizer)(params, **words)
            optimizer.load_state_dict(kept)
        torch.manual_seed(step)
        for param, home, shape in zip(params, homes, SHAPES):
            param.grad = place(torch.randn(shape), home)
        optimizer.step()
    return [whole(param).tolist() for param in params]


def on_meshes(rank, group):
    return [train(name, places(group.size()), words, halves) for name, words in KINDS.items() for halves in (False, True)]


@pytest.mark.parametrize("count", [2, 3])
def test_as_one_process(count, tmp_path):
    answers, = ranks.run([on_meshes], tmp_path, count)
    expected = [train(name, [()] * len(SHAPES), words) for name, words in KINDS.items() for _ in range(2)]
    for answer in answers:
        assert not isinstance(answer, str), answer
        for found, alone, (name, halves) in zip(answer, expected, [(name, halves) for name in KINDS for halves in (0, 1)]):
            if name == "CAME":  # whose clip adds up the norms of all ranks in another order
                torch.testing.assert_close(list(map(torch.tensor, found)), list(map(torch.tensor, alone)))
            else:
                assert found == alone, (name, halves)
