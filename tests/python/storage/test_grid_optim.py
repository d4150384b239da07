"""GridOptim against definitions 7.1 and 7.2 in NumPy; its moves, counts, schedules."""

import numpy as np
import pytest
import torch

import altgrad.optim
import grids

HYPERS = dict(scale=6.0, momentum=0.9, weight_decay=1e-4, rung_clip=10)
SHAPES = [(33, 129), (5,), (4097,), (0,), ()]
OF = {"ocp.e4m3fn": torch.float8_e4m3fn, "ocp.e5m2": torch.float8_e5m2}


def model(seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]


def give(params, step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(100 + step)
    for param in params:
        spread = torch.exp2(-12 * torch.rand(param.shape, generator=generator))
        param.grad = (spread * torch.randn(param.shape, generator=generator) * (spread > 2**-11)).to(dtype)


def follow(step, optimizer, params, name, steps, **hypers):
    """Both side by side, from what the parameters are now: every value, velocity and count."""
    grid = grids.grid_of(name)
    want = [(p.detach().float().numpy().flatten(), np.zeros(p.numel(), np.float32)) for p in params]
    for number in range(1, steps + 1):
        give(params, number)
        flips = updates = 0
        for tag, param in enumerate(params):
            drawn = grids.rounding.draws(np.arange(param.numel()), 7, number, tag, 0)
            with np.errstate(over="ignore"):
                *new, flipped, updated = step(grid, *want[tag], param.grad.numpy().flatten(), drawn, **hypers)
            want[tag], flips, updates = new, flips + flipped, updates + updated
        assert [int(n) for n in optimizer.step()] == [flips, updates]
        for param, (value, velocity) in zip(params, want):
            assert (param.detach().float().numpy().flatten() == value).all()
            assert (optimizer.state[param]["velocity"].numpy().flatten() == velocity).all()


@pytest.mark.parametrize("name", OF)
@pytest.mark.parametrize("hypers", [HYPERS, dict(scale=0.3, momentum=0.5, weight_decay=0.1, rung_clip=2.5)])
def test_the_reference_profile_is_the_source(name, hypers):
    """From a start that lies on no grid, and beyond its ends."""
    params = model()
    with torch.no_grad():
        params[0][0] *= 1e6
    optimizer = altgrad.optim.GridOptim(params, fp8_dtype=OF[name], numerics="reference", seed=7, **hypers)
    follow(grids.reference_step, optimizer, params, name, 8, **hypers)


@pytest.mark.parametrize("name", ["ocp.e4m3fn", "ocp.e5m2", "altgrad.e3m4", "altgrad.e0m7", "altgrad.e7m0", "ocp.e2m1"])
def test_the_default_is_exact(name):
    params = model()
    optimizer = altgrad.optim.GridOptim(params, format=name, seed=7, **HYPERS)
    follow(grids.exact_step, optimizer, params, name, 8, **HYPERS)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.uint8])
def test_codes_move_as_their_numbers_do(dtype):
    """The same steps with parameters that hold codes, numbers in float32 and in bfloat16."""
    name = {torch.uint8: "altgrad.e3m4"}.get(dtype) or altgrad._binding.layout.FORMATS[dtype]
    form = grids.formats.named(name)
    start = torch.from_numpy(np.random.default_rng(1).integers(0, 256, 5000).astype(np.uint8))
    numbers = torch.from_numpy(grids.formats.decode(form, start.numpy()))
    keep = numbers.isfinite()
    start, numbers = start[keep], numbers[keep]
    codes = torch.nn.Parameter(start.clone().view(dtype), requires_grad=dtype != torch.uint8)
    all_of_them = [codes, torch.nn.Parameter(numbers.clone()), torch.nn.Parameter(numbers.bfloat16())]
    for param in all_of_them:
        optimizer = altgrad.optim.GridOptim([param], format=name, seed=3)
        counts = []
        for step in range(4):
            generator = torch.Generator().manual_seed(step)
            param.grad = torch.randn(len(start), generator=generator).bfloat16().to(
                torch.float32 if param is codes else param.dtype)
            counts += [int(n) for n in optimizer.step()]
        got = param.detach().view(torch.uint8).numpy() if param is codes else None
        value = param.detach().float().numpy() if got is None else grids.formats.decode(form, got)
        if param is codes:
            want, expected = value, counts
        assert (value == want).all() and counts == expected
        assert not (got is not None and (got == 0x80).any())
