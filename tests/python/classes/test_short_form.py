"""FromRule takes the short form of a rule wherever it takes the long one."""

import pickle

import pytest
import torch

import altgrad
from altgrad._rule import find_rule

SHORT = """// A momentum, or its sign.
rule turn(param w, grad g, state m, unit most, lr = 1e-3, beta = 2^-1, option signed, plain, step t)
  m = lerp(m, g, 1 - beta)
  most = maximum(most, absmax(g over unit))
  w = w - lr * (sign(m) if signed else m) // altgrad.rule @other(
"""


def stepped(made, **hypers):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(5, 7))
    optimizer = made([param], **hypers)
    for _ in range(3):
        param.grad = torch.randn(5, 7)
        optimizer.step()
    return param.detach(), optimizer.state[param]


@pytest.mark.parametrize("options", [(), "signed"])
def test_a_text_steps_as_its_formula(options):
    param, state = stepped(altgrad.optim.FromRule(SHORT, options=options), lr=0.1)
    torch.manual_seed(0)
    w, m, most = torch.randn(5, 7), torch.zeros(5, 7), torch.zeros(5, 1)
    for _ in range(3):
        g = torch.randn(5, 7)
        m, most = torch.lerp(m, g, 0.5), torch.maximum(most, g.abs().amax(1, keepdim=True))
        w = w - 0.1 * (m.sign() if options else m)
    assert torch.equal(param, w) and torch.equal(state["m"], m) and torch.equal(state["most"].reshape(5, 1), most)


def test_its_names_are_known(tmp_path):
    file = tmp_path / "turn.mlir"
    file.write_text(SHORT)
    for rule in (find_rule(SHORT), find_rule(file), find_rule(str(file))):
        assert rule.name == "turn" and rule.options() == ["signed", "plain"] and not rule.multiplies()
        assert rule.declared("state") == ["m"] and rule.declared("hyper") == ["lr", "beta"] and rule.declared("step") == ["t"]
    made = altgrad.optim.FromRule(SHORT)
    assert pickle.loads(pickle.dumps(made)) is made
    with pytest.raises(TypeError, match="signed of rule @turn is an option"):
        made([torch.nn.Parameter(torch.ones(2))], signed=True)


def test_a_mistake_has_its_place():
    with pytest.raises(altgrad.Error, match="<rule>:3:15: error: 'h' is not defined above"):
        altgrad.optim.FromRule(SHORT.replace("m, g, 1", "m, h, 1"))


def test_one_of_two_rules():
    both = SHORT + "\nrule down(param w, grad g, lr = 0.5)\n  w = w - lr * g\n"
    param, state = stepped(altgrad.optim.FromRule(both, name="down"), lr=0.1)
    assert not set(state) - {"step"}
    with pytest.raises(altgrad.Error, match="not exactly one rule .rules there: @turn, @down"):
        altgrad.optim.FromRule(both)
