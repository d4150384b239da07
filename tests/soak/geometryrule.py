"""Random rules over elements, rows, columns, units, tensors and the step in short text, and what each line is in NumPy.

The arithmetic is the language's, operation by operation: float32 for elements and columns, float64 for numbers of rows, units,
tensors and the step, one rounding where they meet, and squares of elements in float32. Only sums have another order, for which
`nudge` moves them by units in the last place, and a normal number is float64's of a rounded angle. Nothing of the compiler is used.
"""

import random
import sys
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[1] / "differential"))

import rounding  # noqa: E402

F32 = np.float32
NARROW = ("element", "column")  # what is float32
AXES = {"row": (1,), "unit": (1,), "column": (0,), "tensor": (0, 1), "step": (0, 1)}
# What may be reduced over it, beside elements.
COARSER = {"row": ("column",), "unit": (), "column": ("row",), "tensor": ("row", "column", "unit"),
           "step": ("row", "column", "unit", "tensor")}
UNARY = {"sqrt(abs({}) + 1)": lambda x: np.sqrt(np.abs(x) + x.dtype.type(1)), "({} * 0.5)": lambda x: x * x.dtype.type(0.5), "abs({})": np.abs,
         "-{}": np.negative, "floor({} * 4)": lambda x: np.floor(x * x.dtype.type(4)), "clamp({}, -2, 2)": lambda x: np.clip(x, -2, 2).astype(x.dtype)}
BINARY = {"({} + {})": np.add, "({} - {})": np.subtract, "maximum({}, {})": np.maximum, "minimum({}, {})": np.minimum,
          "({0} / (1 + abs({1})))": lambda x, y: x / (x.dtype.type(1) + np.abs(y)),
          "(0.25 * {} * {})": lambda x, y: x.dtype.type(0.25) * x * y}
STATES = {"rows": {"r": "row", "c": "column"}, "units": {"u": "unit"}, "plain": {}}
STORAGES = ["", "", "", "master=f32", "m=bf16", "m=f16 n=ocp.e5m2", "m=ocp.e4m3fn:64", "m=bnb8:32 n=bf16", "m=bf16,stochastic", "copy=bf16"]


def joined(*kinds):
    """Where a value may differ that is computed of some."""
    order = ["step", "tensor", "unit", "row", "column", "element"]
    return "element" if {"row", "column"} <= {*kinds} else max(kinds, key=order.index)


def cast(x, kind):
    return np.asarray(x).astype(F32 if kind in NARROW else np.float64)


def reduced(how, x, over, nudge=0):
    """A value per row, column and so on, of each of a list of tensors; of all of them over the step. Sums by `nudge` units more."""
    axes, several = AXES[over], over == "step"
    if how == "count":
        parts = [one.astype(np.float64).sum(axis=axes, keepdims=True) for one in x]
    elif how == "sumsq":
        parts = [np.square(one.astype(F32)).astype(np.float64).sum(axis=axes, keepdims=True) for one in x]
    elif how == "sum":
        parts = [one.astype(np.float64).sum(axis=axes, keepdims=True) for one in x]
    else:
        parts = [(np.abs(one) if how == "absmax" else one).max(axis=axes, keepdims=True, initial=-np.inf) for one in x]
    if several:
        parts = [sum(parts) if how in ("count", "sumsq", "sum") else np.maximum.reduce(parts)] * len(x)
    parts = [part.astype(F32) for part in parts]
    return [part * F32(1 + nudge * 2.0**-23) for part in parts] if how in ("sum", "sumsq") else parts


def of_each(parts, w, over):
    """One value for each row or column, also where what was reduced is the same for several of them."""
    shapes = {"row": lambda one: (len(one), 1), "unit": lambda one: (len(one), 1), "column": lambda one: (1, one.shape[1])}
    return [np.broadcast_to(part, shapes[over](one)) for part, one in zip(parts, w)] if over in shapes else parts


def sizes(x, over):
    counts = [F32(np.prod([one.shape[axis] for axis in AXES[over]])).astype(np.float64) for one in x]
    return [sum(counts)] * len(x) if over == "step" else counts


