"""Entries of a rule: further steps over the same parameters and states, against the same formulas in float64."""

import copy
import pickle

import pytest
import torch

import altgrad
import altgrad.language as ag

SHAPES = (5, 7), (300, 40), (3,)


@ag.rule
def free(y: ag.Param, g: ag.Grad, z: ag.State, t: ag.Step, *, lr=0.1, betas=(0.9,)):
    z = ag.where(t == 1, y, z)
    return ag.lerp(y, z, 1 / t) - lr * (1 - betas[0] * (1 - 1 / t)) * g, dict(z=z - lr * g)


@free.entry
def eval(y: ag.Param, z: ag.Input, *, beta1):
    """Makes the averaged weights of those for gradients."""
    return ag.lerp(y, z, 1 - 1 / beta1)


@free.entry
def train(y: ag.Param, z: ag.Input, *, betas):
    return ag.lerp(y, z, 1 - betas[0])


@ag.rule
def sam(p: ag.Param, g: ag.Grad, old: ag.State, m: ag.State, *, lr=0.1):
    m = ag.lerp(m, g, 0.1)
    return old - lr * m, dict(m=m)  # `old` is given by climb


@sam.entry
def climb(p: ag.Param, g: ag.Grad, old: ag.State, *, rho=0.05):
    return p + rho / ag.sqrt(ag.total(g * g)) * g, dict(old=p)


def params():
    draws = torch.Generator().manual_seed(0)
    made = [torch.nn.Parameter(torch.randn(shape, generator=draws)) for shape in SHAPES]
    for param in made:
        param.grad = torch.randn(param.shape, generator=draws)
    return made


@pytest.mark.parametrize("storage", ["", "z=bf16"])
def test_an_entry_reads_states_and_other_hyper_parameters(storage):
    own = params()
    optimizer = free.optimizer(storage)(own, betas=(0.8,), max_grad_norm=0.5)
    optimizer.eval()  # before the first step there is nothing to do
    for _ in range(3):
        optimizer.step()
    before, held = [param.detach().clone() for param in own], [param.grad for param in own]
    own[2].grad = None  # no gradient is read
    optimizer.eval()
    for param, y in zip(own, before):
        z = optimizer.state[param]["z"].double()
        torch.testing.assert_close(param.double(), y.double() + (1 - 1 / 0.8) * (z - y.double()), atol=1e-6, rtol=0)
    assert own[2].grad is None and own[0].grad is held[0]
    optimizer.train()
    torch.testing.assert_close([param.data for param in own], before, atol=1e-6, rtol=0)


def test_an_entry_with_gradients_makes_the_states_of_the_rule():
    own = params()
    first = [param.detach().clone() for param in own]
    optimizer = sam.optimizer()(own, rho=0.2)
    optimizer.climb()
    norm = sum((param.grad.double() ** 2).sum() for param in own).sqrt()
    for param, w in zip(own, first):
        torch.testing.assert_close(param.double(), w.double() + 0.2 / norm * param.grad.double(), atol=1e-6, rtol=0)
        assert torch.equal(optimizer.state[param]["old"], w) and not optimizer.state[param]["m"].any()
    optimizer.step()
    for param, w in zip(own, first):
        torch.testing.assert_close(param.data, w - 0.01 * param.grad, atol=1e-6, rtol=0)


def test_copies_pickles_and_files_have_entries():
    optimizer = free.optimizer()(params())
    optimizer.step()
    optimizer.train()
    others = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer)), free.optimizer()(params())]
    others[2].load_state_dict(copy.deepcopy(optimizer.state_dict()))
    torch._foreach_copy_([p.data for p in others[2].param_groups[0]["params"]], [p.data for p in optimizer.param_groups[0]["params"]])
    for one in [optimizer, *others]:
        one.eval()
    for other in others:
        assert all(map(torch.equal, optimizer.param_groups[0]["params"], other.param_groups[0]["params"]))
    assert "averaged weights" in type(optimizer).eval.__doc__ and pickle.loads(pickle.dumps(type(optimizer))) is type(optimizer)


def test_a_text_with_entries(tmp_path):
    (tmp_path / "free.mlir").write_text("rule free(param w, grad g, state z, lr = 0.1)\n  z = z + g\n  w = w - lr * g\n"
                                        "rule free_back(param w, grad g, input z, lr = 0.1)\n  w = w + lr * z\n")
    own = params()
    before = [param.detach().clone() for param in own]
    optimizer = altgrad.optim.FromRule(tmp_path / "free.mlir", entries=["back"])(own, lr=0.5)
    optimizer.step()
    optimizer.back()
    torch.testing.assert_close([param.data for param in own], before)
    with pytest.raises(ValueError, match="'step' of its own: give the entry another name"):
        altgrad.optim.FromRule("rule a(param w, grad g)\n  w = w - g\nrule a_step(param w, grad g)\n  w = w + g\n", entries=["step"])
    with pytest.raises(ValueError, match="@a_b has a row 'r', which rule @a has not"):
        altgrad.optim.FromRule("rule a(param w, grad g)\n  w = w - g\nrule a_b(param w, grad g, row r)\n  w = w + r\n  r = r + 1\n",
                               entries=["b"])
    with pytest.raises(ValueError, match="@a_b has a input 'h', which rule @a has not"):
        altgrad.optim.FromRule("rule a(param w, grad g)\n  w = w - g\nrule a_b(param w, grad g, input h)\n  w = w + h\n", entries=["b"])


def test_an_entry_has_the_states_and_the_count_of_its_rule():
    with pytest.raises(ag.RuleError, match="h is no state of the rule @free") as told:
        @free.entry
        def more(y: ag.Param, h: ag.State):
            return y + h, dict(h=h + 1)
    assert "def more" in told.value.text
    with pytest.raises(ag.RuleError, match="'z' is returned, and an ag.Input is only read: write z: ag.State"):
        @free.entry
        def other(y: ag.Param, z: ag.Input):
            return y, dict(z=y)
        print(free.text)
    del free.entries["other"]
    with pytest.raises(ag.RuleError, match="the rule @sam counts no steps: give it an ag.Step, too"):
        @sam.entry
        def later(p: ag.Param, t: ag.Step):
            return p / t


def test_an_entry_leaves_an_average_of_weights_as_it_is():
    param = torch.nn.Parameter(torch.ones(5))
    optimizer = altgrad.optim.AdamWScheduleFree([param], lr=0.1, ema=0.5)
    for _ in range(3):
        param.grad = torch.ones(5)
        optimizer.step()
    before = optimizer.state[param]["ema"].clone(), param.detach().clone()
    optimizer.eval()
    assert torch.equal(optimizer.state[param]["ema"], before[0]) and not torch.equal(param, before[1])
    optimizer.train()
    torch.testing.assert_close(param.detach(), before[1])
