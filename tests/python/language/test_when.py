"""ag.when: branches on the step that the host takes, beside NumPy in float64."""

import copy
import pickle

import numpy as np
import pytest
import torch

import altgrad
import altgrad.language as ag


@ag.rule
def slow(p: ag.Param, g: ag.Grad, m: ag.State, s: ag.State, t: ag.Step, *, lr=0.1, every=3):
    """Lookahead, whose slow weights are touched in some steps only."""
    m = 0.9 * m + g
    p = p - lr * m
    if ag.when(t == 1):
        s = p
    elif ag.when(t % every == 0):
        s = ag.lerp(s, p, 0.5)
        p = s
    return p, dict(m=m, s=s)


def slow_by_numpy(p, g, m, s, t, lr, every):
    m = 0.9 * m + g
    p = p - lr * m
    if t == 1:
        s = p
    elif t % every == 0:
        s = p = s + 0.5 * (p - s)
    return p, dict(m=m, s=s)


@ag.rule
def onesided(p: ag.Param, g: ag.Grad, l: ag.Square("rows"), root: ag.Square("rows"), t: ag.Step, *, lr=0.1, every=4):
    l = l + g @ g.T
    if ag.when(t % every == 1):
        root = ag.inverse_root(l + 1e-3 * ag.identity(l), 2)
    return p - lr * (root @ g), dict(l=l, root=root)


def onesided_by_numpy(p, g, l, root, t, lr, every):
    l = l + g @ g.T
    if t % every == 1:
        values, vectors = np.linalg.eigh(l + 1e-3 * np.eye(len(l)))
        root = vectors * values ** -0.5 @ vectors.T
    return p - lr * (root @ g), dict(l=l, root=root)


@pytest.mark.parametrize("rule, reference, given", [(slow, slow_by_numpy, {}), (slow, slow_by_numpy, {"every": 1}),
                                                    (onesided, onesided_by_numpy, {"every": 5})])
def test_a_rule_is_its_formula(rule, reference, given):
    assert max(rule.check(reference, steps=13, shapes=[(5, 7)], **given).values()) < 2e-5


def of_numpy(first, grads, every):
    p, s, m = first.double().numpy(), 0.0, 0.0
    for t, g in enumerate(grads, 1):
        p, kept = slow_by_numpy(p, g.double().numpy(), m, s, t, 0.1, every)
        m, s = kept["m"], kept["s"]
    return torch.from_numpy(p)


def test_each_parameter_has_its_count_and_each_group_its_number():
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(6)) for _ in range(3)]
    first, grads = [param.detach().clone() for param in params], [[] for _ in params]
    optimizer = slow.optimizer()([{"params": params[:2]}, {"params": params[2:], "every": 2}])
    for step in range(11):
        if step == 6:
            optimizer.param_groups[0]["every"] = 4
        for place, param in enumerate(params):
            param.grad = None if place == 1 and step in (0, 4) else torch.randn(6)
            if param.grad is not None:
                grads[place].append(param.grad.clone())
        optimizer.step()
    assert (params[2].detach() - of_numpy(first[2], grads[2], 2)).abs().max() < 1e-6
    other = slow.optimizer()([late := torch.nn.Parameter(first[1].clone())])
    for step, grad in enumerate(grads[1]):  # which has missed two: its count lies behind
        other.param_groups[0]["every"] = 3 if step < 4 else 4
        late.grad = grad
        other.step()
    assert torch.equal(late, params[1])


def test_a_skipped_step_is_none_and_a_file_goes_on_where_it_was():
    torch.manual_seed(1)
    param = torch.nn.Parameter(torch.randn(6))
    twin, grads = copy.deepcopy(param), [torch.randn(6) for _ in range(8)]
    optimizer, scaler = slow.optimizer()([param]), altgrad.amp.GradScaler(init_scale=2.0, device="cpu")
    scaler.scale(torch.ones(()))
    for step, grad in enumerate(grads):
        if step == 4:
            param.grad = torch.full((6,), float("inf"))
            scaler.step(optimizer)
            scaler.update(2.0)
        param.grad = grad * 2
        scaler.step(optimizer)
        scaler.update(2.0)
        if step == 2:
            made = pickle.loads(pickle.dumps(slow.optimizer()))([param])
            made.load_state_dict(optimizer.state_dict())
            optimizer = made
    assert (param.detach() - of_numpy(twin.detach(), grads, 3)).abs().max() < 1e-6


def test_other_steps_do_not_pay_for_it():
    param = torch.nn.Parameter(torch.randn(5, 7))
    optimizer = onesided.optimizer()([param])
    param.grad = torch.randn(5, 7)
    optimizer.step()
    optimizer.state[param]["l"].fill_(float("nan"))  # of which no root can be found
    for _ in range(3):
        optimizer.step()
        assert optimizer.state[param]["root"].isfinite().all()
    optimizer.step()
    assert optimizer.state[param]["root"].isnan().all()


def test_a_rule_of_by_group_and_a_transform_have_it():
    @ag.transform
    def halved(g: ag.Grad, t: ag.Step, *, after=2):
        return g / 2 if ag.when(t > after) else g

    @ag.rule
    def sgd(p: ag.Param, g: ag.Grad, *, lr=0.5):
        return p - lr * g

    params = [torch.nn.Parameter(torch.zeros(3)) for _ in range(2)]
    Both = altgrad.optim.by_group(late=sgd.optimizer(transforms=[halved]), plain=sgd)
    optimizer = Both([{"params": params[:1], "rule": "late", "halved_after": 3}, {"params": params[1:], "rule": "plain"}])
    for _ in range(5):
        for param in params:
            param.grad = torch.ones(3)
        optimizer.step()
    assert [param[0].item() for param in params] == [-0.5 * (3 + 2 * 0.5), -2.5]


