"""What GridOptim's source tests of it, and what it must stand: counts, schedules, files, odd gradients, bad words."""

import copy

import numpy as np
import pytest
import torch

import altgrad
import altgrad.optim
import grids

GRID = grids.grid_of("ocp.e4m3fn")


def parameter(values, grad=None):
    param = torch.nn.Parameter(torch.tensor(values, dtype=torch.float32))
    param.grad = None if grad is None else torch.full_like(param, grad)
    return param


def rung(values):
    return np.searchsorted(GRID, np.asarray(values.detach() if torch.is_tensor(values) else values, np.float32))


def train(optimizer, params, steps):
    counts = []
    for step in steps:
        for place, param in enumerate(params):
            generator = torch.Generator().manual_seed(100 * step + place)
            param.grad = torch.randn(param.shape, generator=generator)
        counts.append([int(n) for n in optimizer.step()])
    return counts


def test_values_stay_on_the_grid():
    params = [torch.nn.Parameter(torch.randn(64, 33)), torch.nn.Parameter(torch.randn(7).bfloat16())]
    optimizer = altgrad.optim.GridOptim(params)
    for _ in range(5):
        for param in params:
            param.grad = torch.randn_like(param)
        optimizer.step()
    assert all(np.isin(param.detach().float().numpy(), GRID).all() for param in params)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_gradient_moves_against_its_sign(sign):
    """6 x 0.5 is three rungs, without a draw's say; from a subnormal through zero, too."""
    param = parameter([1.0, -1.0, 2.0**-9, 0.0, 448.0, -448.0], 0.5 * sign)
    old = rung(param)
    flips, updates = altgrad.optim.GridOptim([param], weight_decay=0.0).step()
    assert (rung(param) == np.clip(old - 3 * sign, 0, 252)).all()
    assert (int(flips), int(updates)) == (5, 6)


@pytest.mark.parametrize("numerics", [None, "reference"])
def test_the_clip_bounds_a_move(numerics):
    param = parameter([1.0] * 1000, 1e30)
    optimizer = altgrad.optim.GridOptim([param], rung_clip=4, numerics=numerics)
    optimizer.step()
    assert (rung([1.0]) - rung(param) == 4).all()


def test_momentum_adds_up():
    """Velocities 0.1, 0.19, 0.271: with a scale of 10 moves of 1, 1.9, 2.71 on average."""
    param, old = parameter([1.0] * 20000, 0.1), rung([1.0])
    optimizer = altgrad.optim.GridOptim([param], scale=10.0, weight_decay=0.0)
    for expected in (1.0, 2.9, 5.61):
        optimizer.step()
        assert abs((old - rung(param)).mean() - expected) < 0.02
    assert torch.allclose(optimizer.state[param]["velocity"], torch.tensor(0.271))


def test_flips_and_updates_are_counted():
    """Gradients of up to 1e-10 are none; what stays where it was has not flipped; a skipped step does neither."""
    param = parameter([1.0, 1.0, 1.0, 1.0, 448.0, 1.0])
    param.grad = torch.tensor([0.0, 1e-10, 2e-10, 1.0, -1.0, -1.0])
    optimizer = altgrad.optim.GridOptim([param], weight_decay=0.0, statistics=True)
    assert [int(n) for n in optimizer.step()] == [2, 4]
    said = optimizer.statistics()
    assert said.updates.tolist() == [4] and said.flips.tolist() == [2] and said.flips_up.tolist() == [1]
    assert said.saturated.tolist() == [1] and said.stall_ratio.tolist() == [0.5]
    assert said.lost.tolist() == [3]  # two that were too short, one at the end
    assert said.summary()["stall_ratio"] == 0.5 and "flips" in said.table()
    optimizer.grad_scale, optimizer.found_inf = torch.tensor(1.0), torch.tensor(1.0)
    assert [int(n) for n in optimizer.step()] == [0, 0]
    assert int(optimizer.skipped_steps) == 1


def test_a_scale_for_one_step():
    param = parameter([1.0], 0.5)
    optimizer = altgrad.optim.GridOptim([param], scale=6.0, momentum=0.0, weight_decay=0.0)
    for scale, moved in ((None, 3), (2.0, 1), (torch.tensor(4.0), 2), (0.0, 0), (None, 3)):
        old = rung(param)
        optimizer.step(scale)
        assert old - rung(param) == moved and optimizer.param_groups[0]["scale"] == 6.0
    for wrong in (float("nan"), -1.0, "fast"):
        with pytest.raises(ValueError, match=f"Invalid current_scale value: {wrong}"):
            optimizer.step(wrong)
    assert optimizer.param_groups[0]["scale"] == 6.0


