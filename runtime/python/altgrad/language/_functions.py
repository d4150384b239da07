"""The functions of a rule."""

from typing import Any

from . import _matrices, _reductions
from ._arithmetic import apply, choose, level_of, meet
from ._errors import fail
from ._trace import ELEMENT, Symbol


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
    """The exponential function, of numbers that are no elements."""
    return apply("math.exp", _below("exp", x))


def log(x: Any) -> Any:
    """The natural logarithm, of numbers that are no elements."""
    return apply("math.log", _below("log", x))


def _below(name, x):
    return fail(f"no {name} of elements; there is one of numbers of the step, the tensor and its units") if level_of(x) == ELEMENT else x


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


def rms(x: Symbol, over: str = "tensor") -> Any:
    """The root of the mean of squares, of the tensor or of each "unit"."""
    return sqrt(_reductions.mean(_reductions.reduce("sumsq", x, over), over))


EXTENTS = "rows", "columns", "numel", "unit"
FUNCTIONS = {function.__name__: function for function in (
    abs, clamp, copysign, exp, floor, fma, lerp, log, maximum, minimum, rms, sign, sqrt, where, _matrices.descend, _matrices.matrix,
    _matrices.orthogonalize, _matrices.product, _matrices.scale_by_shape)}
