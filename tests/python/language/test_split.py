"""Rules of one's own over several matrices in a parameter: the bits of altgrad.optim.Muon with the same split."""

import pytest
import torch
import twins

import altgrad
import altgrad.language as ag
from altgrad.optim import by_group

SHAPES = (32, 16), (12, 40), (6, 4, 3, 3)


@ag.rule(of="matrices")
def muon(w: ag.Param, g: ag.Grad, buf: ag.State, *, lr=1e-3, momentum=0.95, weight_decay=0.1):
    buf = ag.lerp(buf, g, 1 - momentum)
    o = ag.orthogonalize(ag.lerp(g, buf, momentum), coefficients="jordan", steps=5, dtype="bf16", eps=1e-7)
    return ag.descend(w, o, rate=lr * ag.scale_by_shape("original"), decay=lr * weight_decay), dict(buf=buf)


@pytest.mark.parametrize("words, shapes", [(dict(split=4), SHAPES[:2]), (dict(split=(8, 4)), SHAPES[1:2]), (dict(flatten=True), SHAPES[2:])],
                         ids=str)
@pytest.mark.parametrize("groups", [False, True])
def test_it_has_the_bits_of_the_library(words, shapes, groups):
    ours, theirs = twins.make(shapes)
    kind = by_group(all=muon) if groups else muon.optimizer()
    one = kind([dict(params=ours, **words)])
    other = altgrad.optim.Muon([dict(params=theirs, **words)])
    twins.step([one, other], [ours, theirs], 3)
    assert all(map(torch.equal, ours, theirs))


def test_the_whole_optimizer_says_it_and_mistakes_have_a_place():
    ours, theirs = twins.make(SHAPES[:1])
    one, other = muon.optimizer()(ours, split=4), altgrad.optim.Muon(theirs, split=4)
    twins.step([one, other], [ours, theirs], 2)
    assert torch.equal(*ours, *theirs) and "split" in str(one.__signature__)
    with pytest.raises(ValueError, match="parameter 0 of group 0 .*split=5"):
        muon.optimizer()(ours, split=5)
    with pytest.raises(ValueError, match="group 0: split is for rules with orthogonalize"):
        altgrad.optim.FromRule("adamw")([dict(params=ours, split=4)])
    with pytest.raises(ag.RuleError, match="matrices in a parameter are said where it is: rule.optimizer"):
        ag.rule(of="matrices", split=4)
