"""The operations of arith and math on NumPy arrays, by their names in the generic form."""

import numpy as np

import softmath as soft

TYPES = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i1": np.bool_}


def constant(op):
    text, _, kind = op.attributes["value"].partition(" : ")
    if text in ("true", "false"):
        return np.array(text == "true")
    kind = kind.strip()
    if kind == "i64":
        return np.int64(int(text))
    if text.startswith("0x"):  # the bits of an infinity or a NaN
        return np.array([int(text, 16)], {"f32": np.uint32, "f64": np.uint64}[kind]).view(TYPES[kind])[0]
    return TYPES[kind](float(text))


def predicate(op):
    return int(op.attributes["predicate"].split(" :")[0])


def _to_integer(x):
    """Beyond the range of i64 nothing is promised: such specs are not generated."""
    if not (np.isfinite(x) & (np.abs(x.astype(np.float64)) < 2.0**63)).all():
        raise ValueError("fptosi of a number that no i64 holds")
    return x.astype(np.int64)


def _shift_right(x, distance):
    return (x.view(np.uint64) >> distance.view(np.uint64)).view(np.int64)


def _copysign(x, sign):
    if np.isnan(sign).any():
        sign = np.where(np.isnan(sign), np.nan, sign).astype(sign.dtype)
    return np.copysign(x, sign)


def _lerp(a, b, weight):
    """torch.lerp's: from the nearer end, with one rounding."""
    near, one = np.abs(weight) < 0.5, weight.dtype.type(1)
    return soft.fma(np.where(near, weight, weight - one), b - a, np.where(near, a, b))


ARITHMETIC = {
    "arith.addf": np.add, "arith.subf": np.subtract, "arith.mulf": np.multiply,
    "arith.divf": np.divide, "arith.negf": np.negative, "math.sqrt": np.sqrt,
    "math.absf": np.abs, "math.floor": np.floor, "math.copysign": _copysign, "math.fma": soft.fma, "altgrad.lerp": _lerp,
    "arith.minimumf": soft.minimum, "arith.maximumf": soft.maximum,
    "arith.addi": np.add, "arith.subi": np.subtract, "arith.muli": np.multiply,
    "arith.andi": np.bitwise_and, "arith.ori": np.bitwise_or, "arith.xori": np.bitwise_xor,
    "arith.shli": np.left_shift, "arith.shrui": _shift_right, "arith.select": np.where, "math.fpowi": soft.power,
    "math.exp": np.exp, "math.log": np.log,  # a few ulp from the program's: see test_functions
    "arith.sitofp": None, "arith.truncf": None, "arith.extf": None,
    "arith.fptosi": _to_integer, "arith.cmpf": None, "arith.cmpi": None}
