"""Plain parameters and DTensors of several meshes in one optimizer: one norm and one verdict, as one process has them."""

import pytest
import ranks
import torch
from meshes import SHAPES, place, places
from torch.distributed.tensor import DTensor

import altgrad

CASES = {
    "norm": ("AdamW", dict(max_grad_norm=0.5)),
    "percentile": ("AdamW", dict(max_grad_norm="percentile:50")),
    "agc": ("Adagrad", dict(max_grad_norm="agc:0.01")),
    "lamb": ("LAMB", dict(max_grad_norm=0.5)),
    "unclipped lamb": ("LAMB", dict()),
    "measured": ("AdamW", dict(max_grad_norm=0.5, statistics=True)),
    "scaled": ("AdamW", dict(max_grad_norm=0.5)),
}


def train(case, homes):
    """(this rank's parameters, what each of six steps says)."""
    torch.manual_seed(0)
    name, words = CASES[case]
    whole = list(map(torch.randn, SHAPES))
    values = [None if home is None else torch.nn.Parameter(place(value, home)) for value, home in zip(whole, homes)]
    params = [value for value in values if value is not None]
    optimizer, said = getattr(altgrad.optim, name)(params, lr=0.1, **words), []
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2, enabled=case == "scaled")
    for step in range(6):
        for index, (param, shape, home) in enumerate(zip(values, SHAPES, homes)):
            grad = torch.randn(shape) * (1 + step)
            if case == "scaled" and step == 3 and index == len(SHAPES) - 1:  # on one half alone
                grad.view(-1)[-1] = torch.nan
            if param is not None:
                param.grad = place(grad, home)
        scaler.scale(torch.ones(())), scaler.step(optimizer), scaler.update()
        said += [scaler.get_scale(), *([] if optimizer.grad_norm is None else [optimizer.grad_norm.item()])]
    return [None if p is None else (p.full_tensor() if isinstance(p, DTensor) else p).tolist() for p in values], said


def on_meshes(rank, group):
    homes = places(group.size(), rank)
    return {case: train(case, homes) for case in CASES}


@pytest.mark.parametrize("count", [3, 4])
def test_as_one_process(count, tmp_path):
    answers, = ranks.run([on_meshes], tmp_path, count)
    expected = {case: train(case, [()] * len(SHAPES)) for case in CASES}
    for answer in answers:
        assert not isinstance(answer, str), answer
        for case, (params, said) in answer.items():
            assert repr(said) == repr(answers[0][case][1]), case  # the same bits on every rank
            assert said == pytest.approx(expected[case][1], rel=1e-6, nan_ok=True), case
            assert sum([param is None for param in params]) == 1  # the other half's expert
            for got, whole in zip(params, expected[case][0]):
                assert got is None or torch.tensor(got).allclose(torch.tensor(whole), rtol=1e-4, atol=1e-5), case
