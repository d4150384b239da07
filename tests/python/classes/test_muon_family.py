"""The arguments by which Muons differ: coefficients, steps, formats, scales and profiles."""

import altgrad
from altgrad.optim import NewtonSchulz
import pytest
import torch

YOU = ((4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
       (2.8366, -3.0525, 1.2012))
POLAR = ((8.2051, -22.9019, 16.4607), (4.0664, -2.8612, .5184), (3.9096, -2.8234, .5250), (3.2856, -2.4153, .4853),
         (2.2779, -1.6198, .3985))


def gradient(shape, seed=0):
    """Singular values from 1 to 20, all the same way."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def update(shape, gradient, **given):
    """What one step subtracts from a parameter of zeros, over lr."""
    param = torch.nn.Parameter(torch.zeros(shape))
    param.grad = gradient.clone()
    altgrad.optim.Muon([param], **{"lr": 1.0, "weight_decay": 0.0, **given}).step()
    return -param.detach()


def iterate(x, rows, length):
    """The iteration in float64, by its definition."""
    x = x.double() / length(x.double().norm())
    tall = x.shape[0] > x.shape[1]
    x = x.mT if tall else x
    for a, b, c in rows:
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


@pytest.mark.parametrize("shape", [(40, 40), (32, 50), (300, 700), (700, 300), (1, 9)], ids=str)
@pytest.mark.parametrize("steps", [1, 4, 5, 7])
def test_float32_is_the_iteration_in_float64_in_either_form(shape, steps):
    """From 1.5 on the Gram form; 300 rows and more are multiplied in strips."""
    given = gradient(shape)
    ours = update(shape, given, nesterov=False, orthogonalize=NewtonSchulz(dtype=torch.float32, steps=steps, scale="match_rms_adamw"))
    wanted = iterate(given, [(3.4445, -4.775, 2.0315)] * steps, lambda norm: norm)
    assert torch.allclose(ours.double() / (0.2 * max(shape) ** 0.5), wanted, atol=2e-4, rtol=0)


@pytest.mark.parametrize("rows", [((3.4445, -4.775, 2.0315),) * 5, YOU, POLAR], ids=["jordan", "you", "polar"])
@pytest.mark.parametrize("shape", [(96, 192), (600, 150)], ids=str)
def test_elongated_matrices_keep_singular_values_in_float16_as_well_as_in_bfloat16(shape, rows):
    """Beside the iteration in float64, of values that fall from 1 to 1e-4."""
    left, _, right = torch.linalg.svd(gradient(shape).double(), full_matrices=False)
    given = (left * torch.logspace(0, -4, min(shape)) @ right).float()
    exact, errors = iterate(given, rows, lambda norm: norm), []
    for dtype in (torch.float16, torch.bfloat16):
        ours = update(shape, given, nesterov=False, ns_steps=len(rows),
                      orthogonalize=NewtonSchulz(dtype=dtype, coefficients=rows, scale="match_rms_adamw"))
        ours = ours.double() / (0.2 * max(shape) ** 0.5)
        off = (torch.linalg.svdvals(ours) - torch.linalg.svdvals(exact)).abs()
        errors.append(torch.stack([off.max(), off.mean(), (ours - exact).norm()]))
    assert (errors[0] < errors[1]).all(), errors


@pytest.mark.parametrize("length", ["clamped", "added"])
def test_a_step_in_float16_does_not_depend_on_the_size_of_the_gradient(length):
    """Which may be beyond the numbers of float16: 6e-8 to 65504."""
    given, steps = gradient((16, 64)), []
    for exponent in (0, -40, -24, 10, 17, 40):
        steps.append(update((16, 64), given * 2.0 ** exponent, eps=1e-20, orthogonalize=NewtonSchulz(dtype=torch.float16, length=length)))
    assert torch.linalg.svdvals(steps[0]).min() > 0.6 and all(torch.equal(steps[0], one) for one in steps)
    assert not update((16, 64), torch.zeros(16, 64), eps=1e-20, orthogonalize=NewtonSchulz(dtype=torch.float16, length=length)).any()


@pytest.mark.parametrize("written", [False, True])
def test_elongated_matrices_lose_no_singular_value_of_cans_in_float16(written):
    """Values from 1 to 0.01, of which the Gram form in float16 is off by more than 0.5, and the other one by 0.025."""
    rows = ((8.4703, -25.1081, 18.6293), (4.1828, -3.1087, .5806), (3.9619, -2.9541, .5630), (3.2866, -2.4647, .5074), (2.2737, -1.6447, .4162))
    for seed in (19, 30, 37, 39):
        left, _, right = torch.linalg.svd(gradient((64, 256), seed).double(), full_matrices=False)
        given = (left * torch.logspace(0, -2, 64) @ right).float()
        ours = update((64, 256), given, nesterov=False, orthogonalize=NewtonSchulz(
            dtype=torch.float16, coefficients=rows if written else "cans", scale="match_rms_adamw")).double() / 3.2
        exact = iterate(given, rows, lambda norm: norm)
        assert (torch.linalg.svdvals(ours) - torch.linalg.svdvals(exact)).abs().max() < 0.1


@pytest.mark.parametrize("name, interval", [("polar_gns", (0.846, 1.124)), ("polar_dion", (0.859, 1.141)),
                                            ("you", (0.978, 1.032)), ("jordan", (0.682, 1.134))])
def test_singular_values_are_in_the_interval_of_the_set(name, interval):
    ours = update((128, 512), gradient((128, 512)), orthogonalize=NewtonSchulz(dtype=torch.float32, coefficients=name))
    values = torch.linalg.svdvals(ours.double())
    assert interval[0] - 1e-3 <= values.min() and values.max() <= interval[1] + 1e-3


def test_rows_that_are_written_are_the_set_of_that_name():
    given = gradient((24, 60))
    assert torch.equal(update((24, 60), given, ns_coefficients=YOU), update((24, 60), given, ns_coefficients="you"))


def test_a_scale_that_is_not_clamped_shrinks_wide_matrices():
    given = gradient((16, 64))
    assert torch.equal(2 * update((16, 64), given, adjust_lr_fn="spectral_unclamped"), update((16, 64), given))


def test_presets_decide_what_is_not_given():
    params = lambda: [torch.nn.Parameter(torch.zeros(2, 3))]
    group, = altgrad.optim.Muon(params(), preset="kj", weight_decay=0.5).param_groups
    assert (group["lr"], group["weight_decay"], group["ns_length"]) == (0.02, 0.5, "added")
    group, = altgrad.optim.Muon(params(), 0.3, preset="dion").param_groups
    assert (group["lr"], group["nesterov"], group["ns_coefficients"]) == (0.3, False, "polar_dion")


def test_the_preset_of_kellerjordan_is_its_formula():
    """p <- p - lr sqrt(max(1, rows / columns)) NS(g), in float64 but for the operand and what follows."""
    given = gradient((90, 30))
    ours = update((90, 30), given, preset="kj", orthogonalize=NewtonSchulz(dtype=torch.float32), lr=1.0)
    wanted = 3 ** 0.5 * iterate(given, [(3.4445, -4.775, 2.0315)] * 5, lambda norm: norm + 1e-7)
    assert torch.allclose(ours.double(), wanted, atol=3e-4, rtol=0)


@pytest.mark.parametrize("given, words", [
    ({"ns_steps": 4, "ns_coefficients": "you"}, "4 steps; these coefficients are for 5 steps"),
    ({"ns_steps": 0}, "ns_steps is 0, no whole number of 1 to 99"),
    ({"ns_coefficients": "yuo"}, "no known coefficients; write a name"),
    ({"ns_coefficients": (1.0, 2.0)}, "neither three finite numbers nor three for each step"),
    ({"ns_coefficients": (1.0, float("nan"), 2.0)}, "neither three finite numbers"),
    ({"ns_coefficients": (1e300, 1.0, 2.0)}, "neither three finite numbers"),
    ({"preset": "adam"}, "preset is 'adam', none of 'torch', 'kj'"),
], ids=lambda value: str(value)[:40])
def test_what_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.Muon([torch.nn.Parameter(torch.zeros(2, 3))], **given)


def test_a_clip_in_front_of_muon_is_warned_of_once():
    with pytest.warns(UserWarning, match="max_grad_norm only changes how much a step weighs") as warned:
        altgrad.optim.Muon([torch.nn.Parameter(torch.zeros(2, 3))], max_grad_norm=1.0)
    assert len(warned) == 1 and warned[0].filename == __file__


def test_a_gradient_that_is_nan_is_visible_in_its_matrix_alone():
    params = [torch.nn.Parameter(torch.ones(4, 6)) for _ in range(2)]
    for param in params:
        param.grad = gradient((4, 6))
    params[1].grad[2, 3] = float("nan")
    altgrad.optim.Muon(params).step()
    assert torch.isfinite(params[0]).all() and params[1].isnan().all()
