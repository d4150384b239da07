"""rule.check finds a formula that is another one."""

import numpy as np
import pytest
import rules
import torch

import altgrad.language as ag


def test_what_agrees_differs_by_rounding_and_is_printed(capsys):
    largest = rules.adamw.check(torch.optim.AdamW, steps=5, lr=0.01, betas=(0.8, 0.9))
    assert list(largest) == ["p"] and largest["p"] < 1e-6
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("adamw: the largest differences in 5 steps, where the parameter moves by 0.0")
    assert said[1].split()[0] == "p"


@pytest.mark.parametrize("arrays", ["numpy", "torch"])
def test_what_is_another_formula_is_seen_where_it_is(arrays):
    library = {"numpy": np, "torch": torch}[arrays]

    def lion(p, g, exp_avg, lr, betas, weight_decay):
        u = library.sign(betas[0] * exp_avg + (1 - betas[0]) * g)
        return p * (1 - lr * weight_decay) - lr * u, dict(exp_avg=betas[1] * exp_avg + (1 - betas[0]) * g)
    largest = rules.lion.check(lion, steps=3, arrays=arrays, lr=0.1)
    assert largest["exp_avg"] > 0.1 and largest["p"] > 0.05


def test_options_and_their_states_reach_the_reference():
    @ag.rule
    def f(p: ag.Param, g: ag.Grad, m: ag.State(when="heavy") = None, *, lr=0.1, heavy: ag.Option = False):
        m = ag.lerp(m, g, 0.5) if heavy else None
        return p - lr * (m if heavy else g), dict(m=m)

    def reference(p, g, m, lr, heavy):
        m = (m + g) / 2 if heavy else None
        return p - lr * (m if heavy else g), dict(m=m)
    assert list(f.check(reference)) == ["p"] and list(f.choose(heavy=True).check(reference)) == ["p", "m"]
    assert max(f.choose(heavy=True).check(reference).values()) < 1e-6


def test_a_reference_that_returns_too_little():
    with pytest.raises(ValueError, match="the reference returns no exp_avg"):
        rules.lion.check(lambda p, **_: p)


def test_a_state_that_begins_as_the_parameter_does_so_in_the_reference():
    @ag.rule
    def pulled(p: ag.Param, g: ag.Grad, z: ag.State(first="p"), t: ag.Step, *, lr=0.1):
        return p - lr * (p - z) - lr * g, dict(z=z - 0.01 * g)

    def by_numpy(p, g, z, t, lr):
        return p - lr * (p - z) - lr * g, dict(z=z - 0.01 * g)

    assert max(pulled.check(by_numpy).values()) < 1e-5


@pytest.mark.parametrize("wrong", [lambda p, g, lr: p - lr * g, lambda p, g, lr: p * np.nan * g], ids=["the rule's", "the reference's"])
def test_a_nan_on_one_side_is_no_agreement(wrong):
    @ag.rule
    def root(p: ag.Param, g: ag.Grad, *, lr=0.1):
        return p - lr * ag.sqrt(g)

    @ag.rule
    def sgd(p: ag.Param, g: ag.Grad, *, lr=0.1):
        return p - lr * g

    rule = sgd if np.isnan(wrong(np.ones(1), np.ones(1), 0.1)).any() else root
    assert np.isnan(rule.check(wrong, steps=2)["p"])


def test_a_class_takes_the_rules_numbers_and_any_default_dtype():
    @ag.rule
    def sgd(w: ag.Param, g: ag.Grad, *, lr=0.1):
        return w - lr * g

    torch.set_default_dtype(torch.float64)
    try:
        assert sgd.check(torch.optim.SGD)["w"] < 1e-6
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_reference_may_return_views_in_another_order():
    @ag.rule
    def basis(p: ag.Param, g: ag.Grad, q: ag.Square("rows", first=2.0), t: ag.Step):
        return p - 0.1 * (q @ g), dict(q=1.0 * q)

    assert max(basis.check(lambda p, g, q, t: (p - 0.1 * q @ g, q[:, ::-1][:, ::-1]), shapes=((5, 7),)).values()) < 1e-5
