"""Numbers are f64 and are rounded once, where they meet an element: random formulas beside NumPy with this rule."""

import random

import numpy as np
import pytest
import torch

import altgrad.language as ag

TWO = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}


def formula(depth, draws):
    """A formula of two elements, two hyper-parameters and numbers, as text."""
    if depth == 0:
        return draws.choice(["p", "g", "lr", "beta", str(round(draws.uniform(0.1, 3), 2))])
    parts = [formula(draws.randrange(depth), draws) for _ in range(3)]
    kind = draws.choice([*TWO] * 2 + ["sqrt", "maximum", "minimum", "where", "abs", "neg"])
    if kind in TWO:
        return f"({parts[0]} {kind} {parts[1]})"
    return {"sqrt": "f.sqrt(f.abs({0}))", "maximum": "f.maximum({0}, {1})", "minimum": "f.minimum({0}, {1})",
            "where": "f.where({0} < {1}, {1}, {2})", "abs": "f.abs({0})", "neg": "(-{0})"}[kind].format(*parts)


class Number:
    """A float64, or an array of float32; the two meet in float32."""

    def __init__(self, x):
        self.x = x if isinstance(x, np.ndarray) else np.float64(x)

    def with_(self, function, *others):
        values = [other.x if isinstance(other, Number) else np.float64(other) for other in (self, *others)]
        if any(isinstance(value, np.ndarray) for value in values):
            values = [np.float32(value) for value in values]
        return Number(function(*values))


for word, function in {"add": TWO["+"], "sub": TWO["-"], "mul": TWO["*"], "truediv": TWO["/"]}.items():
    setattr(Number, f"__{word}__", lambda a, b, function=function: a.with_(function, b))
    setattr(Number, f"__r{word}__", lambda b, a, function=function: Number(a).with_(function, b))
Number.__neg__, Number.__lt__, Number.__gt__ = lambda a: a.with_(np.negative), lambda a, b: (a, b), lambda a, b: (b, a)


class Numpy:
    sqrt, abs = staticmethod(lambda a: Number(getattr(a, "x", a)).with_(np.sqrt)), staticmethod(lambda a: Number(getattr(a, "x", a)).with_(np.abs))
    maximum = staticmethod(lambda a, b: Number(getattr(a, "x", a)).with_(np.maximum, b))
    minimum = staticmethod(lambda a, b: Number(getattr(a, "x", a)).with_(np.minimum, b))

    @staticmethod
    def where(condition, b, c):
        if isinstance(condition, bool):  # of two numbers of Python's
            return b if condition else c
        a, b, c = [Number(getattr(one, "x", one)) for one in (*condition, c)]
        less = a.with_(np.less, b).x
        both = b.with_(lambda x, y: x, c).x, c.with_(lambda x, y: x, b).x
        if isinstance(less, np.ndarray):
            both = np.float32(both[0]), np.float32(both[1])
        return Number(np.where(less, *both) if any(isinstance(x, np.ndarray) for x in (less, *both)) else both[0] if less else both[1])


@pytest.mark.parametrize("seed", range(8))
def test_random_formulas_have_the_bits_of_their_reading(seed):
    draws = random.Random(seed)
    texts = {f"s{place}": f"p + g * {formula(5, draws)}" for place in range(10)}
    names = {"ag": ag}
    exec(f"def f(p: ag.Param, g: ag.Grad, {', '.join(f'{name}: ag.State' for name in texts)}, *, lr=0.1, beta=0.7):\n    f = ag\n"
         f"    return p - lr * g, {', '.join(texts.values())}", names)
    p, g = torch.randn(2, 64, generator=torch.Generator().manual_seed(seed))
    param = torch.nn.Parameter(p.clone())
    param.grad = g
    optimizer = ag.rule(names["f"]).optimizer()([param])
    optimizer.step()
    for name, text in texts.items():
        with np.errstate(all="ignore"):
            wanted = eval(text, dict(p=Number(p.numpy()), g=Number(g.numpy()), lr=Number(0.1), beta=Number(0.7), f=Numpy)).x
        np.testing.assert_array_equal(optimizer.state[param][name].numpy(), wanted, err_msg=text)


def test_equal_roundings_are_one_line_and_order_is_pythons():
    @ag.rule
    def f(p: ag.Param, g: ag.Grad, *, lr=0.1):
        return p * (1 - lr) + g * (1 - lr) + lr * 2 * g
    body = [line.strip() for line in f.text.splitlines() if line.startswith("  %")]
    assert body == ["%0 = constant 1.0 : f64", "%1 = subf %0, %lr : f64", "%2 = truncf %1 : f64 to f32", "%3 = mulf %p, %2 : f32",
                    "%4 = mulf %g, %2 : f32", "%5 = addf %3, %4 : f32", "%6 = constant 2.0 : f64", "%7 = mulf %lr, %6 : f64",
                    "%8 = truncf %7 : f64 to f32", "%9 = mulf %8, %g : f32", "%10 = addf %5, %9 : f32"]
