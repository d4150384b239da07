"""Entries over states in any format: with the bits of a rule that does the same to the same tensors."""

import copy

import pytest
import torch

import altgrad
import altgrad.language as ag
from altgrad.optim import FromRule

SHAPES = (64, 128), (300, 64), (3,)
FREE = """rule free(param y, grad g, state z v, step t, lr = 0.1, beta = 0.9)
  z = y if t == 1 else z
  v = lerp(v, g * g, 0.1)
  y = lerp(y, z, 1 / t) - lr * (1 - beta * (1 - 1 / t)) * g / (sqrt(v) + 1e-8)
  z = z - lr * g
"""
EVAL = "  y = lerp(y, z, 1 - 1 / beta) * t\n  z = z + v\n"
# What the entry does, as a rule of its own, whose count is one more.
ALONE = "rule alone(param y, grad g, state z v, step t, beta = 0.9)\n" + EVAL.replace("* t", "* (t - 1)") + "  v = v\nentry keep\n  v = g\n"
STORAGES = ["", "z=bf16 v=bf16", "z=ocp.e4m3fn:128 v=ocp.e5m2:128", "z=bnb8:256 v=bnb8u:256", "z=ocp.e2m1:16 v=ocp.e5m2:32", "master=f32",
            "master=bf16+i16 z=mxfp8", "master=f32 states=bf16,stochastic", "z=ocp.e4m3fn:128,stochastic copy=mxfp8"]


def params(dtype):
    draws = torch.Generator().manual_seed(0)
    made = [torch.nn.Parameter(torch.randn(shape, generator=draws).to(dtype)) for shape in SHAPES]
    for param in made:
        param.grad = torch.randn(param.shape, generator=draws).to(dtype)
    return made


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("storage", STORAGES)
def test_it_has_the_bits_of_a_rule_that_does_the_same(storage, dtype):
    words = dict(seed=3) if "stochastic" in storage else {}
    own, others = params(dtype), params(dtype)
    optimizer = FromRule(FREE + "entry eval\n" + EVAL, storage)(own, beta=0.8, **words)
    for _ in range(3):
        optimizer.step()
    other = FromRule(ALONE, storage)(others, beta=0.8, **words)
    torch._foreach_copy_([param.data for param in others], [param.data for param in own])
    for param, its in zip(own, others):
        other.state[its] = copy.deepcopy(dict(optimizer.state[param]))
    for key in ("seed", "draws") if words else ():
        other.param_groups[0][key] = copy.deepcopy(optimizer.param_groups[0][key])
    optimizer.eval()
    other.step()
    for param, its in zip(own, others):
        assert torch.equal(param, its)
        for key, value in optimizer.state[param].items():
            assert key == "step" or torch.equal(value.view(torch.uint8), other.state[its][key].view(torch.uint8)), key
        assert optimizer.state[param]["step"] == 3 and other.state[its]["step"] == 4


def test_files_go_on_with_codes():
    first, second = params(torch.float32), params(torch.float32)
    made = FromRule(FREE + "entry eval\n" + EVAL, "z=ocp.e4m3fn:128 v=bnb8u:256")
    one, other = made(first), made(second)
    one.step()
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    torch._foreach_copy_([param.data for param in second], [param.data for param in first])
    for optimizer in (one, other):
        optimizer.eval()
        optimizer.step()
    assert all(map(torch.equal, first, second))


def test_a_state_that_only_entries_have_is_stored_as_its_word_says():
    text = "rule a(param w, grad g, state kept, lr = 0.1)\n  w = w - lr * g\nentry keep\n  kept = w\nentry back\n  w = kept\n"
    own = params(torch.float32)
    optimizer = FromRule(text, "kept=bf16")(own)
    optimizer.step()
    assert not optimizer.state[own[0]]
    optimizer.keep()
    before = [param.detach().bfloat16().float() for param in own]
    optimizer.step()
    optimizer.back()
    assert all(map(torch.equal, own, before)) and optimizer.state[own[0]]["kept"].dtype == torch.bfloat16


def test_python_and_short_text_are_one_text():
    @ag.rule
    def sam(p: ag.Param, g: ag.Grad, m: ag.State, old: ag.State, t: ag.Step, *, lr=0.1):
        m = ag.lerp(m, g, 0.1)
        return old - lr * m, dict(m=m)

    @sam.entry
    def climb(p: ag.Param, g: ag.Grad, old: ag.State, *, rho=0.05):
        return p + rho / ag.sqrt(ag.total(g * g)) * g, dict(old=p)

    @sam.entry
    def back(old: ag.Input, p: ag.Param, t: ag.Step, *, lr):
        return ag.where(t > 1, old, p) - lr * p

    short = """rule sam(param p, grad g, state m old, step t, lr = 0.1)
  m = lerp(m, g, 0.1)
  p = old - lr * m
entry climb(rho = 0.05)
  old = p
  p = p + rho / sqrt(sum(g * g over step)) * g
entry back
  p = (old if t > 1 else p) - lr * p
"""
    own, others = params(torch.float32), params(torch.float32)
    made = [sam.optimizer("old=mxfp8")(own), FromRule(short, "old=mxfp8")(others)]
    for optimizer in made:
        for _ in range(3):
            optimizer.climb()
            optimizer.step()
        optimizer.back()
    assert all(map(torch.equal, own, others))
    texts = [altgrad._rule.find_rule(text) for text in (sam.text, short)]
    assert [text.entries() for text in texts] == [["climb", "back"]] * 2
    for entry in ("climb", "back"):
        a, b = [altgrad.optim._entries.entry_of(text, entry) for text in texts]
        assert all(a.declared(role) == b.declared(role) for role in ("state", "step", "hyper")) and a.reads("grad") == b.reads("grad")