@ag.rule
def anchored(p: ag.Param, g: ag.Grad, slow: ag.State, r: ag.Row, c: ag.Column, s: ag.Scalar, t: ag.Step, *, lr=0.1, every=3):
    if not ag.when(t % every != 1):
        slow, r, c, s = g, g.mean("row"), g.mean("column"), g.mean()
    return p - lr * (slow + r + c + s), dict(slow=slow, r=r, c=c, s=s)


def test_a_state_that_some_steps_change_is_only_read_in_the_others():
    def by_numpy(p, g, slow, r, c, s, t, lr, every):
        if t % every == 1:
            slow, r, c, s = g, g.mean(-1, keepdims=True), g.mean(tuple(range(g.ndim - 1)), keepdims=True), g.mean()
        return p - lr * (slow + r + c + s), dict(slow=slow, r=r, c=c, s=s)
    assert max(anchored.check(by_numpy, steps=8, shapes=((5, 7), (33, 17))).values()) < 1e-5


def test_a_state_may_stand_still_after_a_step():
    @ag.rule
    def frozen(p: ag.Param, g: ag.Grad, v: ag.State, t: ag.Step, *, lr=0.1, warm=4):
        v = v if ag.when(t > warm) else ag.lerp(v, g * g, 0.1)
        return p - lr * g / (ag.sqrt(v) + 0.1), dict(v=v)

    def by_numpy(p, g, v, t, lr, warm):
        v = v if t > warm else v + 0.1 * (g * g - v)
        return p - lr * g / (v ** 0.5 + 0.1), dict(v=v)
    assert max(frozen.check(by_numpy, steps=9).values()) < 1e-5


def lookahead(p, g, m, s, t, lr, every):
    m = 0.9 * m + g
    p = p - lr * m
    if t % every == 0:
        p = s = s + 0.5 * (p - s)
    return p, dict(m=m, s=s)


@ag.rule
def looking_ahead(p: ag.Param, g: ag.Grad, m: ag.State, s: ag.State, t: ag.Step, *, lr=0.1, every=3):
    m = 0.9 * m + g
    p = p - lr * m
    if ag.when(t % every == 0):
        p = s = ag.lerp(s, p, 0.5)
    return p, dict(m=m, s=s)


def test_a_state_that_the_first_steps_do_not_have_begins_later():
    assert max(looking_ahead.check(lookahead, steps=10).values()) < 1e-5


def test_tables_of_both_programs_are_kept_and_follow_rates_gradients_and_groups():
    """Of one optimizer that keeps its tables and of one that makes them anew in each step."""
    made, numbers = looking_ahead.optimizer(), []
    for keeps in (True, False):
        torch.manual_seed(0)
        params, built = [torch.nn.Parameter(torch.randn(4)) for _ in range(4)], []
        optimizer = made(params[:3])
        for step in range(16):
            for place, param in enumerate(params):
                param.grad = None if place == 1 and step in (7, 8) else torch.randn(4)
            if step == 10:
                optimizer.add_param_group({"params": params[3:], "lr": 0.5})
            optimizer.param_groups[0]["lr"] = 0.1 * 0.9 ** step
            if not keeps:
                optimizer._forget()
            optimizer.step()
            built.append(optimizer._built)
        numbers.append(torch.stack([param.detach() for param in params]))
        assert len({*map(id, built)}) <= 13 if keeps else len({*map(id, built)}) == 16
    assert torch.equal(*numbers)


def test_a_loop_or_too_many_conditions_are_refused_at_their_line():
    @ag.rule
    def endless(p: ag.Param, g: ag.Grad, t: ag.Step, *, lr=0.1, k=3):
        while ag.when(t % k == 0):
            p = p - lr * g
        return p - lr * g

    @ag.rule
    def many(p: ag.Param, g: ag.Grad, t: ag.Step, *, lr=0.1):
        for k in range(2, 14):
            p = p - lr * g if ag.when(t % k == 0) else p
        return p - lr * g

    for rule, words, line in ((endless, "a loop with more than 10000 branches", "while ag.when"), (many, "more than 1024 paths by branches", "ag.when(t % k")):
        with pytest.raises(ag.RuleError, match=words) as caught:
            rule.text
        assert line in caught.value.text


def test_what_it_cannot_mean_is_refused():
    @ag.rule
    def shared(p: ag.Param, g: ag.Grad, d: ag.Global, t: ag.Step):
        if ag.when(t % 2 == 0):
            d = d + 1
        return p - d * g, dict(d=d)

    with pytest.raises(ag.RuleError, match="the new d is one for all tensors, and ag.when"):
        shared.text

    @shared.entry
    def turn(p: ag.Param, t: ag.Step):
        return -p if ag.when(t > 1) else p

    with pytest.raises(ag.RuleError, match="ag.when\\(\\) in an entry of @shared, which runs when it is called"):
        turn.text
    param = torch.nn.Parameter(torch.ones(2))
    param.grad = torch.ones(2)
    with pytest.raises(ValueError, match="divides by 0, where every = 0, t = 1: give the group another number"):
        slow.optimizer()([param], every=0).step()
    assert param.tolist() == [1, 1]
