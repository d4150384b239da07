"""A tensor as a matrix: x @ x.T, products of it with x, and what the library makes of them."""

from typing import Any

from ._arithmetic import check, level_of, meet, narrow, trace_of, wide
from ._errors import fail
from ._trace import ELEMENT, TENSOR, Symbol, current, spelled

_FORMATS = "f32", "bf16", "f16"


class Transposed:
    """x.T, which is only good for x @ x.T and x.T @ x."""

    alone = "x.T stands only in x @ x.T and x.T @ x"

    def __init__(self, of: Symbol) -> None:
        self.of = of

    def __matmul__(self, other: Any) -> Symbol:
        return _gram(self.of, lifted(other))


def lifted(value: Any, dtype: str = "f32") -> Symbol:
    """A matrix: itself, or that of all elements."""
    if isinstance(value, Symbol) and value.kind.startswith(("tensors", "squares")):
        return value
    check(value)
    if level_of(value) < ELEMENT:
        fail("@ multiplies matrices, and this is one number: write *")
    kind = f"tensors<{dtype}>"
    return value.trace.emit("altgrad.matrix {}", [narrow(value, value.trace)], f"!altgrad.{kind}", kind, ELEMENT, value.name)


def matrix(value: Symbol, dtype: str = "f32") -> Symbol:
    """All elements as a matrix of f32, bf16 or f16, in which products take their operands."""
    if dtype not in _FORMATS:
        fail(f"no matrix of {dtype!r}; there are {', '.join(_FORMATS)}")
    if isinstance(value, Symbol) and value.kind.startswith("tensors"):
        value = narrow(value, value.trace)
    return lifted(value, dtype)


def _gram(x, y):
    if x is not y:
        fail("x @ y.T of two matrices comes with a later version; there is x @ x.T")
    kind = x.kind.replace("tensors", "squares")
    return x.trace.emit("altgrad.gram {}", [x], f"!altgrad.{x.kind}", kind, ELEMENT, x.root)


def product_of(left: Any, right: Any) -> Symbol:
    """left @ right."""
    if isinstance(right, Transposed):
        return _gram(lifted(left), right.of)
    return product(left, right)


def product(left: Any, right: Any, by: float = 1.0, plus: Any = None, weight: float = 1.0) -> Symbol:
    """by * (left @ right) + weight * plus, rounded once; one factor is a square, a polynomial of x @ x.T."""
    left, right = lifted(left), lifted(right)
    if left.kind.startswith("tensors"):  # x @ (x.T @ x): the product of a polynomial of x @ x.T and x, from either side
        left, right = right, left
    operands = [left, right] + ([] if plus is None else [lifted(plus, right.kind[8:-1])])
    if left.kind.startswith("tensors"):
        fail("a product of two matrices comes with a later version; there are x @ x.T, and its products with x")
    if len({operand.root for operand in operands}) > 1:
        fail("a product of what follows from two matrices comes with a later version: x @ x.T is multiplied with x and what follows from it")
    if len({operand.kind.partition("<")[2] for operand in operands}) > 1:
        fail("a product of matrices in two formats: make both by ag.matrix(x, dtype) with one dtype")
    if any(isinstance(number, Symbol) for number in (by, weight)):
        fail("by= and weight= are Python's numbers, which stand in the text")
    words = f"altgrad.product {{}}, {{}} by {spelled(by)}" + (f" plus {{}} by {spelled(weight)}" if plus is not None else "")
    return left.trace.emit(words, operands, f"!altgrad.{right.kind}", right.kind, ELEMENT, right.root)


def orthogonalize(x: Symbol, coefficients: Any = "jordan", steps: int = 5, dtype: str = "bf16", eps: Any = 1e-7,
                  length: str = "clamped") -> Symbol:
    """The nearest matrix with orthonormal rows or columns, by a Newton-Schulz iteration."""
    if not isinstance(coefficients, str):
        coefficients = "|".join("/".join(map(repr, map(float, row))) for row in coefficients)
    (x,), _, level = meet(x)
    if level < ELEMENT:
        fail("orthogonalize() takes the elements of a matrix, and this is one number")
    words = f"altgrad.orthogonalize {{}} coefficients<{coefficients}> steps<{steps}> in<{dtype}> length<{length}> eps({{}})"
    return x.trace.emit(words, [x, wide(eps, x.trace)], "", "f32", ELEMENT)


def scale_by_shape(kind: str = "original") -> Symbol:
    """sqrt(max(1, rows / columns)), or another factor by the shape: match_rms, unclamped, spectral."""
    return current("ag.scale_by_shape").emit(f"altgrad.scale_by_shape {kind}", [], "f64", "f64", TENSOR)


def descend(p: Symbol, along: Symbol, rate: Any, decay: Any = 0.0) -> Symbol:
    """p (1 - decay) - rate * along."""
    (p, along), _, level = meet(p, along)
    trace = trace_of(p, along)
    if level < ELEMENT:
        fail("descend() takes a parameter and a direction, which are elements")
    return trace.emit("altgrad.apply_step {} along {} rate({}) decay({})", [p, along, wide(rate, trace), wide(decay, trace)], "f32", "f32", ELEMENT)
