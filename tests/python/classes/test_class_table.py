"""The core's table of classes names the states that the templates declare, and signatures have their defaults."""

import functools
import inspect
import re
import subprocess
from pathlib import Path

import altgrad
import pytest
import stock
from altgrad._rule import find_rule
from altgrad._storage.word import class_of

NAMES = [name for name in altgrad.optim.__all__ if class_of(name)]


@functools.cache
def long_form(rule):
    """The template as the compiler reads it, in one line, without its entries."""
    text = subprocess.run([stock.COMPILER, "--print-rule", find_rule(rule).origin], capture_output=True, text=True, check=True)
    return " ".join(re.split(rf"altgrad.rule @{rule}_\w+\(", text.stdout)[0].split())


def declared(rule):
    """The states of elements and of units; those of rows, columns and squares have the names of the template."""
    rows = find_rule(rule).declared("row")
    return [name for name in re.findall(r"state %(\w+): \w+\b(?! per (?:tensor|step|column|rows))", long_form(rule)) if name not in rows]


@pytest.mark.parametrize("name", NAMES)
def test_a_class_keeps_the_states_of_its_template(name):
    of = class_of(name)
    beside = declared("adamw") if of.matrices else []  # which steps what holds no matrices
    assert [state for state in of.keys if state not in beside] == declared(of.rule)
    assert [state for state in beside if state in of.keys] == ["m", "v"] * bool(beside)  # without amsgrad


def test_every_template_has_a_class_but_a_test_and_a_type_of_mars():
    folder = Path(find_rule("adamw").origin).parent
    assert {path.stem for path in folder.glob("*.mlir")} - {class_of(name).rule for name in NAMES} == {"signsgd", "marsshampoo"}


def defaults_of(rule):
    """{hyper-parameter: its default, None without one} as the template says."""
    found = re.findall(r"hyper %(\w+): f64(?: per step)?(?: = ([-+.\deE]+))?", long_form(rule))
    return {name: value and float(value) for name, value in found}


@pytest.mark.parametrize("name", NAMES)
def test_a_class_has_the_defaults_of_its_template(name):
    cls = getattr(altgrad.optim, name)
    given = {key: parameter.default for key, parameter in inspect.signature(cls).parameters.items()}
    declared = defaults_of(class_of(name).rule)
    assert declared
    for hyper, default in declared.items():
        key, index = cls._hyper_place(cls, hyper)
        if key in cls._computed:
            continue
        mine = given[key] if index is None else given[key][index]
        assert (0.0 if mine is None and key in cls._absent else min(mine, 1e300)) == default, hyper  # a default is finite
