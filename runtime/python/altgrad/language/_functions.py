"""The functions of a rule."""

from typing import Any

from . import _matrices, _reductions
from ._arithmetic import apply, choose, meet, of_elements, power
from ._errors import fail
from ._trace import ELEMENT, Symbol, current


def sqrt(x: Any) -> Any:
    """The square root, rounded once."""
    return apply("math.sqrt", x)


def abs(x: Any) -> Any:
    """The magnitude."""
    return apply("math.absf", x)


def floor(x: Any) -> Any:
    """The largest whole number that is at most x."""
    return apply("math.floor", x)


def exp(x: Any) -> Any:
    """The exponential function."""
    return apply("math.exp", x)


def log(x: Any) -> Any:
    """The natural logarithm."""
    return apply("math.log", x)


def exp2(x: Any) -> Any:
    """2 ** x."""
    return of_elements("math.exp2", x)


def expm1(x: Any) -> Any:
    """exp(x) - 1, also of a small x."""
    return of_elements("math.expm1", x)


def log2(x: Any) -> Any:
    """The logarithm to the base 2."""
    return of_elements("math.log2", x)


def log1p(x: Any) -> Any:
    """log(1 + x), also of a small x."""
    return of_elements("math.log1p", x)


def pow(a: Any, b: Any) -> Any:
    """a ** b."""
    return power(a, b)


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return of_elements("math.rsqrt", x)


def cbrt(x: Any) -> Any:
    """The cube root."""
    return of_elements("math.cbrt", x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return of_elements("math.tanh", x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return of_elements("altgrad.sigmoid", x)


def softplus(x: Any) -> Any:
    """log(1 + exp(x))."""
    return of_elements("altgrad.softplus", x)


def erf(x: Any) -> Any:
    """The error function."""
    return of_elements("math.erf", x)


def sin(x: Any) -> Any:
    """The sine."""
    return of_elements("math.sin", x)


def cos(x: Any) -> Any:
    """The cosine."""
    return of_elements("math.cos", x)


def atan2(y: Any, x: Any) -> Any:
    """The angle of the point (x, y), from -pi to pi."""
    return of_elements("math.atan2", y, x)


def minimum(a: Any, b: Any) -> Any:
    """The smaller number; NaN if either is."""
    return apply("minimumf", a, b)


def maximum(a: Any, b: Any) -> Any:
    """The larger number; NaN if either is."""
    return apply("maximumf", a, b)


def clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    """x between low and high; either may be None."""
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


def copysign(a: Any, b: Any) -> Any:
    """The magnitude of a with the sign of b."""
    return apply("math.copysign", a, b)


def sign(x: Any) -> Any:
    """-1, 0 or 1; 0 for a NaN."""
    (x,), kind, level = meet(x)
    some = x.trace.emit("cmpf one, {}, {}", [x, x.trace.constant(0.0, kind)], kind, "i1", level)
    return choose(some, copysign(1.0, x), 0.0)


def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    return apply("math.fma", a, b, c)


def lerp(a: Any, b: Any, weight: Any) -> Any:
    """a + weight * (b - a), from the nearer end as torch.lerp has it."""
    return apply("altgrad.lerp {} to {} by {}", a, b, weight)


def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b."""
    return choose(condition, a, b)


def random(distribution: str = "normal", key: int = 0) -> Symbol:
    """A random number for each element and step: "normal" of mean 0 and variance 1, or "uniform" from 0 to 1.

    Two keys, whole numbers of 0 to 31, give independent numbers. The optimizer's seed gives the sequence.
    """
    if distribution not in ("normal", "uniform"):
        fail(f'no numbers are distributed {distribution!r}; there are "normal" and "uniform"')
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < 32:
        fail(f"key={key!r}: a key is a whole number of 0 to 31")
    return current("ag.random").emit(f"altgrad.random {distribution} key({key})", [], "f32", "f32", ELEMENT)


def rms(x: Symbol, over: str = "tensor") -> Any:
    """The root of the mean of squares, of the tensor or of each "unit"."""
    return sqrt(_reductions.average("sumsq", x, over))


EXTENTS = "rows", "columns", "numel", "unit"
FUNCTIONS = {function.__name__: function for function in (
    abs, atan2, cbrt, clamp, copysign, cos, erf, exp, exp2, expm1, floor, fma, lerp, log, log1p, log2, maximum, minimum, pow, random, rms, rsqrt,
    sigmoid, sign, sin, softplus, sqrt, tanh, _reductions.total, where, _matrices.descend, _matrices.matrix, _matrices.orthogonalize, _matrices.product,
    _matrices.scale_by_shape)}
