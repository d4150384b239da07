"""Muon's rule by FromRule: its words among the options, and parameters that are no matrices."""

import pickle

import pytest
import torch

import altgrad
from altgrad.optim import NewtonSchulz

WORDS = [(["steps=8"], dict(ns_steps=8)), (["plain", "in=f32"], dict(nesterov=False, orthogonalize=NewtonSchulz(dtype=torch.float32))),
         (["length=added"], dict(orthogonalize=NewtonSchulz(length="added"))), (["equal=rows"], dict(orthogonalize=NewtonSchulz(equilibrate="rows"))),
         (["batches=none"], dict(reproducible=True)), (["scale=match_rms"], dict(adjust_lr_fn="match_rms_adamw")),
         (["decay=cautious"], dict(cautious=True)), (["coefficients=you"], dict(ns_coefficients="you")),
         ({"coefficients=2.0/-1.5/0.5|3.4445/-4.775/2.0315": True, "steps=2": True, "plain": False},
          dict(ns_coefficients=((2.0, -1.5, 0.5), (3.4445, -4.775, 2.0315)), ns_steps=2))]


@pytest.mark.parametrize("words, kwargs", WORDS)
def test_words_of_the_rule_are_arguments_of_the_class(words, kwargs):
    torch.manual_seed(0)
    start, grads = torch.randn(12, 20), torch.randn(3, 12, 20)
    made = altgrad.optim.FromRule("muon", options=words)
    assert pickle.loads(pickle.dumps(made)) is made
    results = []
    for make in (lambda p: made([p], eps=0.5), lambda p: altgrad.optim.Muon([p], eps=0.5, **kwargs),
                 lambda p: altgrad.optim.Muon([p], eps=0.5)):
        param = torch.nn.Parameter(start.clone())
        optimizer = make(param)
        for grad in grads:
            param.grad = grad
            optimizer.step()
        results.append(param.detach())
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2]) == (words == ["batches=none"])


def test_a_stack_of_matrices_is_one_over_units():
    torch.manual_seed(0)
    start, grad = torch.randn(3, 4, 6), torch.randn(3, 4, 6)
    whole = torch.nn.Parameter(start.clone())
    each = [torch.nn.Parameter(part.clone()) for part in start]
    whole.grad, grads = grad, list(grad)
    for part, own in zip(each, grads):
        part.grad = own
    altgrad.optim.FromRule("muon", options="over=unit")([whole]).step()
    altgrad.optim.FromRule("muon")(each).step()
    torch.testing.assert_close(whole.detach(), torch.stack([part.detach() for part in each]))


@pytest.mark.parametrize("options, shape, takes", [
    ((), (8,), "two dimensions;"), ((), (), "two dimensions;"), ((), (3, 4, 6), "two dimensions;"),
    (("over=unit",), (8,), "two dimensions or more;")])
def test_what_is_no_matrix_is_refused_when_the_optimizer_is_made(options, shape, takes):
    made = altgrad.optim.FromRule("muon", options=options)
    weight, other = torch.nn.Parameter(torch.ones(4, 6)), torch.nn.Parameter(torch.ones(shape))
    words = rf"parameter 1 of group 0 of shape \({', '.join(map(str, shape))},?\) .* its rule multiplies .* {takes}"
    with pytest.raises(ValueError, match=words):
        made([weight, other])
    optimizer = made([weight])
    with pytest.raises(ValueError, match="parameter 0 of group 1"):
        optimizer.add_param_group({"params": [other]})
    assert len(optimizer.param_groups) == 1
    made([torch.nn.Parameter(torch.ones(0, 4))])


@pytest.mark.parametrize("word, error, match", [
    ("stps=8", altgrad.Error, "rule 'muon' has no option 'stps=8'"), ("steps=800", altgrad.Error, "1 to 99 steps"),
    ("steps=8}", ValueError, "'steps=8}' cannot be the name of an option, nor a word such as 'steps=8'"),
    ("steps= 8", ValueError, "cannot be"), ("a,b", ValueError, "cannot be"), ("steps=", ValueError, "cannot be")])
def test_words_that_are_none(word, error, match):
    with pytest.raises(error, match=match):
        altgrad.optim.FromRule("muon", options=[word])
