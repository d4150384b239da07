"""DistMuon, and Muon itself, on FSDP2's and tensor parallel parameters, and under loss scalers: the bits of one process, and a NaN on one rank skips all."""

import functools

import pytest
import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

import altgrad

SHAPES = (48, 96), (96, 48), (33, 64), (2, 200), (7,), (40, 6), (9, 3, 4, 4), (64, 64)
FROZEN = 7
SCALERS = {"none": None, "altgrad": altgrad.amp.GradScaler, "torch": torch.amp.GradScaler}
WORDS = {"": {}, "clip": dict(max_grad_norm=1.0), "bits": dict(max_grad_norm=1.0, reproducible=True)}
STEPS, BROKEN = 4, 2


class Model(torch.nn.Module):
    """The gradients of its loss are what it is called with."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.params = torch.nn.ParameterList([torch.randn(shape) for shape in SHAPES])
        self.params[FROZEN].requires_grad_(False)

    def forward(self, grads):
        return sum([(param * grad).sum() for param, grad in zip(self.params, grads)])


def grads_of(step, rank, count, scaled):
    """Whole numbers, whose averages are exact; of a scaled step with a NaN on the last rank."""
    torch.manual_seed(100 * step + rank)
    grads = [torch.randint(-10, 11, shape).float() * count for shape in SHAPES]
    if scaled and step == BROKEN and rank == count - 1:
        grads[0][0, 0] = torch.nan
    return grads


def train(model, make, grads, kind, **words):
    """(parameters, norms, which of the steps were skipped) after some steps."""
    params = list(model.parameters())
    optimizer = make([{"params": [p for p in params if p.dim() > 1]},
                      {"params": [p for p in params if p.dim() < 2], "use_muon": False, "lr": 1e-3}], lr=0.02, **words)
    scaler, norms, skipped = kind and kind("cpu", init_scale=64.0), [], []
    for step in range(STEPS):
        before = [numbers(param) for param in params]
        optimizer.zero_grad()
        loss = model(grads(step))
        (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer), scaler.update()
        else:
            optimizer.step()
        norms.append(optimizer.grad_norm.item() if words else 0.0)
        if before == [numbers(param) for param in params]:
            skipped.append(step)
    assert scaler is None or scaler.get_scale() == 32.0
    return [numbers(param) for param in params], norms, skipped


def numbers(param):
    return (param.full_tensor() if hasattr(param, "full_tensor") else param).detach().flatten().tolist()


def in_columns(rank, group):
    """Matrices of tensor parallel layers on a mesh of two dimensions, in rows and columns at a time."""
    mesh = init_device_mesh("cpu", (2, 2))
    kinds = [Shard(0), Shard(1)], [Replicate(), Shard(1)], [Shard(1), Replicate()], [Shard(0), Shard(0)]
    return of_columns(altgrad.distributed.DistMuon, lambda tensor, place: distribute_tensor(
        tensor, mesh, kinds[place % 4], src_data_rank=None))


def of_columns(make, put):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(put(torch.randn(shape), place)) for place, shape in enumerate(SHAPES[:4])]
    optimizer = make(params, lr=0.02)
    for step in range(2):
        for place, param in enumerate(params):
            param.grad = put(torch.randn(param.shape), place)
        optimizer.step()
    return [numbers(param) for param in params]


def on_ranks(rank, group):
    count, found = group.size(), {}
    meshes = {"hybrid": (2, 2)} if count == 4 else {"plain": None, "sharded": (count,)}
    makers = {"DistMuon": altgrad.distributed.DistMuon, "Muon": altgrad.optim.Muon}
    for how, shape, make in [(f"{how} {make}", shape, make) for how, shape in meshes.items() for make in makers if shape or make != "Muon"]:
        for name, kind in SCALERS.items():
            if make == "Muon" and name == "torch":  # which looks at gradients itself
                continue
            for said, words in WORDS.items() if name == "none" else [("", {})]:
                if make == "Muon" and said == "bits":  # of products alone
                    continue
                model = Model()
                if shape:
                    fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape):]))
                found[how, name, said] = train(model, makers[make], lambda step: grads_of(
                    step, rank, count, kind), kind, **words)
    return found


@functools.cache
def alone(count, name, said):
    """One process with the averages of `count`."""
    def average(step):
        return [sum(of) / count for of in zip(*[grads_of(step, rank, count, SCALERS[name]) for rank in range(count)])]
    with pytest.warns(UserWarning) if said else pytest.MonkeyPatch.context():
        return train(Model(), altgrad.optim.Muon, average, SCALERS[name], **WORDS[said])


@pytest.mark.parametrize("count", [1, 3, 4])
@pytest.mark.filterwarnings("ignore:.*max_grad_norm only changes")
def test_as_one_process(count, tmp_path):
    answers, *columns = ranks.run([on_ranks, *[in_columns] * (count == 4)], tmp_path, count)
    assert all(answer == of_columns(altgrad.optim.Muon, lambda tensor, _: tensor) for of in columns for answer in of), columns
    for answer in answers:
        assert not isinstance(answer, str), answer
        for (how, name, said), (params, norms, skipped) in answer.items():
            expected = alone(count, name, said)
            assert skipped == expected[2] == ([BROKEN] if name != "none" else []), (how, name)
            assert norms == (pytest.approx(expected[1], rel=1e-6) if said == "clip" else expected[1]), (how, said)
            for place, (a, b) in enumerate(zip(params, expected[0])):
                assert a == (pytest.approx(b, rel=1e-3, abs=1e-4) if said == "clip" else b), (how, name, said, place)
