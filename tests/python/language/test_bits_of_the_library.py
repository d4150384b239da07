"""A rule in Python has the bits of the library's class of the same formula: the form has none of its own."""

import pytest
import rules
import torch
import twins

import altgrad

CASES = [
    (rules.adamw, altgrad.optim.AdamW, {}, dict(lr=0.01, betas=(0.8, 0.95), weight_decay=0.1)),
    (rules.adamw, altgrad.optim.AdamW, dict(amsgrad=True), dict(eps=1e-6)),
    (rules.adamw, altgrad.optim.AdamW, dict(amsgrad=True, maximize=True), {}),
    (rules.lion, altgrad.optim.Lion, {}, dict(lr=0.01, weight_decay=0.1)),
    (rules.sgd, altgrad.optim.SGD, {}, dict(lr=0.1, momentum=0.9, weight_decay=0.1, dampening=0.5)),
    (rules.sgd, altgrad.optim.SGD, dict(nesterov=True), dict(lr=0.1, momentum=0.9)),
    (rules.adopt, altgrad.optim.ADOPT, {}, dict(lr=0.01)),
]


@pytest.mark.parametrize("storage", ["", "states=ocp.e5m2:256,keep_positive"])
@pytest.mark.parametrize("rule, named, options, hypers", CASES, ids=lambda one: getattr(one, "__name__", None))
def test_twenty_steps(rule, named, options, hypers, storage):
    a, b = twins.make()
    ours, theirs = rule.optimizer(storage, options)(a, **hypers), named(b, **hypers, **options, storage=storage)
    twins.step([ours, theirs], [a, b], 20)
    for p, q in zip(a, b):
        assert torch.equal(p, q)


def test_muon_and_its_words():
    for words, options in (({}, {}), ({"nesterov": False, "steps=3": True}, dict(nesterov=False, ns_steps=3))):
        a, b = twins.make([(12, 20), (33, 17)])
        ours, theirs = rules.muon.optimizer(options=words)(a, lr=0.01), altgrad.optim.Muon(b, lr=0.01, **options)
        twins.step([ours, theirs], [a, b], 5)
        assert all(map(torch.equal, a, b))
