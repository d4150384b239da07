"""The NumPy of a random rule and of the clip before it, in f32 operation by operation; nothing of the compiler is used.

Only sums have no order that the language fixes. So a step is computed several times, each with other errors in its
sums (`Sums`), and what comes out is a number where all agree, else an interval.
"""

import numpy as np

F32 = np.float32
ERROR = 1e-6  # of a sum, as a share of the sum of its magnitudes


class Sums:
    """Adds up; `way` 0 exactly, 1 and 2 with all errors up or down, else at random, by dozens of four sizes."""

    def __init__(self, way, seed):
        self.way, self.rng = way, np.random.default_rng([seed, way])

    def __call__(self, x, axes):
        total, count = x.sum(axes, keepdims=True), np.prod([x.shape[a] for a in axes])
        if not self.way:
            return total.astype(F32)
        share = ({1: 1.0, 2: -1.0}.get(self.way) or self.rng.uniform(-1, 1, total.shape)) * 10.0 ** -(self.way // 12 % 4)
        return (total + share * (ERROR * np.abs(x).sum(axes, keepdims=True) + 1e-45 * count)).astype(F32)


def reduced(kind, x, axes, sums):
    wide = x.astype(np.float64)
    if kind in ("add", "sumsq"):
        return sums(wide * wide if kind == "sumsq" else wide, axes)
    return (np.abs(x) if kind == "absmax" else x).max(axes, keepdims=True)


def _padded(x, sizes, kind):
    rest = [(0, -n % size) for n, size in zip(x.shape, sizes)]
    return np.pad(x, rest, constant_values=-np.inf if kind == "max" else 0)


def over_block(kind, x, block, sums):
    """Per element what its block has: of neighbours in memory, or of rows and columns of a matrix."""
    down, across = map(int, block.split("x"))
    flat = x.reshape(1, -1) if down == 1 else x
    padded = _padded(flat, (down, across), kind)
    cut = padded.reshape(padded.shape[0] // down, down, padded.shape[1] // across, across)
    spread = np.broadcast_to(reduced(kind, cut, (1, 3), sums), cut.shape).reshape(padded.shape)
    return spread[:flat.shape[0], :flat.shape[1]].reshape(x.shape)


def over(kind, x, place, sums):
    if not x.size:
        return np.zeros((1, 1), F32)
    if place.startswith("block<"):
        return over_block(kind, x, place[6:-1], sums)
    return reduced(kind, x, (1,) if place == "unit" else (0, 1), sums)


def _smaller(a, b):
    """Of equal zeros the negative one; NaN if either is."""
    return np.where((a == b) & np.signbit(b), b, np.minimum(a, b)).astype(F32)


def _lerp(weight, start, end):
    near, wide = np.abs(weight) < 0.5, np.longdouble
    run = (end - start).astype(F32)
    return np.where(near, (weight.astype(wide) * run + start).astype(F32),
                    ((weight - F32(1)).astype(wide) * run + end).astype(F32))


TAKES = {"addf": np.add, "subf": np.subtract, "mulf": np.multiply, "divf": np.divide, "negf": np.negative,
         "math.absf": np.abs, "math.floor": np.floor, "math.sqrt": np.sqrt, "minimumf": _smaller,
         "maximumf": lambda a, b: -_smaller(-a, -b), "select": np.where, "altgrad.lerp": _lerp,
         "math.fma": lambda a, b, c: (a.astype(np.longdouble) * b + c).astype(F32)}
COMPARES = {"olt": np.less, "ole": np.less_equal, "ogt": np.greater, "oge": np.greater_equal, "une": np.not_equal,
            "ult": lambda a, b: ~(a >= b)}


def place(word, shape):
    number = {"index": np.arange(shape[0] * shape[1]).reshape(shape), "rows": np.array([[shape[0]]]),
              "columns": np.array([[shape[1]]])}[word.split()[-1].removeprefix("altgrad.")]
    return (number & 63).astype(F32) * F32(0.015625)


def rule(one, statements, values, hypers, shape, sums):
    """The new values of a tensor by argument. `values` has arrays that broadcast to `shape`."""
    known = dict(values)
    for result, operation, operands, extra in statements:
        if operation == "truncf":
            known[result] = np.full((1, 1), F32(hypers[operands[0]]), F32)
            continue
        inputs = [known[o] for o in operands]
        if operation == "constant":
            known[result] = np.full((1, 1), F32(extra.replace(".0e", "e")), F32)
        elif operation == "place":
            known[result] = place(extra, shape)
        elif operation == "cmpf":
            known[result] = COMPARES[extra](*inputs)
        elif operation == "reduce":
            kind, where = extra.split(" over ")
            known[result] = over(kind, np.broadcast_to(inputs[0], shape), where, sums)
        else:
            known[result] = TAKES[operation](*inputs).astype(F32)
    return {name: known[value] for name, value in one["yields"].items()}


#===-- Clips ------------------------------------------------------------------===#

def length(x, axes, sums):
    return np.sqrt(reduced("sumsq", x, axes, sums)) if x.size else np.zeros((1, 1), F32)


def to_parameter(g, w, bound, axes, sums):
    """Brock et al. 2021: the gradient's norm is at most `bound` times the parameter's, which counts as 1e-3 at least."""
    norm, most = length(g, axes, sums), F32(bound) * np.maximum(length(w, axes, sums), F32(1e-3))
    return np.where(~(norm <= most), (most / np.maximum(norm, F32(1e-6))).astype(F32), F32(1))


def percentile(history, newest, percent):
    """The bound after `newest` took the place of the oldest of the last 100 norms."""
    known = history[1:].copy()
    known[int(history[0])] = newest
    known = np.sort(known[np.isfinite(known) & (known >= 0)])
    return known[min(int(percent * len(known) / 100), len(known) - 1)] if len(known) else F32(0)


def clipped(flags, grads, weights, scalars, sums):
    """The factor of each gradient, and the global norm or None."""
    bound = scalars.get("max_norm")
    per = next((flag for flag in flags if flag.startswith("--clip")), "")
    if per.startswith("--clip=agc"):
        axes = (1,) if per.endswith("unit") else (0, 1)
        return [to_parameter(g, w, bound, axes, sums) if g.size else F32(1) for g, w in zip(grads, weights)], None
    if not per:
        return [F32(1)] * len(grads), None
    squares = np.concatenate([g.ravel() for g in grads]).astype(np.float64)[None, :]**2
    norm = np.sqrt(sums(squares, (0, 1)))[0, 0]
    if per == "--clip":
        factor = np.minimum(F32(bound) / (norm + F32(1e-6)), F32(1))
    else:
        most = percentile(scalars["history"], norm, bound)
        factor = most / norm if norm > most else F32(1)
    return [F32(factor)] * len(grads), norm
