"""altgrad.amp.GradScaler beside torch's optimizer: gradients of several meshes are unscaled, and one verdict is of all ranks."""

import pytest
import ranks
import torch
from meshes import SHAPES, place, places
from torch.distributed.tensor import DTensor

import altgrad

ALL = len(SHAPES) - 2  # those that every rank has


def train(homes, unscale):
    """(scales, the parameters that all ranks have) after five steps, of which one finds an infinity on some ranks alone."""
    torch.manual_seed(0)
    whole = list(map(torch.randn, SHAPES))
    params = [None if home is None else torch.nn.Parameter(place(value, home)) for value, home in zip(whole, homes)]
    optimizer = torch.optim.SGD([param for param in params if param is not None], lr=0.1, foreach=False)
    scaler, scales = altgrad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2), []
    for step in range(5):
        scaler.scale(torch.ones(()))
        for index, (param, shape, home) in enumerate(zip(params, SHAPES, homes)):
            grad = torch.randn(shape) * scaler.get_scale()
            if step == 2 and index == len(SHAPES) - 1:
                grad.view(-1)[-1] = torch.inf
            if param is not None:
                param.grad = place(grad, home)
        if unscale:
            scaler.unscale_(optimizer)
            altgrad.ops.clip_grad_norm_([param for param in params if param is not None], 0.5)
        scaler.step(optimizer), scaler.update()
        scales.append(scaler.get_scale())
    return scales, [(param.full_tensor() if isinstance(param, DTensor) else param).tolist() for param in params[:ALL]]


def on_meshes(rank, group):
    homes = places(group.size(), rank)
    return [train(homes, unscale) for unscale in (False, True)]


@pytest.mark.parametrize("count", [2, 4])
def test_as_one_process(count, tmp_path):
    answers, = ranks.run([on_meshes], tmp_path, count)
    expected = [train([()] * len(SHAPES), unscale) for unscale in (False, True)]
    assert expected[0][0] == [8.0, 16.0, 8.0, 8.0, 16.0]
    for answer in answers:
        assert not isinstance(answer, str), answer
        for (scales, params), (alone, whole) in zip(answer, expected):
            assert scales == alone
            for got, param in zip(params, whole):
                assert torch.tensor(got).allclose(torch.tensor(param), rtol=1e-5, atol=1e-6)
