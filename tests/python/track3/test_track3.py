"""Entries of modded-nanogpt's track 3 as rules, beside their formulas in float64."""

import ast
import inspect
import sys
from pathlib import Path
from types import FunctionType

import oracle
import pytest
import torch
from entries import ENTRIES, Entry

import altgrad.language as ag

WRITTEN = [(number, *rules) for number, entry in ENTRIES.items() if isinstance(entry, Entry) for rules in entry.rules]
IDS = [f"{number}-{rule.__name__}{''.join(f'-{name}' for name, on in rule.options.items() if on)}" for number, rule, *_ in WRITTEN]

ROOTS = "il", "ir"  # of singular squares they are as large as rounding lets them, where nothing is multiplied with them


def reference(one):
    return getattr(sys.modules[one.__module__], one.__name__ + "_reference")


def step(rules, given):
    """What the references of a rule and its transforms make of a parameter: its new value, the new states."""
    of = lambda one, given: {name: given[name] for name in inspect.signature(one).parameters if name in given}
    rule, *transforms = rules
    p, states = reference(rule)(**of(rule, given))
    for one in transforms:
        name = one.__name__ + "_"
        own = {key.removeprefix(name): value for key, value in given.items() if key.startswith(name)}
        p, more = reference(one)(**of(one, {**own, "p": given["p"], "t": given["t"], "w": p}))
        states = {**states, **{name + key: value for key, value in more.items()}}
    return p, states


@pytest.mark.parametrize("rows, columns", [(5, 12), (33, 17), (8, 8)])
@pytest.mark.parametrize("written", WRITTEN, ids=IDS)
def test_a_rule_follows_its_formulas(written, rows, columns):
    number, *rules = written
    draws = torch.Generator().manual_seed(number)
    param = torch.nn.Parameter(torch.randn(rows, columns, generator=draws))
    optimizer = ag.compose(*rules).optimizer()([param], **ENTRIES[number].numbers)
    p, states, largest = param.detach().double(), {}, {}
    for t in range(1, 31):
        param.grad = torch.randn(rows, columns, generator=draws)
        optimizer.step()
        ours = {name: value.double() for name, value in optimizer.state[param].items() if name != "step"}
        states = states or {name: torch.zeros_like(value) for name, value in ours.items()}
        oracle.found[:] = [ours[name] for name in ("left", "right") if name in ours]
        p, states = step(rules, {**optimizer.param_groups[0], **rules[0].options, **states, "p": p, "g": param.grad.double(), "t": t})
        for name, mine, wanted in [("p", param.detach(), p)] + [(name, ours[name], states[name]) for name in states if name not in ROOTS]:
            largest[name] = max(largest.get(name, 0.0), (mine - wanted).abs().max().item())
    assert max(largest.values()) < (4e-5 if "gl" in ours else 1e-5), largest


def functions(one, found):
    """The functions of this folder that a rule or a transform consists of."""
    one = inspect.unwrap(one) if callable(one) else one
    if isinstance(one, FunctionType) and Path(one.__code__.co_filename).parent == Path(__file__).parent and one not in found:
        found.append(one)
        for name in one.__code__.co_names:
            functions(one.__globals__.get(name), found)
    return found


def lines(function):
    """How many lines a function has, without what stands over it and its docstring."""
    tree = ast.parse(inspect.getsource(function)).body[0]
    body = tree.body[1:] if ast.get_docstring(tree) else tree.body
    return body[0].lineno - tree.lineno + body[-1].end_lineno - body[0].lineno + 1 - (tree.body[0] is not body[0]) * (
        tree.body[0].end_lineno - tree.body[0].lineno + 1)


@pytest.mark.parametrize("written", WRITTEN, ids=IDS)
def test_a_rule_is_short(written):
    """With all functions of this folder that it calls, but those that the entries of SOAP-Muon share."""
    found = []
    for one in written[1:]:
        functions(one, found)
    own = [one for one in found if one.__module__ != "soaps" or hasattr(sys.modules["soaps"], one.__name__ + "_reference")]
    assert sum(map(lines, own)) <= 40


def test_every_entry_has_a_rule_or_a_reason():
    assert list(ENTRIES) == list(range(1, 47)) and len({number for number, *_ in WRITTEN}) >= 42
