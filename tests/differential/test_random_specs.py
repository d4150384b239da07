"""A fixed number of random specs and requests, and every one that once failed, through every execution."""

import json
import pathlib
import re

import numpy as np
import pytest

import program
import ptxrun
import randomcase
import randomline
import randomstep

SEEDS, REQUESTS = 32, 10
REGRESSIONS = sorted((pathlib.Path(__file__).parents[1] / "regression").resolve().glob("*.json"))


def _ptx():
    return {"races": False} if ptxrun.available() else None


@pytest.mark.parametrize("first", range(0, SEEDS, 16))
def test_random_specs(first):
    shares = []
    for seed in range(first, first + 16):
        spec = randomstep.generate(seed)
        try:
            values = randomcase.run(spec, ptx=_ptx())
        except Exception as error:
            smaller, words = randomcase.shrink(spec, f"{type(error).__name__}: {error}", limit=150,
                                               ptx=_ptx())
            pytest.fail(f"seed {seed}: {error}\nsmallest: {words}\n{randomstep.text(smaller)}")
        shares.append(randomcase.plain_share(spec, values))
    assert np.mean(shares) > 0.5, "most numbers are Inf or NaN: the specs test little"


@pytest.mark.parametrize("first", range(0, REQUESTS, 5))
def test_random_requests(first):
    """Storage lines of every word over the rules of templates/; what the generator says is taken."""
    for seed in range(first, first + 5):
        spec = randomline.generate(seed)
        words = randomcase.words_of(spec, ptx=_ptx())
        if words:
            smaller, found = randomcase.shrink(spec, words, limit=60, ptx=_ptx())
            pytest.fail(f"seed {seed}: {words}\nsmallest: {found}\n{smaller}")


@pytest.mark.parametrize("path", REGRESSIONS, ids=lambda p: p.stem)
def test_once_failed(path):
    spec = json.loads(path.read_text())
    assert randomcase.words_of(spec, ptx=_ptx()) is None


def test_same_seed_same_spec():
    for kind in (randomstep, randomline):
        assert kind.generate(5) == kind.generate(5) != kind.generate(6)


def test_every_word_is_generated():
    specs = [randomline.generate(seed) for seed in range(400)]
    said = {part for spec in specs for one in spec["sets"] for word in one["words"]
            for part in re.split("[=,:]", word) if not part.isdigit()}
    wanted = {"param", "grad", "master", "copy", "rungs", "bf16+i16", "bf16+i8", "nvfp4", "mxfp4", "both", "16x16", "32x32", "128x128", "delayed",
              "current", "bounded", "pow2", "softsign", "sqrt", "stochastic", "stochastic32", "toward_zero", "saturate", "nonfinite",
              "reference", "torchao4", "torchao4u", "bnb8", "bnb8u", "ocp.e8m0", "f16", "rceil", "floor", "ceil", "even"}
    assert not wanted - said
    flags = {flag for spec in specs for flag in spec["flags"]}
    assert {"--statistics", "--loss-scaler=boostr", "--clip=agc", "--clip=agc-unit", "--clip=percentile"} <= flags


def test_every_operation_is_generated():
    """The allow-list of RuleOps.cpp, in full."""
    found = {s[2] for seed in range(60) for one in randomstep.generate(seed)["lists"]
             for s in one["rule"]["statements"]}
    listed = {"constant", "addf", "subf", "mulf", "divf", "negf", "minimumf", "maximumf", "cmpf",
              "cmpi", "select", "truncf", "extf", "addi", "subi", "muli", "andi", "ori", "xori",
              "sitofp", "fptosi", "math.fma", "math.sqrt", "math.absf", "math.floor", "math.copysign",
              "math.fpowi", "math.log", "math.exp", "reduce", "altgrad.lerp"}
    assert found == listed


class Planted(Exception):
    pass


def test_the_shrinker_finds_the_small_spec(monkeypatch):
    """A planted fault, `a copy in bf16 beside a square root`, is cut down to that."""
    def run(spec, **_):
        roots = any(s[2] == "math.sqrt" for one in spec["lists"]
                    for s in randomcase._used(one["rule"]))
        if roots and any("bf16" in one["copies"] for one in spec["lists"]):
            raise Planted("here")
    monkeypatch.setattr(randomcase, "run", run)
    seed = next(s for s in range(1000) if randomcase.words_of(randomstep.generate(s)))
    spec, words = randomcase.shrink(randomstep.generate(seed), "Planted: here", limit=2000)
    assert words == "Planted: here" and spec["mode"] == "plain" and spec["sizes"] == [1]
    assert len(spec["lists"]) == 1 and "bf16" in spec["lists"][0]["copies"]
    assert len(spec["lists"][0]["rule"]["statements"]) <= 6
    program.call("-", "--mlir-print-op-generic", text=randomstep.text(spec))
