"""by_group over rules with entries and with storages of their own: the bits of each rule's class by itself."""

import copy
import pickle

import pytest
import torch
import twins

import altgrad.language as ag
from altgrad.optim import FromRule, by_group

SHAPES = (64, 128), (5,), (32, 64), (3,)
FREE = """rule free(param w, grad g, state z, step t, lr = 0.1, beta = 0.9)
  z = w if t == 1 else z
  w = lerp(w, z, 1 / t) - lr * (1 - beta * (1 - 1 / t)) * g
  z = z - lr * g
entry eval
  w = lerp(w, z, 1 - 1 / beta)
entry train
  w = lerp(w, z, 1 - beta)
"""


@ag.rule
def sam(p: ag.Param, g: ag.Grad, old: ag.State, m: ag.State, *, lr=0.1):
    m = ag.lerp(m, g, 0.1)
    return old - lr * m, dict(m=m)


@sam.entry
def climb(p: ag.Param, g: ag.Grad, old: ag.State, *, rho=0.05):
    """Goes up."""
    return p + rho * g, dict(old=p)


WORDS = dict(matrices=("z=ocp.e4m3fn:128", FREE), rest=("old=bf16,stochastic m=bf16", sam))


def made(storage=""):
    return by_group(storage, matrices=FromRule(FREE, WORDS["matrices"][0]), rest=sam.optimizer(WORDS["rest"][0]))


def of(param):
    return "matrices" if param.dim() == 2 else "rest"


def test_each_entry_steps_the_groups_whose_rule_has_it():
    ours, theirs = twins.make(SHAPES)
    both = made()(ours, rule=of, matrices=dict(lr=0.2), rest=dict(rho=0.3), seed=7)
    free = FromRule(FREE, WORDS["matrices"][0])([p for p in theirs if p.dim() == 2], lr=0.2)
    alone = sam.optimizer(WORDS["rest"][0])([p for p in theirs if p.dim() == 1], rho=0.3, seed=7)
    for _ in range(3):
        twins.give_grads(ours), [setattr(q, "grad", p.grad.clone()) for p, q in zip(ours, theirs)]
        held = [p.grad for p in ours]
        both.climb(), alone.climb()
        assert all(p.grad is grad for p, grad in zip(ours, held))
        both.step(), free.step(), alone.step()
    assert both.state[ours[0]]["z"].dtype == torch.float8_e4m3fn and both.state[ours[1]]["m"].dtype == torch.bfloat16
    both.eval(), free.eval()
    assert torch.equal(ours[0], theirs[0]) and torch.equal(ours[2], theirs[2])
    both.train(), free.train()
    torch.testing.assert_close(ours[1], theirs[1], atol=2e-2, rtol=0)  # whose draws are of another place
    assert "Goes up" in both.climb.__doc__ and both.param_groups[0]["storage"] != both.param_groups[1]["storage"]


def test_files_copies_and_pickles_have_storages_and_entries():
    kind = made("states=bf16")
    assert pickle.loads(pickle.dumps(kind)) is kind
    a, b, c = twins.make(SHAPES, count=3)
    one, other = kind(a, rule=of, seed=1), kind(b, rule=of, seed=2)
    twins.give_grads(a)
    one.climb(), one.step()
    torch._foreach_copy_([p.data for p in b], [p.data for p in a])
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    third = copy.deepcopy(one)
    for optimizer in (one, other, third):
        params = [p for group in optimizer.param_groups for p in group["params"]]
        for param, like in zip(params, [p for group in one.param_groups for p in group["params"]]):
            param.grad = like.grad
        optimizer.step(), optimizer.climb(), optimizer.eval()
    assert all(map(torch.equal, a, b))
    assert all(map(torch.equal, [p for g in one.param_groups for p in g["params"]], [p for g in third.param_groups for p in g["params"]]))


def test_short_text_and_python_go_into_one_text():
    short = "rule down(param w, grad g, lr = 0.5)\n  w = w - lr * g\n"
    ours, theirs = twins.make(SHAPES)
    one = by_group(a=FromRule(short), b=sam, c=FromRule("adamw"))(
        [dict(params=ours[:1], rule="a"), dict(params=ours[1:2], rule="b"), dict(params=ours[2:], rule="c")], max_grad_norm=1.0, ema=0.5)
    twins.step([one], [ours], 2)
    assert len(one._built.tables) == 1 and "ema" in one.state[ours[1]]
    alone = FromRule(short)(theirs[:1])
    twins.give_grads(ours[:1], theirs[:1])
    before = ours[0].detach().clone()
    alone.step()
    assert not torch.equal(ours[0], theirs[0]) and torch.equal(before, ours[0])


def test_what_does_not_go_together():
    keeps = "rule keeps(param w, grad g, state old)\n  w = w - g\nentry keep\n  old = w\n"
    with pytest.raises(ValueError, match="'old' is a state of b, and of a for its entries alone: rename one of them"):
        by_group(a=FromRule(keeps), b=sam)
    with pytest.raises(ValueError, match="seed=3 is of no use: nothing is rounded stochastically"):
        by_group(a=FromRule(keeps))(twins.make(SHAPES, count=1)[0], seed=3)
