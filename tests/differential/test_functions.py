"""Scalar functions in f64: powers are exact by definition, exp and log within a stated error, the same bits everywhere."""

import decimal
import math

import numpy as np
import pytest

import compare
import program
import ptxrun
import softmath
from buffers import Memory

EXP_ULP, LOG_ULP = 1.0, 2.5  # measured: 0.74 and 2.0


def step_text(operation):
    return f"""altgrad.step @s(in %x: f64 per_tensor, out %y: f64 per_tensor,
    in %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>) {{
  %v = {operation} %x : f64
  %n = dequantize %a : !altgrad.tensors<f32>
  commit always %v to %y : f64, %n to %b : !altgrad.tensors<f32>
}}
"""


def results(text, scalars):
    """Per machine the new scalar y; x is one number for each tensor."""
    compiled = program.Program(text)
    count = len(next(iter(scalars.values())))
    rows = compare.Rows([1] * count, [0] * count)
    empty = {"a": np.zeros(count, np.uint32), "b": np.zeros(count, np.uint32), **scalars,
             "y": np.zeros(count)}
    memory = Memory(compiled.signature, rows, [0] * count).fill(empty)
    found = {}
    for name, run in compare.executors(compiled, {"races": False} if ptxrun.available() else None):
        got = memory.twin()
        run(got)
        compare.TOTAL.add(rows)
        found[name] = got.scalars["y"].copy()
    first = next(iter(found.values()))
    for name, values in found.items():
        assert values.tobytes() == first.tobytes(), name
    return first


def exact_exp(x):
    return decimal.Decimal(float(x)).exp(decimal.Context(prec=40))


def exact_log(x):
    return decimal.Decimal(float(x)).ln(decimal.Context(prec=40))


def worst(values, exact):
    """The largest error in units in the last place of the exact result."""
    errors = []
    for value, true in zip(values, exact):
        ulp = decimal.Decimal(math.ulp(float(true)))
        errors.append(abs(decimal.Decimal(float(value)) - true) / ulp)
    return float(max(errors))


def test_exp():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(-1, 1, 300), rng.uniform(-700, 700, 200), rng.normal(0, 1e-6, 50),
                        [0.0, -0.0, 1.0, -1.0, 708.9, -707.9, 1e-300],
                        [709.5, 709.78, 709.7827, 709.782712893384]])  # the last is ln of the largest f64
    assert worst(results(step_text("math.exp"), {"x": x}), map(exact_exp, x)) <= EXP_ULP


def test_exp_below_the_normal_numbers():
    """They go to 0 by steps of 2^-1074, half of which at -745.13 rounds to none."""
    x = np.concatenate([np.linspace(-746, -708, 200), [-745.13, -745.14]])
    got = results(step_text("math.exp"), {"x": x})
    assert worst(got, map(exact_exp, x)) <= EXP_ULP
    assert got[-2] == 2.0**-1074 and got[-1] == 0.0


def test_many_exponentials():
    """Twenty of them in a step are lowered otherwise, to the same bits."""
    x = np.concatenate([np.linspace(-746, 711, 200), [0.0, -0.0, math.nan, math.inf, -math.inf]])
    others = "".join(f"  %e{i} = math.exp %z{i} : f64\n  %z{i + 1} = arith.mulf %e{i}, %x : f64\n" for i in range(20))
    many = step_text("math.exp").replace("out %y:", "out %z: f64 per_tensor, out %y:").replace("  commit always", (
        "  %z0 = arith.negf %x : f64\n" + others + "  commit always %z20 to %z : f64,"))
    got = results(many, {"x": x, "z": np.zeros(len(x))})
    assert got.tobytes() == results(step_text("math.exp"), {"x": x}).tobytes()


@pytest.mark.parametrize("operation, x", [("math.exp", [11.4314280285523, 0.5, 800.0]), ("math.log", [5.580411514589055, 0.5, 0.0])])
def test_constants(operation, x):
    """The bits of a number of the step; of the first one the C library, by which MLIR evaluates constants, has others."""
    wanted = results(step_text(operation), {"x": np.array(x)})
    for number, want in zip(x, wanted):
        constant = step_text(operation).replace(f"{operation} %x", f"{operation} %k").replace(
            "  %v", f"  %k = arith.constant {number!r} : f64\n  %v", 1)
        got = results(constant, {"x": np.zeros(1)})[0]
        assert got.tobytes() == want.tobytes(), number


def test_log():
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.uniform(0, 2, 300), np.exp(rng.uniform(-600, 600, 200)),
                        1 + rng.normal(0, 1e-7, 50), [0.9, 0.999, 0.9999 + 1e-8, 2.0, 1e-300, 0.5]])
    assert worst(results(step_text("math.log"), {"x": x}), map(exact_log, x)) <= LOG_ULP


@pytest.mark.parametrize("operation, x, y", [
    ("math.exp", math.nan, math.nan), ("math.exp", math.inf, math.inf), ("math.exp", -math.inf, 0.0),
    ("math.exp", 800.0, math.inf), ("math.exp", -800.0, 0.0), ("math.log", 1.0, 0.0),
    ("math.log", 0.0, -math.inf), ("math.log", -0.0, -math.inf), ("math.log", -1.0, math.nan),
    ("math.log", math.inf, math.inf), ("math.log", math.nan, math.nan)])
def test_ends(operation, x, y):
    got = results(step_text(operation), {"x": np.array([x])})[0]
    assert got == y or (math.isnan(got) and math.isnan(y))


def test_powers():
    """fpowi against the repeated squaring of the definition, bit for bit."""
    text = step_text("math.sqrt").replace("in %x: f64 per_tensor",
                                          "in %x: f64 per_tensor, in %e: i64 per_tensor")
    text = text.replace("%v = math.sqrt %x : f64", "%v = math.fpowi %x, %e : f64, i64")
    rng = np.random.default_rng(2)
    bases = np.concatenate([rng.uniform(0, 1, 40), rng.uniform(-3, 3, 20),
                            [0.0, -0.0, 1.0, -1.0, math.inf, math.nan, 0.999, 0.9]])
    exponents = np.array([0, 1, 2, 3, 7, 10, 100, 1000, 2**31, 2**40 + 1, -1, -2, -5], np.int64)
    x, e = (a.ravel() for a in np.meshgrid(bases, exponents))
    with np.errstate(all="ignore"):
        want = softmath.power(x, e)
    got = results(text, {"x": x.copy(), "e": e.copy()})
    same = (got.view(np.uint64) == want.view(np.uint64)) | (np.isnan(got) & np.isnan(want))
    assert same.all(), list(zip(x[~same], e[~same], got[~same], want[~same]))[:5]
