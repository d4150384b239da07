"""altgrad.optim.NorMuon against its formula in float64, and what goes with it."""

import os

import altgrad
from altgrad.optim import NewtonSchulz
import pytest
import torch
from altgrad._bundle import compile_sets
from altgrad._plan import Plan
from altgrad._rule import find_rule, set_line
from twins import through_a_file

JORDAN = [(3.4445, -4.775, 2.0315)] * 5


def matrices(*shapes, seed=0, dtype=torch.float32):
    made = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=made).to(dtype)) for shape in shapes]


def give(params, step):
    for index, param in enumerate(params):
        made = torch.Generator().manual_seed(100 * step + index)
        param.grad = torch.randn(param.shape, generator=made).to(param.dtype)


class Formula:
    """NorMuon in float64, as zichongli5/NorMuon has it: the mean squares of rows, and the norm kept."""

    def __init__(self, param, lr=0.02, momentum=0.95, beta2=0.95, weight_decay=0.0, nesterov=True):
        self.w, self.given = param.detach().double(), (lr, momentum, beta2, weight_decay, nesterov)
        self.b, self.s = torch.zeros_like(self.w), torch.zeros(len(param), 1, dtype=torch.float64)

    def step(self, grad):
        lr, momentum, beta2, decay, nesterov = self.given
        g = grad.double()
        self.b = momentum * self.b + (1 - momentum) * g
        u = momentum * self.b + (1 - momentum) * g if nesterov else self.b
        x = u / (u.norm() + 1e-7)
        x = x.mT if (tall := x.shape[0] > x.shape[1]) else x
        for a, b, c in JORDAN:
            square = x @ x.mT
            x = a * x + (b * square + c * square @ square) @ x
        o = x.mT if tall else x
        self.s = beta2 * self.s + (1 - beta2) * o.square().mean(dim=-1, keepdim=True)
        n = o / (self.s.sqrt() + 1e-10)
        n = n * (o.norm() / (n.norm() + 1e-10)) * max(1.0, o.shape[0] / o.shape[1]) ** 0.5
        self.w = self.w * (1 - lr * decay) - lr * n


@pytest.mark.parametrize("given", [{}, {"beta2": 0.5, "weight_decay": 0.1}, {"nesterov": False, "momentum": 0.3}], ids=str)
def test_steps_are_the_formula_in_float64(given):
    params = matrices((24, 40), (40, 24), (1, 9), (9, 1), (70, 70), (64, 160), (3, 5000))
    optimizer = altgrad.optim.NorMuon(params, lr=0.02, orthogonalize=NewtonSchulz(dtype=torch.float32), **given)
    wanted = [Formula(param, **given) for param in params]
    for step in range(6):
        give(params, step)
        optimizer.step()
        for param, formula in zip(params, wanted):
            formula.step(param.grad)
            torch.testing.assert_close(param.double(), formula.w, atol=2e-4, rtol=0)
            held = optimizer.state[param]
            assert held["second_momentum_buffer"].shape == (len(param), 1)
            torch.testing.assert_close(held["second_momentum_buffer"].double(), formula.s, atol=1e-6, rtol=1e-3)
            torch.testing.assert_close(held["momentum_buffer"].double(), formula.b, atol=1e-6, rtol=0)


def test_products_in_bf16_stay_within_its_bounds():
    param, = matrices((96, 160))
    optimizer, wanted = altgrad.optim.NorMuon([param]), Formula(param)
    for step in range(20):
        give([param], step)
        optimizer.step()
        wanted.step(param.grad)
        assert (param.double() - wanted.w).abs().max() <= 0.02 * 2.0 ** -5 * (step + 1)


