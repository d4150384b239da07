"""Parameters and states that round by draws: which draws, and that nothing but seed, step, place and index counts."""

import copy
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import altgrad.optim

sys.path.append(str(Path(__file__).parents[2] / "differential"))
import formats  # noqa: E402
import rounding  # noqa: E402

STORAGE = "param=bf16,stochastic"
SHAPES = [(33, 129), (5,), (4097,), (0,)]


def model(seed=0, dtype=torch.bfloat16):
    generator = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]


def give(params, step):
    generator = torch.Generator().manual_seed(100 + step)
    for param in params:
        param.grad = torch.randn(param.shape, generator=generator).to(param.dtype)


def train(optimizer, params, steps):
    for step in steps:
        give(params, step)
        optimizer.step()
    return [param.detach().clone() for param in params]


def same(ours, theirs):
    return all(torch.equal(a.view(torch.int16), b.view(torch.int16)) for a, b in zip(ours, theirs))


@pytest.mark.parametrize("bits", [16, 32])
def test_the_draws_are_those_of_seed_step_place_and_index(bits):
    """SGD by numbers in f32, and Philox by numbers."""
    params = model()
    optimizer = altgrad.optim.SGD(params, lr=0.01, storage=STORAGE + "32" * (bits == 32), seed=0xFEDCBA9876543210)
    for step in (1, 2):
        give(params, step)
        before = [(p.detach().float(), p.grad.float()) for p in params]
        optimizer.step()
        for tag, (param, (old, grad)) in enumerate(zip(params, before)):
            new = torch.addcmul(old.double(), grad.double(), torch.tensor(-float(np.float32(0.01)), dtype=torch.float64))
            numbers = new.float().flatten().numpy()  # fma: the product is exact in f64, the sum nearly always
            drawn = rounding.draws(np.arange(len(numbers)), 0xFEDCBA9876543210, step, tag, 0, bits)
            codes = rounding.encode(formats.KNOWN["bf16"], numbers, "nonfinite", drawn)
            assert (param.detach().flatten().view(torch.int16).numpy().view(np.uint16) != codes).sum() <= 1


@pytest.mark.parametrize("storage", [STORAGE, STORAGE + "32 m=ocp.e4m3fn,stochastic32"])
@pytest.mark.parametrize("make", [altgrad.optim.AdamW, altgrad.optim.Lion])
def test_threads_and_repetition(make, storage):
    outcomes = []
    for threads in (1, 2, 7):
        before = torch.get_num_threads()
        torch.set_num_threads(threads)
        try:
            params = model()
            outcomes.append(train(make(params, lr=1e-3, storage=storage, seed=3), params, range(4)))
        finally:
            torch.set_num_threads(before)
    assert same(outcomes[0], outcomes[1]) and same(outcomes[0], outcomes[2])
    params = model()
    assert not same(outcomes[0], train(make(params, lr=1e-3, storage=storage, seed=4), params, range(4)))


@pytest.mark.parametrize("make", [altgrad.optim.AdamW, altgrad.optim.SGD])
def test_resume_is_exact(make, tmp_path):
    storage = STORAGE + (" m=bf16,stochastic v=ocp.e5m2:128,stochastic32" if make is altgrad.optim.AdamW else "")
    params = model()
    whole = train(make(params, lr=1e-2, storage=storage, seed=5), params, range(6))
    params = model()
    first = make(params, lr=1e-2, storage=storage, seed=5)
    train(first, params, range(3))
    torch.save(first.state_dict(), tmp_path / "state.pt")
    resumed = [torch.nn.Parameter(p.detach().clone()) for p in params]
    second = make(resumed, lr=1e-2, storage=storage)  # another seed, until the file says which
    second.load_state_dict(torch.load(tmp_path / "state.pt"))
    assert second.param_groups[0]["seed"] == 5 and int(second.param_groups[0]["draws"]) == 3
    assert same(whole, train(second, resumed, range(3, 6)))
    third = copy.deepcopy(first)
    copied = third.param_groups[0]["params"]
    assert same(whole, train(third, copied, range(3, 6)))


