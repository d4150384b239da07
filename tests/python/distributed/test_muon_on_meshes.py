"""Muon of plain parameters and DTensors of several meshes together: the bits of one process, whatever the meshes."""

import copy

import pytest
import ranks
import torch
from meshes import place
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

import altgrad

SHAPES = (48, 96), (64, 40), (33, 64), (56, 24), (40, 48), (7,), (24,), (30, 20)
MUON = 5  # the first ones and the last one are Muon's
STEPS = 3


def places(count):
    """[(mesh, placements) of each parameter, () of a plain one]: FSDP2, TP, HSDP, a slice, plain ones, and half of the ranks."""
    flat = init_device_mesh("cpu", (count,))
    square = init_device_mesh("cpu", (2, 2) if count == 4 else (1, count), mesh_dim_names=("dp", "tp"))
    half = DeviceMesh("cpu", list(range(max(1, count // 2))))
    return [(flat, [Shard(0)]), (square, [Shard(0), Shard(1)]), (square, [Replicate(), Shard(0)]), (), (square["tp"], [Shard(1)]),
            (flat, [Shard(0)]), (), (half, [Shard(0)])]


def train(make, homes=None, **words):
    """(parameters, None of one that is elsewhere; norms) after some steps."""
    torch.manual_seed(0)
    homes = homes or [()] * len(SHAPES)
    params = [torch.nn.Parameter(place(torch.randn(shape), home)) for shape, home in zip(SHAPES, homes)]
    optimizer = make([{"params": [*params[:MUON], params[-1]]}, {"params": params[MUON:-1], "use_muon": False}], lr=0.02, **words)
    norms = []
    for _ in range(STEPS):
        for param, home, shape in zip(params, homes, SHAPES):
            param.grad = place(torch.randn(shape), home)
        optimizer.step()
        norms.append(None if optimizer.grad_norm is None else optimizer.grad_norm.item())
    return [None if home and home[0].get_coordinate() is None else (p.full_tensor() if isinstance(p, DTensor) else p).tolist()
            for p, home in zip(params, homes)], norms


WORDS = dict(), dict(max_grad_norm=1.0, reproducible=True), dict(max_grad_norm=1.0)


def nor_muon(params, **words):
    return altgrad.distributed.Sharded(altgrad.optim.NorMuon, params, **words)


# The class of altgrad.optim that each has the bits of.
MAKERS = {"DistMuon": (altgrad.distributed.DistMuon, altgrad.optim.Muon), "Muon": (altgrad.optim.Muon, altgrad.optim.Muon),
          "NorMuon": (altgrad.optim.NorMuon, altgrad.optim.NorMuon), "Sharded": (nor_muon, altgrad.optim.NorMuon)}
CASES = [(name, words) for name in MAKERS for words in WORDS if name in ("DistMuon", "Sharded") or "reproducible" not in words]


def on_meshes(rank, group):
    return [train(MAKERS[name][0], places(group.size()), **words) for name, words in CASES]


def whole(param):
    return (param.detach().full_tensor() if isinstance(param, DTensor) else param.detach()).clone()


def made_of(values, homes):
    params = [torch.nn.Parameter(place(value, home)) for value, home in zip(values, homes)]
    return params, altgrad.optim.Muon([{"params": params[:MUON]}, {"params": params[MUON:], "use_muon": False}], lr=0.02, ema=0.9,
                                      statistics=True)


def step(params, optimizer, homes, number):
    torch.manual_seed(number)
    for param, home in zip(params, homes):
        param.grad = place(torch.randn(param.shape), home)
    grads = [param.grad for param in params]
    optimizer.step()
    assert all(param.grad is grad for param, grad in zip(params, grads))
    return [whole(param).tolist() for param in params]


def resumed(rank, group):
    """A run that goes on from its file has the bits of one that went on; averages come and go; a copy is refused."""
    homes = places(group.size())[:-1]
    torch.manual_seed(0)
    params, optimizer = made_of(list(map(torch.randn, SHAPES[:-1])), homes)
    for number in range(2):
        step(params, optimizer, homes, number)
    with pytest.raises(TypeError, match="neither copied nor pickled"):
        copy.deepcopy(optimizer)
    kept = copy.deepcopy(optimizer.state_dict())
    others, again = made_of(list(map(whole, params)), homes)
    again.load_state_dict(kept)
    assert step(params, optimizer, homes, 2) == step(others, again, homes, 2)
    with again.ema_weights():
        average = list(map(whole, others))
    assert optimizer.statistics().steps.item() == 3
    return [of.tolist() for of in average]


def test_a_run_goes_on_from_its_file(tmp_path):
    answers, = ranks.run([resumed], tmp_path, 4)
    homes = [()] * (len(SHAPES) - 1)
    torch.manual_seed(0)
    params, optimizer = made_of(list(map(torch.randn, SHAPES[:-1])), homes)
    for number in range(3):
        step(params, optimizer, homes, number)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer == [optimizer.state[param]["ema"].tolist() for param in params]


@pytest.mark.filterwarnings("ignore:.*max_grad_norm only changes")
@pytest.mark.parametrize("count", [2, 4])
def test_as_one_process(count, tmp_path):
    answers, = ranks.run([on_meshes], tmp_path, count)
    expected = [train(MAKERS[name][1], **words) for name, words in CASES]
    for answer in answers:
        assert not isinstance(answer, str), answer
        for (params, norms), (whole, alone), words in zip(answer, expected, [words for _, words in CASES]):
            exact = "max_grad_norm" not in words or "reproducible" in words
            assert norms == (alone if exact else pytest.approx(alone, rel=1e-6))
            for got, param in zip(params, whole):
                assert got is None or (got == param if exact else torch.tensor(got).allclose(torch.tensor(param), atol=1e-4))