def test_bits_depend_on_no_neighbour():
    shapes = (24, 40), (24, 40), (7, 300)
    together, alone = matrices(*shapes), matrices(*shapes)
    bias, = matrices((40,))
    one = altgrad.optim.NorMuon([{"params": together}, {"params": [bias], "use_muon": False}])
    others = [altgrad.optim.NorMuon([param]) for param in alone]
    for step in range(3):
        for params in (together, alone):
            give(params, step)
        bias.grad = torch.ones_like(bias)
        one.step()
        for other in others:
            other.step()
    assert all(torch.equal(mine, its) for mine, its in zip(together, alone))
    for mine, its, other in zip(together, alone, others):
        assert all(torch.equal(state, other.state[its][key]) for key, state in one.state[mine].items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_a_checkpoint_goes_on_with_the_same_bits(dtype):
    params, others = matrices((16, 24), dtype=dtype), matrices((16, 24), dtype=dtype)
    one, other = altgrad.optim.NorMuon(params), altgrad.optim.NorMuon(others)
    give(params, 0)
    one.step()
    other.load_state_dict(through_a_file(one.state_dict()))
    others[0].data.copy_(params[0])
    assert other.state[others[0]]["second_momentum_buffer"].dtype == torch.float32
    for optimizer, own in ((one, params), (other, others)):
        give(own, 1)
        optimizer.step()
    assert torch.equal(params[0], others[0])


def test_a_skipped_step_changes_nothing():
    params = matrices((16, 24), (8,))
    optimizer = altgrad.optim.NorMuon([{"params": params[:1]}, {"params": params[1:], "use_muon": False}],
                                      max_grad_norm=None)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    for value in (1.0, float("inf")):
        before = {key: held.clone() for key, held in optimizer.state[params[0]].items()}
        weights = [param.detach().clone() for param in params]
        give(params, 0)
        params[1].grad[3] = value
        scaler.scale(torch.zeros(()))
        scaler.step(optimizer)
        scaler.update()
    assert all(torch.equal(before[key], held) for key, held in optimizer.state[params[0]].items())
    assert all(torch.equal(one, other) for one, other in zip(weights, params))


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_what_has_no_elements_is_left_alone(shape):
    params, alone = matrices(shape, (6, 4)), matrices((0,), (6, 4))[1:]
    for some in (params, alone):
        give(some[-1:], 0)
        some[0].grad = torch.zeros_like(some[0]) if len(some) > 1 else some[0].grad
        altgrad.optim.NorMuon(some).step()
    assert torch.equal(params[1], alone[0])


@pytest.mark.parametrize("given, words", [
    ({"params": matrices((3,))}, r"0 has the shape \(3,\), no matrix and .* use_muon=False"),
    ({"params": matrices((2, 3)), "beta2": 1.0}, "beta2 is 1.0, not from 0 and below 1"),
], ids=["vector", "beta2"])
def test_what_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.NorMuon(**given)


def test_a_state_of_another_shape_is_refused_before_anything_changes():
    param, = matrices((6, 4))
    optimizer, before = altgrad.optim.NorMuon([param]), param.detach().clone()
    give([param], 0)
    optimizer.state[param] = {"momentum_buffer": torch.zeros(6, 4), "second_momentum_buffer": torch.zeros(4, 1)}
    with pytest.raises(ValueError, match=r"second_momentum_buffer' is .* of shape \(4, 1\) .* of shape \(6, 1\) on cpu, one for each unit"):
        optimizer.step()
    assert torch.equal(param, before)


def test_a_rule_of_ones_own_keeps_numbers_of_rows():
    """The largest mean square so far of each row, against NumPy's arithmetic."""
    text = """altgrad.rule @rows(param %w: f32, grad %g: f32, unit_state %top: f32, hyper %lr: f64 = 0.5) {
      %sum = altgrad.reduce sumsq %g over unit : f32
      %top1 = maximumf %top, %sum : f32
      %root = math.sqrt %top1 : f32
      %share = divf %g, %root : f32
      %rate = truncf %lr : f64 to f32
      %dw = mulf %rate, %share : f32
      %w1 = subf %w, %dw : f32
      altgrad.yield param(%w1) state(%top1)
    }"""
    param, = matrices((5, 3))
    optimizer = altgrad.optim.FromRule(text)([param])
    wanted, top = param.detach().clone(), torch.zeros(5, 1)
    for step in range(3):
        give([param], step)
        optimizer.step()
        top = torch.maximum(top, param.grad.square().sum(1, keepdim=True))
        wanted -= 0.5 * param.grad / top.sqrt()
        torch.testing.assert_close(param.detach(), wanted, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(optimizer.state[param]["top"], top, rtol=1e-6, atol=0)


def test_rows_that_end_within_blocks_are_said_to_keep_float32():
    (wide, tall) = params = matrices((64, 256), (256, 96))
    give(params, 0)
    optimizer = altgrad.optim.NorMuon(params, storage="states=ocp.e4m3fn:256")
    with pytest.warns(UserWarning, match=r"shape \(256, 96\) stay float32, because their rows of 96 elements"):
        optimizer.step()
    assert optimizer.state[wide]["momentum_buffer"].dtype == torch.float8_e4m3fn
    assert optimizer.state[tall]["momentum_buffer"].dtype == torch.float32


class ByShape(Formula):
    """The mean squares of columns where there are more of them than rows, as nanochat has it."""

    def step(self, grad):
        if self.w.shape[0] >= self.w.shape[1]:
            return super().step(grad)
        turned = Formula(self.w.mT, *self.given)
        turned.b, turned.s = self.b.mT, self.s if len(self.s) == self.w.shape[1] else torch.zeros(self.w.shape[1], 1)
        scale = (self.w.shape[1] / self.w.shape[0]) ** 0.5  # what it is too long by
        before = turned.w
        turned.step(grad.mT)
        lr, decay = self.given[0], self.given[3]
        self.w = (before * (1 - lr * decay) + (turned.w - before * (1 - lr * decay)) / scale).mT
        self.b, self.s = turned.b.mT, turned.s


@pytest.mark.skipif("medium" in os.environ.get("ALTGRAD_UNDER", ""), reason="its products of float32 may be those of bfloat16")
@pytest.mark.parametrize("scale", [None, "match_rms_adamw", "spectral_unclamped"])
def test_the_axis_by_shape_is_columns_of_wide_matrices(scale):
    shapes = (24, 40), (40, 24), (3, 500), (1, 9), (9, 1), (33, 33)
    params = matrices(*shapes)
    params.append(torch.nn.Parameter(matrices((60, 20), seed=3)[0].detach().t()))  # whose memory lies so
    words = NewtonSchulz(red_dim="by_shape", dtype=torch.float32, scale=scale)
    optimizer = altgrad.optim.NorMuon(params, orthogonalize=words, weight_decay=0.1)
    wanted = [ByShape(param, weight_decay=0.1) for param in params]
    for step in range(4):
        give(params, step)
        before = [formula.w for formula in wanted]
        optimizer.step()
        for param, formula, old in zip(params, wanted, before):
            formula.step(param.grad)
            rows, columns = param.shape
            if scale:
                other = 0.2 * max(rows, columns) ** 0.5 if scale == "match_rms_adamw" else (rows / columns) ** 0.5
                other /= max(1.0, rows / columns) ** 0.5
                kept = old * (1 - 0.02 * 0.1)
                formula.w = kept + (formula.w - kept) * other
            torch.testing.assert_close(param.double(), formula.w, atol=3e-4, rtol=0)
            held = optimizer.state[param]["second_momentum_buffer"]
            assert held.shape == ((rows, 1) if rows >= columns else (1, columns))
            torch.testing.assert_close(held.double().flatten(), formula.s.flatten(), atol=1e-6, rtol=1e-3)


def test_a_stack_by_shape_is_its_matrices():
    stack, parts = matrices((3, 8, 20))[0], [torch.nn.Parameter(x.clone()) for x in matrices((3, 8, 20))[0].detach()]
    one, other = (altgrad.optim.NorMuon(of, orthogonalize=NewtonSchulz(red_dim="by_shape"), reproducible=True) for of in ([stack], parts))
    for step in range(2):
        give([stack], step)
        for part, grad in zip(parts, stack.grad):
            part.grad = grad.clone()
        one.step(), other.step()
    assert all(torch.equal(mine, its) for mine, its in zip(stack, parts))
    assert one.state[stack]["second_momentum_buffer"].shape == (3, 1, 20)


@pytest.mark.parametrize("shape, given, words", [
    ((2, 3), {"red_dim": -2}, "red_dim is -2, none of -1, 'by_shape'"),
    ((8, 20), {"split": 4}, "parameter 0 has 2 parts of its rows, .* make parameters of the parts"),
    ((8, 20), {"equilibrate": "rows"}, "more columns than rows, .* which equilibrate='rows' has no form for"),
])
def test_axes_that_are_refused(shape, given, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.NorMuon([{"params": matrices(shape), "red_dim": "by_shape", **given}])
    optimizer = altgrad.optim.NorMuon(matrices(shape))
    optimizer.param_groups[0].update({"red_dim": "by_shape", **given})
    give(optimizer.param_groups[0]["params"], 0)
    with pytest.raises(ValueError, match=words):
        optimizer.step()


def test_a_matrix_without_elements_has_one_value_of_a_unit_to_write():
    rule = find_rule("normuon")
    bundle = compile_sets([set_line(rule, (), dict(param="f32", grad="f32", states="param"))], [rule])
    plan, memory = Plan(bundle), torch.zeros(20)
    plan.bind_tensors([(0, 0, 0, 0, (0, 5), 1), (20, 0, 0, 1, (4, 5), 4)], 1)
    second, = [state for state in bundle.sets[0].states if state.key == "second"]
    with pytest.raises(altgrad.Error, match="scalar second, pointer 0: .* is NULL"):
        plan.bind_scalar(second.name, [0, memory.data_ptr()])
    plan.bind_scalar(second.name, [memory.data_ptr()] * 2)