def test_parameters_that_come_and_go_keep_their_draws():
    """A tag is the place among all parameters, with and without a gradient."""
    params = model()
    optimizer = altgrad.optim.SGD(params, lr=0.01, storage=STORAGE, seed=9)
    give(params, 1)
    params[0].grad = None
    optimizer.step()
    alone = model()
    give(alone, 1)
    altgrad.optim.SGD(alone, lr=0.01, storage=STORAGE, seed=9).step()
    assert same(params[1:], alone[1:])


def test_small_updates_arrive_on_average():
    """What rounding to nearest loses every time."""
    param = torch.nn.Parameter(torch.ones(1 << 16, dtype=torch.bfloat16))
    optimizer = altgrad.optim.SGD([param], lr=2.0 ** -13, storage=STORAGE, seed=1)
    for _ in range(64):
        param.grad = torch.ones_like(param)
        optimizer.step()
    assert abs(float(param.detach().double().mean()) - (1 - 2.0 ** -7)) < 1e-4


def test_seed():
    torch.manual_seed(7)
    drawn = altgrad.optim.AdamW(model(), storage=STORAGE).param_groups[0]["seed"]
    torch.manual_seed(7)
    assert drawn == altgrad.optim.AdamW(model(), storage=STORAGE).param_groups[0]["seed"]
    state = torch.get_rng_state()
    altgrad.optim.AdamW(model(), storage="param=bf16")
    assert torch.equal(state, torch.get_rng_state())
    with pytest.raises(ValueError, match="is of no use: nothing is rounded stochastically"):
        altgrad.optim.AdamW(model(), seed=1)
    with pytest.raises(TypeError, match="no whole number"):
        altgrad.optim.AdamW(model(), storage=STORAGE, seed=1.5)
    with pytest.raises(ValueError, match="more than 64 bits"):
        altgrad.optim.AdamW(model(), storage=STORAGE, seed=2 ** 64)


def test_float32_beside_bfloat16():
    """What needs no rounding is stored as it is; another format than the one that is rounded is an error."""
    mixed = [model()[0], model(1, torch.float32)[1]]
    optimizer = altgrad.optim.AdamW(mixed, storage=STORAGE, seed=1)
    give(mixed, 0)
    optimizer.step()
    halves = model(0, torch.float16)
    give(halves, 0)
    with pytest.raises(TypeError, match="storage says param=bf16,stochastic, but a param has torch.float16"):
        altgrad.optim.AdamW(halves, storage=STORAGE).step()
    with pytest.raises(altgrad.Error, match="says 'stochastik'"):
        halves[0].grad = None
        params = model()
        give(params, 0)
        altgrad.optim.AdamW(params, storage="param=bf16,stochastik").step()


def test_a_rule_of_ones_own():
    Mine = altgrad.optim.FromRule("lion", storage=STORAGE)
    params, others = model(), model()
    ours = train(Mine(params, lr=1e-3, seed=3), params, range(3))
    assert same(ours, train(altgrad.optim.Lion(others, lr=1e-3, storage=STORAGE, seed=3), others, range(3)))


def test_a_copied_group_draws_and_counts_for_itself():
    params = model()
    one = altgrad.optim.SGD(params, lr=0.1, storage=STORAGE, seed=np.int64(3))
    train(one, params, [0])
    others = model()
    two = altgrad.optim.SGD([{**one.param_groups[0], "params": others}], lr=0.1, storage=STORAGE, seed=4)
    train(two, others, [0, 1, 2])
    assert one.param_groups[0]["draws"] == 1 and two.param_groups[0]["draws"] == 4
    assert one.param_groups[0]["seed"] == two.param_groups[0]["seed"] == 3


def test_groups_with_seeds_of_their_own_are_refused():
    params = model()
    optimizer = altgrad.optim.SGD([dict(params=params[:2], seed=1), dict(params=params[2:], seed=2)], lr=0.1,
                                  storage=STORAGE)
    give(params, 0)
    with pytest.raises(ValueError, match="there is one seed for all param_groups, not 1 and 2"):
        optimizer.step()