@pytest.mark.parametrize("cls, more", [(altgrad.optim.GridOptim, {}), (altgrad.optim.AdamW, dict(storage="rungs=ocp.e4m3fn"))])
def test_clips_to_a_share_of_the_parameter_have_the_bits_of_clipped_gradients(cls, more):
    ours, plain = parameter([2.0] + [0.0] * 99, 4.0), parameter([2.0] + [0.0] * 99, 1.0)
    clipped, whole = cls([ours], seed=1, max_grad_norm="agc:0.5", **more), cls([plain], seed=1, **more)
    for grad in (ours.grad, plain.grad):
        grad[1:] = 0.0  # their norms are 4 and 1, the parameter's is 2
    clipped.step(), whole.step()
    assert torch.equal(ours, plain) and all(
        torch.equal(value, whole.state[plain][key]) for key, value in clipped.state[ours].items())


def test_schedulers_of_torch_set_a_factor_of_the_scale():
    param = parameter([1.0], 0.5)
    optimizer = altgrad.optim.GridOptim([param], scale=6.0, momentum=0.0, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda turn: [1.0, 1 / 3, 2 / 3, 0.0][turn % 4])
    for scale, moved in ((None, 3), (None, 1), (3.0, 1), (None, 0), (2.0, 1)):
        old = rung(param)
        optimizer.step(scale)
        schedule.step()
        assert old - rung(param) == moved and optimizer.param_groups[0]["scale"] == 6.0
    for wrong in (float("nan"), -1.0):
        optimizer.param_groups[0]["lr"] = wrong
        with pytest.raises(ValueError, match=f"Invalid lr value: {wrong}"):
            optimizer.step()
    assert optimizer.param_groups[0]["scale"] == 6.0


def test_groups_have_numbers_of_their_own():
    slow, fast, late = parameter([1.0], 0.5), parameter([1.0], 0.5), parameter([1.0], 0.5)
    optimizer = altgrad.optim.GridOptim([dict(params=[slow], scale=2.0), dict(params=[fast], rung_clip=2.0)],
                                        weight_decay=0.0)
    optimizer.step()
    optimizer.add_param_group(dict(params=[late], scale=8.0))
    optimizer.step()
    # Velocities 0.5 and 0.95: 1 and 1.9 rungs, 2 and 2 by the clip, 4 by the new one's scale.
    moved = [int((rung([1.0]) - rung(param))[0]) for param in (slow, fast, late)]
    assert moved[0] in (2, 3) and moved[1:] == [4, 4]


def test_gradients_stay_as_they_were():
    param = parameter([1.0] * 50)
    param.grad = torch.randn(50)
    kept, version = param.grad.clone(), param.grad._version
    altgrad.optim.GridOptim([param], weight_decay=0.5).step()
    assert torch.equal(param.grad, kept) and param.grad._version == version


@pytest.mark.parametrize("make", [lambda t: t, lambda t: t.to(torch.float8_e4m3fn)])
def test_a_file_resumes_exactly_and_a_copy_is_its_own(make):
    def fresh():
        return [torch.nn.Parameter(make(torch.randn(300, generator=torch.Generator().manual_seed(place))))
                for place in range(2)]
    bits = lambda params: [p.detach().view(torch.uint8).clone() for p in params]
    whole = fresh()
    optimizer = altgrad.optim.GridOptim(whole, seed=11)
    counts = train(optimizer, whole, range(3))
    middle, saved, twin = bits(whole), copy.deepcopy(optimizer.state_dict()), copy.deepcopy(optimizer)
    counts += train(optimizer, whole, range(3, 6))
    params = fresh()
    for param, held in zip(params, middle):
        param.data.view(torch.uint8).copy_(held)
    again = altgrad.optim.GridOptim(params, scale=1.0)
    again.load_state_dict(saved)
    assert again.state[params[0]]["velocity"].dtype == torch.float32
    assert train(again, params, range(3, 6)) == counts[3:]
    copied = twin.param_groups[0]["params"]
    assert train(twin, copied, range(3, 6)) == counts[3:]
    for others in (params, copied):
        assert all(torch.equal(a, b) for a, b in zip(bits(whole), bits(others)))


def test_threads_and_layouts_change_nothing():
    start, grads = torch.randn(130, 70), torch.randn(130, 70)
    seen = []
    for threads, shape in ((1, lambda t: t), (2, lambda t: t), (2, lambda t: t.t().contiguous().t())):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            param = torch.nn.Parameter(shape(start.clone()))
            param.grad = grads.clone()
            altgrad.optim.GridOptim([param], seed=1, scale=1.0).step()
        finally:
            torch.set_num_threads(before)
        seen.append(param.detach().clone())
    assert torch.equal(seen[0], seen[1]) and np.isin(seen[2].numpy(), GRID).all()


