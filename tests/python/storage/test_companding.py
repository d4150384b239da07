"""FlashOptim's companding in optimizers: what is kept, files, transcode, and what is refused."""

import copy
import io

import pytest
import torch

import altgrad

WORDS = "m=int8:32:f16,softsign v=uint8:32:f16,sqrt"


def made(*shapes, storage=WORDS):
    torch.manual_seed(1)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in shapes]
    return params, altgrad.optim.AdamW(params, lr=0.01, storage=storage)


def step(params, optimizer, seed):
    torch.manual_seed(seed)
    for param in params:
        param.grad = torch.randn_like(param)
    optimizer.step()


def number(state, key):
    """FlashOptim's inverse, in float64."""
    scale = state[key + "_scale"].double().repeat_interleave(32)[:state[key].numel()]
    if key == "exp_avg":
        y = state[key].double().flatten() / 127
        return y / (2 - y.abs()) * scale
    return (state[key].double().flatten() / 255 * scale) ** 2


def test_what_is_kept_and_what_it_stands_for():
    params, optimizer = made((70, 70), (63, 65), (0,), ())
    step(params, optimizer, 2)
    held, grad = optimizer.state[params[0]], params[0].grad.double().flatten()
    assert held["exp_avg"].dtype == torch.int8 and held["exp_avg_sq"].dtype == torch.uint8
    assert held["exp_avg_scale"].dtype == torch.float16 and held["exp_avg_scale"].shape == (154,)
    assert optimizer.state[params[1]]["exp_avg"].dtype == torch.float32
    tops = torch.nn.functional.pad(grad, (0, 28)).view(-1, 32).abs().amax(1).repeat_interleave(32)[:4900]
    # Half a code of 2x / (1 + |x|) is 1 / 127 of the largest number near it, 1 / 510 of a root; half a scale of f16 beside it.
    assert ((number(held, "exp_avg") - 0.1 * grad).abs() <= 0.1 * tops / 115).all()
    assert ((number(held, "exp_avg_sq").sqrt() - 0.001**0.5 * grad.abs()).abs() <= 0.001**0.5 * tops / 400).all()


def test_steps_stay_close_to_those_in_f32():
    params, optimizer = made((4096,))
    plain, other = made((4096,), storage="m=f32 v=f32")
    start = params[0].detach().clone()
    for seed in range(20):
        step(params, optimizer, seed)
        step(plain, other, seed)
    off = (params[0] - plain[0]).norm() / (plain[0] - start).norm()
    assert 0 < off < 0.03


def test_exact_resume_from_a_file_and_copies():
    params, optimizer = made((70, 70))
    twin, other = made((70, 70))
    step(params, optimizer, 0)
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file))
    twin[0].data.copy_(params[0])
    third = copy.deepcopy(optimizer)
    for run in (optimizer, other, third):
        step(run.param_groups[0]["params"], run, 5)
    for run in (other, third):
        param, = run.param_groups[0]["params"]
        assert torch.equal(param, params[0])
        for key, value in optimizer.state[params[0]].items():
            assert torch.equal(run.state[param][key], value), key


def test_a_number_that_is_not_finite_spoils_no_other_block():
    params, optimizer = made((70, 70))
    params[0].grad = torch.ones(70, 70)
    params[0].grad[0, 0], params[0].grad[0, 40] = torch.nan, torch.inf
    optimizer.step()
    held = optimizer.state[params[0]]
    assert held["exp_avg"].flatten()[0] == 0 and held["exp_avg"].flatten()[40] == 127
    assert held["exp_avg_scale"].isfinite().all() and held["exp_avg_sq_scale"].isfinite().all()
    assert (held["exp_avg"].flatten()[1:40] == 127).all()


@pytest.mark.parametrize("storage", [WORDS, "m=int8:64:f16 v=uint8:64,sqrt"])
def test_transcode_has_the_bytes_of_the_kernels(storage):
    """From f32 states and back: those that a step reads and writes again are the same."""
    params, optimizer = made((70, 70), storage="m=f32 v=f32")
    step(params, optimizer, 3)
    twin, other = made((70, 70), storage=storage)
    other.load_state_dict(altgrad.transcode(optimizer.state_dict(), to=other, report=None))
    same, third = made((70, 70), storage=storage)
    step(same, third, 3)
    for key in ("exp_avg", "exp_avg_scale", "exp_avg_sq", "exp_avg_sq_scale"):
        assert torch.equal(other.state[twin[0]][key], third.state[same[0]][key]), key
    again = altgrad.transcode(other.state_dict(), to="torch", storage=storage, report=None)
    for key in ("exp_avg", "exp_avg_sq"):
        off = (again["state"][0][key] - optimizer.state[params[0]][key]).abs().max()
        assert off < optimizer.state[params[0]][key].abs().max() / 100


def test_scales_of_another_dtype_are_refused():
    params, optimizer = made((70, 70))
    step(params, optimizer, 0)
    held = optimizer.state[params[0]]
    held["exp_avg_scale"] = held["exp_avg_scale"].float()
    with pytest.raises(ValueError, match=r"is torch.float32 of shape .*expected contiguous float16"):
        optimizer.step()


@pytest.mark.parametrize("storage, words", [
    ("m=int8,softsign", "says 'softsign', which is of codes of a state in int8"),
    ("v=int8:32,sqrt", "says 'sqrt', which is of codes of a state in uint8"),
    ("m=int8:32:bf16", "scales are in f32, f16 or ocp.e8m0")])
def test_words_that_say_nothing_are_refused(storage, words):
    with pytest.raises((altgrad.Error, ValueError), match=words):
        params, optimizer = made((70, 70), storage=storage)
        step(params, optimizer, 0)
