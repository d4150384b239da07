"""torch's default dtype and other global settings: no tensor of a step follows them, and what would is kept from kernels."""

import pytest
import torch
import twins

import altgrad
import modes
from altgrad.optim import _states

CASES = {
    "rows": lambda ps: altgrad.optim.NorMuon(ps),
    "of a rule": lambda ps: altgrad.optim.FromRule("normuon")(ps),
    "scaled copy": lambda ps: altgrad.optim.AdamW(ps, storage="copy=ocp.e4m3fn,delayed:2"),
    "8 bits": lambda ps: altgrad.optim.AdamW8bit(ps, max_grad_norm="percentile:50", statistics=True),
    "stochastic": lambda ps: altgrad.optim.AdamW(ps, storage="states=bf16,stochastic", seed=1),
}
SETTINGS = ["bfloat16,meta,filled", "float64,dispatch", "float16,function,autocast", "float64,inference"]


def train(make, settings):
    """What three steps, a file and two more leave: of parameters, states and groups."""
    torch.manual_seed(0)
    params, = twins.make([(512, 64), (64, 128)], count=1)
    for part in (3, 2):
        with modes.under(settings):
            optimizer = make(params)
            if part == 2:
                optimizer.load_state_dict(twins.through_a_file(state))
        for _ in range(part):
            twins.give_grads(params)
            with modes.under(settings):
                optimizer.step()
        with modes.under(settings):
            state = optimizer.state_dict()
    held = [value for of in optimizer.state.values() for value in of.values()]
    return [*params, *held, *[value for value in optimizer.param_groups[0].values() if isinstance(value, torch.Tensor)]]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("name", CASES)
def test_steps_files_and_resumes_have_the_same_bits_and_dtypes(name, settings):
    expected, found = train(CASES[name], []), train(CASES[name], settings.split(","))
    assert [(of.dtype, of.device, of.shape, of.is_inference()) for of in found] == [
        (of.dtype, of.device, of.shape, False) for of in expected]
    for mine, theirs in zip(found, expected):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("settings", SETTINGS)
def test_numbers_of_functions_stay_float32(settings):
    with modes.under(settings.split(",")):
        scale, tracker = altgrad.dynamic_loss_scale_update(torch.zeros((), device="cpu"), 65537.0, 3)
        nothing = [altgrad.clip_grad_norm_([], 1.0), altgrad.compute_global_grad_norm([]),
                   *altgrad.fused_grad_unscale_clip([], 1.0, 2.0)[1:]]
    assert scale.dtype == torch.float32 and scale.item() == 65537.0 and tracker.item() == 4
    assert {(of.dtype, of.device.type, of.item()) for of in nothing} == {(torch.float32, "cpu", 0.0)}


def test_what_torch_makes_in_our_step_is_not_on_the_default_device():
    param = torch.nn.Parameter(torch.ones(3, dtype=torch.float64))
    param.grad = torch.ones_like(param)
    optimizer = altgrad.optim.AdamW([param])
    with modes.under(["meta"]):
        optimizer.step()
        optimizer.step()
    assert param.max() < 1 and {state.device.type for state in optimizer.state[param].values()} == {"cpu"}


WRONG = {"dtype": lambda state: state.bfloat16(), "size": lambda state: state[:8],
         "memory": lambda state: torch.ones(()).expand(state.shape),  # one number, said to be many
         "order": lambda state: state.t().contiguous().t()}


def make_wrongly(monkeypatch, wrong):
    new = _states.new_state
    monkeypatch.setattr(_states, "new_state", lambda *of: wrong(new(*of)))


@pytest.mark.parametrize("what", WRONG)
def test_what_we_make_wrongly_reaches_no_kernel(what, monkeypatch):
    params, = twins.make([(512, 64)], count=1)
    twins.give_grads(params)
    before = params[0].clone()
    optimizer = altgrad.optim.NorMuon(params)
    make_wrongly(monkeypatch, WRONG[what])
    with pytest.raises(altgrad.Error, match="what is kept as '.*' has .* values of torch's dtype"):
        optimizer.step()
    assert torch.equal(params[0], before)


def test_scales_that_we_make_wrongly_reach_no_kernel(monkeypatch):
    params, = twins.make([(64, 128)], count=1)
    twins.give_grads(params)
    make_wrongly(monkeypatch, lambda state: state[:31] if state.dim() == 1 else state)
    with pytest.raises(altgrad.Error, match="'m' has 31 values .* where the step has 32"):
        altgrad.optim.AdamW8bit(params).step()