def test_numbers_that_are_none():
    """A NaN moves nothing, an infinity is the clip; a NaN among parameters stays one."""
    param = parameter([1.0, 1.0, 1.0, float("nan"), float("inf")], 0.5)
    param.grad[:3] = torch.tensor([float("nan"), float("inf"), float("-inf")])
    optimizer = altgrad.optim.GridOptim([param])
    flips, _ = optimizer.step()
    one = rung([1.0])[0]
    assert rung(param)[:3].tolist() == [one, one - 10, one + 10]
    assert torch.isnan(param[3]) and int(flips) == 3  # infinity becomes the largest number
    codes = torch.nn.Parameter(torch.tensor([0x7F, 0xFF, 0x80], dtype=torch.uint8).view(torch.float8_e4m3fn))
    optimizer = altgrad.optim.GridOptim([codes])
    codes.grad = torch.zeros(3)
    assert [int(n) for n in optimizer.step()] == [0, 0]
    assert codes.detach().view(torch.uint8).tolist() == [0x7F, 0xFF, 0]


def test_backward_reaches_parameters_of_codes():
    codes = torch.nn.Parameter(torch.ones(4).to(torch.float8_e4m3fn))
    optimizer = altgrad.optim.GridOptim([codes], weight_decay=0.0)
    for _ in range(2):
        optimizer.zero_grad()
        (codes.float() * torch.tensor([0.5, -0.5, 0.0, 1.0])).sum().backward()
        optimizer.step()
    assert rung(codes.float())[0] < rung([1.0]) < rung(codes.float())[1]


@pytest.mark.parametrize("words, error, match", [
    (dict(scale=-1.0), ValueError, "Invalid scale value: -1.0"),
    (dict(scale="6"), ValueError, "Invalid scale value: 6; it has to be a number of at least 0"),
    (dict(rung_clip=float("nan")), ValueError, "Invalid rung_clip value: nan"),
    (dict(numerics="source"), ValueError, "Invalid numerics value: source"),
    (dict(fp8_dtype=torch.int8), TypeError, "fp8_dtype is torch.int8"),
    (dict(format="bf16"), altgrad.Error, "rungs are of formats with a sign, a magnitude and at most 8 bits"),
    (dict(format="e4m3"), altgrad.Error, "unknown format 'e4m3'"),
    (dict(storage="param=bf16"), ValueError, "storage says param=bf16"),
    (dict(storage="m=bf16"), ValueError, "names no stream of altgrad.optim.GridOptim; there are param, .*, velocity"),
    (dict(seed=1.5), TypeError, "seed=1.5 is no whole number")])
def test_words_that_make_no_sense(words, error, match):
    with pytest.raises(error, match=match):
        altgrad.optim.GridOptim([parameter([1.0])], **words)


def test_parameters_that_are_on_no_grid():
    with pytest.raises(TypeError, match="does not support torch.uint8 parameters"):
        param = torch.nn.Parameter(torch.zeros(3, dtype=torch.uint8), requires_grad=False)
        param.grad_dtype = torch.float32
        param.grad = torch.ones(3)
        altgrad.optim.GridOptim([param]).step()
    half = torch.nn.Parameter(torch.zeros(3).half())
    half.grad = torch.ones(3).half()
    with pytest.raises(altgrad.Error, match="f16 does not hold all its numbers"):
        altgrad.optim.GridOptim([half], format="altgrad.e6m1").step()


@pytest.mark.parametrize("make", [
    lambda p: altgrad.optim.AdamW(p, lr=1.0, storage="rungs=ocp.e4m3fn", seed=1),
    lambda p: altgrad.optim.FromRule("lion", storage="rungs=ocp.e4m3fn")(p, lr=1.0, seed=1),
    lambda p: altgrad.optim.FromRule("signsgd", storage="rungs=ocp.e4m3fn,nearest_even")(p, lr=1.0)])
def test_any_rule_moves_in_rungs(make):
    """A rate of 1 is a rung a step where updates are of size 1."""
    for param in (parameter([1.0] * 100), torch.nn.Parameter(torch.ones(100).to(torch.float8_e4m3fn))):
        optimizer = make([param])
        param.grad = torch.full((100,), 0.3)
        optimizer.step()
        moved = rung([1.0]) - rung(param.float())
        assert np.isin(moved, [1, 2]).all() and (moved == 1).mean() > 0.3


def test_a_step_with_a_closure_returns_the_loss():
    """As torch's contract has it; the counts are those that a step without one returns."""
    (one, other), loss = [parameter([1.0, -1.0, 0.5], 0.25) for _ in range(2)], torch.tensor(3.0)
    ours, beside = (altgrad.optim.GridOptim([of], seed=1, weight_decay=0.0) for of in (one, other))
    assert [int(count) for count in ours.counts] == [0, 0]
    for call in (lambda: ours.step(lambda: loss), lambda: ours.step(closure=lambda: loss), lambda: ours.step(3.0, closure=lambda: loss)):
        assert call() is loss
    for scale in (None, None, 3.0):
        counts = beside.step(scale)
    assert torch.equal(one, other) and [int(count) for count in ours.counts] == [int(count) for count in counts] == [3, 3]
