"""States of a rule that are one number for each parameter, or one for all of them."""

import copy

import numpy as np
import pytest
import torch

import altgrad

RULE = """altgrad.rule @numbers(param %w: f32, grad %g: f32, state %d: f64 per step = 0.25, state %s: f32 per tensor = 2.0,
    state %k: i64 per step, hyper %lr: f64 = 0.1, hyper %rest: f64 per step = 0.5) {
  %sum = altgrad.reduce add %g over step : f32
  %wide = extf %sum : f32 to f64
  %part = mulf %wide, %rest : f64
  %d1 = addf %d, %part : f64
  %own = altgrad.reduce max %g over tensor : f32
  %s1 = addf %s, %own : f32
  %one = constant 1 : i64
  %k1 = addi %k, %one : i64
  %rate = mulf %d1, %lr : f64
  %r = truncf %rate : f64 to f32
  %a = mulf %r, %s1 : f32
  %dw = mulf %a, %g : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state(%d1: f64, %s1, %k1: i64)
}
"""
SHAPES = (5, 7), (9001,), (3, 2, 2), (), (0, 4)


def params(dtypes=(torch.float32,) * len(SHAPES), seed=0):
    draws = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=draws).to(dtype)) for shape, dtype in zip(SHAPES, dtypes)]


def give_grads(ps, step):
    draws = torch.Generator().manual_seed(100 + step)
    for p in ps:  # small whole numbers: every sum is exact
        p.grad = torch.randint(-3, 4, p.shape, generator=draws).to(p.dtype)


class Reference:
    def __init__(self, ps):
        self.d, self.k, self.s = 0.25, 0, [np.float32(2.0) for _ in ps]
        self.w = [p.detach().float().numpy().copy() for p in ps]

    def step(self, ps, lr=0.1, rest=0.5):
        grads = [p.grad.float().numpy() for p in ps]
        self.d, self.k = self.d + rest * sum(float(g.sum()) for g in grads), self.k + 1
        for i, g in enumerate(grads):
            self.s[i] = np.float32(self.s[i] + g.max()) if g.size else self.s[i]
            self.w[i] = self.w[i] - np.float32(np.float32(self.d * lr) * self.s[i]) * g


@pytest.mark.parametrize("dtypes", [(torch.float32,) * 5, (torch.bfloat16, torch.float32) * 2 + (torch.float16,)])
def test_every_parameter_counts_whatever_its_dtype(dtypes):
    ps = params(dtypes)
    optimizer, reference = altgrad.optim.FromRule(RULE, storage="master=f32")(ps), Reference(ps)
    for step in range(6):
        give_grads(ps, step)
        optimizer.step(), reference.step(ps)
    group = optimizer.param_groups[0]
    assert group["d"].item() == reference.d and group["d"].dtype == torch.float64
    assert group["k"].item() == reference.k and group["k"].dtype == torch.int64
    for p, s, w in zip(ps, reference.s, reference.w):
        assert p.numel() == 0 or optimizer.state[p]["s"].item() == s
        assert np.array_equal(optimizer.state[p].get("master", p.detach()).numpy(), w)


def test_a_file_and_copies_go_on_with_the_same_bits():
    ps, others = params(), params()
    first = altgrad.optim.FromRule(RULE)(ps)
    for step in range(3):
        give_grads(ps, step), first.step()
    second = altgrad.optim.FromRule(RULE)(others)
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    with torch.no_grad():
        torch._foreach_copy_(others, ps)
    for step in range(3, 6):
        for of, optimizer in ((ps, first), (others, second)):
            give_grads(of, step), optimizer.step()
    assert all(map(torch.equal, ps, others))
    assert all(first.param_groups[0][key] == second.param_groups[0][key] for key in ("d", "k"))


def test_a_skipped_step_changes_no_number():
    ps = params()
    optimizer = altgrad.optim.FromRule(RULE)(ps)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=1.0)
    for step, bad in enumerate((False, True, False)):
        give_grads(ps, step)
        if bad:
            ps[0].grad[0, 0] = float("inf")
        before = [copy.deepcopy(optimizer.param_groups[0].get(key)) for key in ("d", "k")]
        scaler.scale(torch.ones(())), scaler.step(optimizer), scaler.update()
        now = [optimizer.param_groups[0][key] for key in ("d", "k")]
        assert (before == now) == bad


def test_a_number_may_be_set_and_groups_have_to_agree():
    ps = params()
    optimizer = altgrad.optim.FromRule(RULE)([dict(params=ps[:2], lr=0.5), dict(params=ps[2:])])
    optimizer.param_groups[0]["d"] = 8.0
    give_grads(ps, 0), optimizer.step()
    assert optimizer.param_groups[0]["d"].item() == 8.0 + 0.5 * sum(p.grad.sum().item() for p in ps)
    before = [p.detach().clone() for p in ps]
    optimizer.param_groups[1]["rest"] = 0.75
    with pytest.raises(altgrad.Error, match="'rest' is one number for all groups, and they give 0.5.* and 0.75"):
        optimizer.step()
    assert all(map(torch.equal, before, ps)) and optimizer.param_groups[0]["k"].item() == 1


@pytest.mark.parametrize("name", ["steps", "skipped"])
def test_a_number_may_have_the_name_of_a_count(name):
    """A number of the rule that is called as one of the optimizer's own counts."""
    ps = params()
    optimizer = altgrad.optim.FromRule(f"rule r(param w, grad g, global {name})\n  {name} = {name} + sum(g over step)\n"
                                       f"  w = w - {name}\n")(ps, statistics=True, max_grad_norm=1e9)
    total = 0.0
    for step in range(2):
        give_grads(ps, step), optimizer.step()
        total += sum(p.grad.double().sum().item() for p in ps)
    assert optimizer.param_groups[0][name].item() == pytest.approx(total, rel=1e-6)
    assert optimizer.statistics().steps == 2
