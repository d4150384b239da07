"""The README is short, and its table of optimizers is what the classes are."""
import os
import re
import subprocess

import pytest
import torch

import altgrad
from altgrad import optim
from altgrad._rule import find_rule
from pages import ROOT

README = (ROOT / "README.md").read_text()
NUMEL = 1 << 16
FP8 = "states=ocp.e5m2:256"


def rows():
    """{class: the cells behind it} of the table of optimizers."""
    lines = [line.split(" | ") for line in README.split("\n") if re.match(r"\| `\w+` \| `", line)]
    return {cells[0].strip("|` "): [cell.strip(" |") for cell in cells[1:]] for cells in lines}


def classes():
    """{name: class} of the stock optimizers."""
    found = {name: getattr(optim, name) for name in optim.__all__}
    return {name: made for name, made in found.items()
            if isinstance(made, type) and issubclass(made, optim.Optimizer) and made is not optim.Optimizer}


def bytes_of(name, storage=""):
    """The bytes of state for each element that a step of a class leaves, step counts aside."""
    param = torch.nn.Parameter(torch.zeros(256, NUMEL // 256))
    param.grad = torch.ones_like(param)
    cls, options = classes()[name], {"momentum": 0.9} if name == "SGD" else {}
    optimizer = cls([param], storage=storage, **options)
    optimizer.step()
    apart = {"step", *[cls._keys[word] for word in cls._of_units]}
    return sum(value.numel() * value.element_size() for key, value in optimizer.state[param].items() if key not in apart) / NUMEL


def template_of(name):
    """The rule behind a class."""
    return find_rule(name.lower())


def test_it_is_read_in_three_minutes():
    lines = README.split("\n")
    assert len(lines) <= 151 and max(map(len, lines)) <= 120


def test_it_counts_the_formats():
    listed = subprocess.run([os.environ.get("ALTGRAD_OPT", "altgrad-opt"), "--list-formats"], capture_output=True,
                            text=True, check=True).stdout.splitlines()
    assert f"[{len(listed)} formats]" in README


def test_every_class_is_in_the_gallery():
    gallery = (ROOT / "templates/Gallery.md").read_text()
    named = re.findall(r"`(\w+)`", "".join(line.split(" | ")[1] for line in gallery.split("\n") if line.startswith("| [")))
    assert sorted(named) == sorted(classes())


def test_the_table_names_classes():
    named = {name + ending for name, cells in rows().items() for ending in ["", *re.findall(r"`(\d?\w+)`", cells[2])]
             if ending != "storage"}
    assert named <= set(classes())


@pytest.mark.parametrize("name", rows())
def test_bytes_of_state_are_those_of_a_step(name):
    _, wide, narrow, *_ = rows()[name]
    assert float(wide) == bytes_of(name)
    for number, endings in re.findall(r"([\d.]+) ((?:`\w+` ?)+|by `storage`)", narrow):
        for ending in re.findall(r"`(\w+)`", endings):
            made = bytes_of(name, FP8) if ending == "storage" else bytes_of(name + ending)
            assert number == f"{made:.2f}", f"{name} {ending}"


@pytest.mark.parametrize("name", rows())
def test_the_counterpart_is_the_class_that_it_falls_back_to(name):
    reference = classes()[name]._reference
    assert rows()[name][3] == (f"`{reference.__name__}`" if reference else "–")
    assert reference is None or reference is getattr(torch.optim, name)


@pytest.mark.parametrize("name", rows())
def test_the_formula_names_what_the_rule_reads(name):
    """Of every rule's states that a class of default options stores, a letter or a name is in the formula."""
    state = {key for key in classes()[name]._keys if key not in classes()[name]._only_with}
    formula = rows()[name][0].replace("m̂", "m").replace("v̂", "v")
    assert not [key for key in state if not re.search(rf"\b{key}\b", formula)], f"{state} in {formula}"
