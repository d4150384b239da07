"""A rule for each group in one class: one program, with the bits of the classes of the library."""

import copy
import pickle

import pytest
import torch
import twins

import altgrad
import altgrad.language as ag
from altgrad.optim import FromRule, by_group

SHAPES = (33, 17), (5,), (8, 8), (3,)


@ag.rule
def heavy(p: ag.Param, g: ag.Grad, buf: ag.State, *, lr=0.1, momentum=0.9):
    buf = momentum * buf + g
    return p - lr * buf, dict(buf=buf)


@ag.rule(of="matrices")
def spectral(p: ag.Param, g: ag.Grad, buf: ag.State, *, lr=0.02):
    buf = ag.lerp(buf, g, 0.05)
    return p - lr * ag.orthogonalize(buf, eps=1e-7), dict(buf=buf)


def of(param):
    return "hidden" if param.dim() == 2 else "rest"


def test_muon_with_adamw_beside_it_is_the_librarys():
    ours, theirs = twins.make(SHAPES)
    both = by_group(hidden=FromRule("muon"), rest=FromRule("adamw"))
    one = both(ours, rule=of, hidden=dict(lr=0.02), rest=dict(lr=3e-3, decay=0.1, eps=1e-7, beta2=0.95), max_grad_norm=0.5)
    with pytest.warns(UserWarning, match="max_grad_norm only changes"):
        other = altgrad.optim.Muon([dict(params=[p for p in theirs if p.dim() == 2], lr=0.02),
                                    dict(params=[p for p in theirs if p.dim() == 1], lr=3e-3, use_muon=False)], max_grad_norm=0.5)
    assert [group["rule"] for group in one.param_groups] == ["hidden", "rest"] and "beta2" not in one.param_groups[0]
    for step in range(4):
        for optimizer in (one, other):
            optimizer.param_groups[1]["lr"] = 3e-3 * 0.9 ** step
        twins.step([one, other], [ours, theirs])
    assert all(map(torch.equal, ours, theirs)) and torch.equal(one.grad_norm, other.grad_norm)
    assert len(one._built.tables) == 1 and {*one.state[ours[1]]} == {"step", "m", "v"}


def test_rules_in_python_files_copies_and_pickles():
    both = by_group("buf=bf16", matrices=spectral, rest=heavy)
    assert pickle.loads(pickle.dumps(both)) is both and "matrices by @spectral" in both.__doc__
    a, b, c = twins.make(SHAPES, count=3)
    groups = lambda params: [dict(params=params[::2], rule="matrices"), dict(params=params[1::2], lr=0.05)]
    one, other = both(groups(a), rule="rest"), both(groups(b), rule="rest", rest=dict(momentum=0.5))
    twins.step([one], [a], 2)
    torch._foreach_copy_([p.data for p in b], [p.data for p in a])
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    third = pickle.loads(pickle.dumps(one))
    mine = [p for pair in zip(*[group["params"] for group in third.param_groups]) for p in pair]
    twins.step([one, other, third], [a, b, mine], 2)
    assert all(map(torch.equal, a, b)) and all(map(torch.equal, a, mine))
    assert other.param_groups[1]["momentum"] == 0.9 and one.state[a[0]]["buf"].dtype == torch.bfloat16


@ag.rule
def nesterov(p: ag.Param, g: ag.Grad, buf: ag.State, *, lr=0.1, ahead: ag.Option = False):
    buf = 0.9 * buf + g
    return p - lr * (g + 0.9 * buf if ahead else buf), dict(buf=buf)


@nesterov.entry
def restart(p: ag.Param, buf: ag.State):
    return p, dict(buf=0.0 * buf)


def test_one_function_with_other_options_steps_each_group():
    kinds = dict(hidden=nesterov.optimizer(options="ahead"), rest=nesterov.optimizer())
    ours, alone = twins.make(SHAPES)
    one = by_group(**kinds)(ours, rule=of)
    others = [kind([p for p in alone if of(p) == name]) for name, kind in kinds.items()]
    for _ in range(3):
        twins.step([one, *others], [ours, alone, alone])
        for optimizer in (one, *others):
            optimizer.restart()
    assert all(map(torch.equal, ours, alone)) and not one.state[ours[1]]["buf"].any()
    assert "hidden by @nesterov, rest by @nesterov_rest" in type(one).__doc__


@pytest.mark.parametrize("make, error, words", [
    (lambda p: by_group(a=heavy)(p, rule="b"), ValueError, "has no rule 'b'; it takes a|has no rule 'b'; did you mean a"),
    (lambda p: by_group(a=heavy)(p, b={}), TypeError, "has no rule 'b'"),
    (lambda p: by_group(a=heavy)(p, a=dict(rate=1.0)), TypeError, "rule 'a' has no hyper-parameter rate"),
    (lambda p: by_group(a=spectral)(p), ValueError, "parameter 1 of group 0 of shape .5,. is no matrix"),
    (lambda p: by_group(a=3), TypeError, "takes classes of FromRule and rules in Python, and a is 3"),
    (lambda p: by_group(params=heavy), ValueError, "'params' is a keyword of the optimizer"),
    (lambda p: by_group(a=heavy, b=FromRule("rule heavy(param w, grad g)\n  w = w - g\n")), ValueError, "another rule called @heavy")])
def test_what_does_not_go_together(make, error, words):
    with pytest.raises(error, match=words):
        make(twins.make(SHAPES, count=1)[0])