class Drawn:
    """A rule of some lines: `text`, and what each line computes of the values before it."""

    def __init__(self, seed):
        self.draw, self.lines, self.steps, self.keys = random.Random(seed), [], [], 0
        mode = self.draw.choice(["rows", "rows", "units", "plain"])
        self.states = {**STATES[mode], "m": "element", "n": "element", "s": "tensor", "k": "step"}
        self.overs = {"rows": ["row", "column"], "units": ["unit"], "plain": []}[mode] + ["tensor", "step"]
        self.kinds, self.truths = {"w": "element", "g": "element", "h": "element", **self.states}, {}
        for number in range(self.draw.randint(4, 10)):
            self.add(f"x{number}")
        for name, kind in {**self.states, "w": "element"}.items():
            self.close(name, kind)
        numbers = "".join(f"{ {'tensor': 'scalar', 'step': 'global'}.get(kind, kind)} {name}{' = 0.5' * (kind not in NARROW)}, "
                          for name, kind in self.states.items() if kind != "element")
        self.text = "\n".join([f"rule drawn(param w, grad g, input h, {numbers}state m n, lr = 0.1)", *self.lines])
        self.storage = self.draw.choice(STORAGES)

    def any(self, *kinds):
        return self.draw.choice([name for name, kind in self.kinds.items() if not kinds or kind in kinds])

    def write(self, name, words, compute, operands, kind):
        """`compute` gives the values of all tensors from those of its operands."""
        self.lines.append(f"  {name} = {words}")
        self.steps.append((name, compute, operands))
        self.kinds[name] = kind

    def each(self, name, words, compute, *operands):
        """An operation whose operands meet in one width."""
        kind = joined(*[self.kinds[one] for one in operands])
        self.write(name, words.format(*operands), lambda *x: [cast(compute(*[cast(one, kind) for one in of]), kind) for of in zip(*x)],
                   operands, kind)

    def add(self, name):
        way = self.draw.random()
        if way < 0.35:
            words, compute = self.draw.choice(list(BINARY.items()))
            self.each(name, words, compute, self.any(), self.any())
        elif way < 0.5:
            words, compute = self.draw.choice(list(UNARY.items()))
            self.each(name, words, compute, self.any())
        elif way < 0.58:
            self.random(name)
        elif way < 0.68:
            self.choose(name)
        else:
            self.reduce(name)

    def random(self, name):
        how, key = self.draw.choice(["uniform", "normal"]), self.keys
        self.keys += 1

        def compute(w):
            found = []
            for tag, x in enumerate(w):
                u, v = [(rounding.draws(np.arange(x.size), self.seed, self.count, tag, 192 + 2 * key + i, 32) >> 8) * 2.0**-24 for i in (0, 1)]
                angle = F32(2 * np.pi) * v.astype(F32)  # rounded, which the cosine of a large one shows
                z = np.sqrt(-2 * np.log(1 - u)) * np.cos(np.float64(angle))
                found.append((u if how == "uniform" else z).astype(F32).reshape(x.shape))
            return found
        self.write(name, f"random({how}, key={key})", compute, ("w",), "element")

    def choose(self, name):
        """A choice by a comparison, or by the number of the step."""
        a, b, c, d = [self.any() for _ in range(4)]
        if self.draw.random() < 0.3:
            every = self.draw.randint(2, 3)
            self.uses_step = True
            return self.each(name, f"{{0}} if k % {every} < 1 else {{1}}", lambda x, y, k: np.where(k - np.floor(k / every) * every < 1, x, y), a, b, "k")
        truth = joined(self.kinds[c], self.kinds[d])
        kind = joined(self.kinds[a], self.kinds[b], truth)

        def compute(*x):
            return [np.where(cast(of[2], truth) < cast(of[3], truth), cast(of[0], kind), cast(of[1], kind)) for of in zip(*x)]
        self.write(name, f"{a} if {c} < {d} else {b}", compute, (a, b, c, d), kind)

    def reduce(self, name):
        over, how = self.draw.choice(self.overs), self.draw.choice(["sum", "mean", "max", "absmax", "rms", "norm", "count", "all"])
        narrow = over == "column"
        finish = (lambda x: x) if narrow else (lambda x: x.astype(np.float64))
        one = self.any("element", *COARSER[over])
        if how in ("count", "all"):
            other = self.draw.choice([name for name, kind in self.kinds.items() if joined(kind, self.kinds[one]) == self.kinds[one]])
            kind = self.kinds[one]

            def compute(x, y, w):
                # a comparison has the shape of what it is of: a number of rows is no number of elements
                truths = [np.broadcast_to(cast(a, kind) < cast(b, kind), np.broadcast_shapes(a.shape, b.shape)) for a, b in zip(x, y)]
                if how == "count":
                    return of_each([finish(part) for part in reduced("count", truths, over)], w, over)
                missing = reduced("count", [~truth for truth in truths], over)
                return of_each([finish(np.where(part == 0, F32(2), F32(-1))) for part in missing], w, over)
            words = f"count({one} < {other} over {over})" if how == "count" else f"(2 if all({one} < {other} over {over}) else -1)"
            return self.write(name, words, compute, (one, other, "w"), over)

        def compute(x, w):
            x = [cast(part, "element") for part in x]
            if how in ("sum", "max", "absmax"):
                return of_each([finish(part) for part in reduced(how, x, over, self.nudge)], w, over)
            totals = [finish(part) for part in reduced("sum" if how == "mean" else "sumsq", x, over, self.nudge)]
            if how != "norm":
                totals = [total / total.dtype.type(size) for total, size in zip(totals, sizes(x, over))]
            return of_each(totals if how == "mean" else [np.sqrt(total) for total in totals], w, over)
        self.write(name, f"{how}({one} over {over})", compute, (one, "w"), over)

    def close(self, name, kind):
        """The new value of a state, or of the parameter: bounded, so that a few steps stay among numbers."""
        if kind == "step":
            return self.write(name, "k + 1", lambda k: [one + 1 for one in k], (name,), kind)
        inner = [one for one, of in self.kinds.items() if joined(of, kind) == kind and one != "k"]
        late = [one for one in inner if one[0] == "x"][-3:]
        value = self.draw.choice(late if late and self.draw.random() < 0.8 else inner)
        half = lambda old, x: old.dtype.type(0.5) * old + x / (old.dtype.type(1) + np.abs(x))  # noqa: E731
        self.each(name, "0.5 * {0} + {1} / (1 + abs({1}))", half, name, value)

    def step(self, values, seed, count, nudge=0):
        """The values by name after the lines, each a list with one array for each tensor."""
        self.seed, self.count, self.nudge, values = seed, count, nudge, dict(values)
        with np.errstate(all="ignore"):
            for name, compute, operands in self.steps:
                values[name] = compute(*[values[operand] for operand in operands])
        return values
