"""A slice of what tools/soak.sh rules and pairs try for hours, and that both notice a fault."""

import freereference
import freerule
import numpy as np
import pairs
import pytest
import rules
import torch

SUMS = {"seed": 1, "steps": 2, "flags": ["--clip=agc-unit"], "sets": [{
    "hypers": [["h0", 0.5]], "states": ["s0"], "unit_states": ["r0"], "words": ["param=bf16", "master=f32"], "shapes": [[33, 64], [1, 99]],
    "statements": [["v0", "truncf", ["h0"], ""], ["v1", "reduce", ["g"], "sumsq over unit"], ["v2", "maximumf", ["v1", "r0"], ""],
                   ["v3", "mulf", ["v0", "g"], ""], ["v4", "subf", ["w", "v3"], ""], ["v5", "altgrad.lerp", ["v0", "s0", "v4"], ""]],
    "yields": {"w": "v4", "s0": "v5", "r0": "v2"}}]}


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.mark.parametrize("seed", range(12))
def test_a_random_rule_has_numpys_numbers(seed):
    words = rules.run(freerule.generate(seed))
    assert words is None or words.startswith("refused"), words


def test_a_rule_of_units_has_numpys_numbers():
    assert rules.run(SUMS) is None


@pytest.mark.parametrize("block", freerule.TILES)
def test_tiles_read_the_parameter_that_was(block):
    one = {"hypers": [], "states": ["m"], "unit_states": [], "words": [], "shapes": [[64, 128]], "yields": {"w": "v3", "m": "v4"},
           "statements": [["v0", "reduce", ["g"], "absmax over unit"], ["v1", "divf", ["g", "v0"], ""], ["v2", "mulf", ["w", "v1"], ""],
                          ["v3", "subf", ["w", "g"], ""], ["v4", "reduce", ["v2"], f"absmax over block<{block}>"]]}
    assert rules.run({"seed": 1, "steps": 1, "flags": [], "sets": [one]}) is None


@pytest.mark.parametrize("operation", ["mulf", "subf", "maximumf", "altgrad.lerp"])
def test_another_number_is_noticed(monkeypatch, operation):
    monkeypatch.setitem(freereference.TAKES, operation, lambda a, b, *_: (a * np.float32(1 + 2e-7) + b).astype(np.float32))
    assert rules.run(SUMS).startswith("numbers")


def test_a_refusal_is_at_a_line_of_a_rule():
    assert rules.in_words("/tmp/r0.mlir:4:10: error: the operand of a reduction differs from element to element")
    assert not rules.in_words("storage:1:1: error: storage 's=bf16' names no stream")
    assert not rules.in_words("/tmp/r0.mlir:4:10: error: 'altgrad.reduce' op is in a sweep that tiles would join")
    assert not rules.in_words("")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(40))
def test_a_pair_of_lives_has_the_same_bits(seed):
    words = pairs.run(pairs.generate(seed))
    assert words is None or words.startswith("refused"), words


@pytest.mark.filterwarnings("ignore")
def test_a_life_with_another_rate_is_noticed(monkeypatch):
    spec = {**pairs.generate(0), "name": "SGD", "words": {}, "storage": "", "ways": ["rate"], "shapes": [(5, 3)], "dtypes": ["float32"],
            "clip": None, "profile": None, "scaler": False, "absent": 0}
    assert pairs.run(spec) is None
    monkeypatch.setattr(pairs.Course, "laid", lambda course, x, way="layout": x * 1.001 if course.ways else x)
    assert "parameter 0" in pairs.run(spec)
