"""A tensor as a matrix: x @ x.T, products of it with x, and what the library makes of them."""

from typing import Any

from ._arithmetic import apply, check, choose, compare, level_of, meet, narrow, square_of_gram, trace_of, wide
from ._errors import fail
from ._reductions import reduce, side_of
from ._trace import COLUMN, ELEMENT, TENSOR, UNIT, Symbol, current, spelled, square_of

_FORMATS = "f32", "bf16", "f16"


class Transposed:
    """x.T, for products of matrices."""

    alone = "x.T stands only in products, such as x @ x.T and x.T @ y"

    def __init__(self, of: Symbol) -> None:
        _check_matrix(of)
        self.of = of

    def __matmul__(self, other: Any) -> Symbol:
        return product_of(self, other)


def _is_matrix(value):
    return isinstance(value, Symbol) and value.kind.startswith(("tensors", "squares"))


def _check_matrix(value):
    if not _is_matrix(value):
        check(value)
        if level_of(value) < ELEMENT:
            fail("@ multiplies matrices, and this is one number: write *")


def lifted(value: Any, dtype: str = "f32") -> Symbol:
    """A matrix: itself, or that of all elements."""
    _check_matrix(value)
    if _is_matrix(value):
        return value
    side = value.trace.sides.get(value.name)
    if side and dtype != "f32":
        fail(f"no square in {dtype!r}: squares are in f32")
    kind = f"tensors<{dtype} per {side} x {side}>" if side else f"tensors<{dtype}>"
    return value.trace.emit("altgrad.matrix {}", [narrow(value, value.trace)], f"!altgrad.{kind}", kind, ELEMENT, value.name)


def matrix(value: Symbol, dtype: str = "f32") -> Symbol:
    """All elements as a matrix of f32, bf16 or f16, in which products take their operands."""
    if dtype not in _FORMATS:
        fail(f"no matrix of {dtype!r}; there are {', '.join(_FORMATS)}")
    if isinstance(value, Symbol) and value.kind.startswith("tensors"):
        value = narrow(value, value.trace)
    return lifted(value, dtype)


def _gram(x, side):
    kind = x.kind.replace("tensors", "squares")
    known = x.trace.emit("altgrad.gram {}", [x], f"!altgrad.{x.kind}", kind, ELEMENT, x.root)
    made = x.trace.make(x.trace, known.name, kind, ELEMENT, x.root)  # the two are one operation
    x.trace.grams[id(made)] = made, lambda: _multiplied(x, x, (side == "columns", side == "rows"))
    return made


def _are_apart(left, right):
    """Whether one is x @ x.T and the other follows from another matrix than x."""
    return left.root != right.root and any([id(one) in one.trace.grams for one in (left, right)])


def _extents(matrix, transposed):
    side = square_of(matrix.kind)
    extents = (side, side) if side else ("rows", "columns")
    return extents[::-1] if transposed else extents


def product_of(left: Any, right: Any) -> Symbol:
    """left @ right, where either may be transposed."""
    turned = [isinstance(one, Transposed) for one in (left, right)]
    if _is_list(right):
        return _multiply_list(left.of if turned[0] else left, turned[0], right)
    if _is_list(left):
        fail("a number of each row or column stands on the right of @: x.T @ r of one per row, x @ c of one per column")
    left, right = [lifted(one.of if isinstance(one, Transposed) else one) for one in (left, right)]
    if left is right and turned[0] != turned[1] and not square_of(left.kind):
        return _gram(left, "rows" if turned[1] else "columns")
    if not any(turned) and "squares" in left.kind + right.kind and not square_of(left.kind + right.kind) and not _are_apart(left, right):
        made = product(left, right)
        if id(left) in made.trace.grams and id(right) in made.trace.grams:
            made.trace.grams[id(made)] = made, lambda: product_of(square_of_gram(left), square_of_gram(right))
        return made
    left, right = [square_of_gram(one) if id(one) in one.trace.grams else one for one in (left, right)]
    if "squares" in left.kind + right.kind:
        fail("a product of a polynomial of x @ x.T with another matrix than x: multiply the other one with x @ x.T itself")
    return _multiplied(left, right, turned)


def _is_list(value):
    return isinstance(value, Symbol) and value.level in (UNIT, COLUMN)


def _multiply_list(left, turned, numbers):
    """A matrix times one number of each column, or its transpose times one of each row; a square times one of each of its own."""
    _check_matrix(left)
    of_rows = numbers.level == UNIT
    if side := _side_of_matrix(left):
        if of_rows != (side == "rows"):
            fail(f"@ of a square of {side} x {side} and one number of each {'row' if of_rows else 'column'}, which do not fit")
        return _multiply_square(left, turned, numbers, side)
    if turned != of_rows:
        fail("x @ c takes a number of each column and gives one of each row, and x.T @ r takes one of each row and gives one of each column")
    return reduce("add", apply("mulf", left, numbers), "column" if of_rows else "row")


def _side_of_matrix(value: Symbol) -> str:
    """The side of a square or of an element of one, or ""."""
    return side_of(value) if value.kind in ("f32", "i1") or id(value) in value.trace.grams else square_of(value.kind)


def _multiply_square(square, turned, numbers, side):
    """One column or row of the product with a matrix whose columns or rows are the numbers: the others are the same."""
    matrix = lifted(apply("mulf", numbers, _ones(square.trace)))
    if side == "rows":
        return reduce("max", product_of(Transposed(square) if turned else square, matrix), "row")
    return reduce("max", product_of(matrix, square if turned else Transposed(square)), "column")


def _ones(trace):
    """A matrix of ones, computed from the gradient, since a constant would be of no set of tensors."""
    gradient = next(given for role in ("grad", "param") for given in trace.given.values() if given.role == role)
    return apply("math.absf", apply("math.copysign", 1.0, gradient))


def _on_diagonal(name, s):
    s = s.of if isinstance(s, Transposed) else s
    if not isinstance(s, Symbol) or not _side_of_matrix(s):
        fail(f"{name}() takes a square, as an ag.Square or x @ x.T is one")
    return choose(compare("ogt", identity(s), 0.0), s, 0.0)


def trace(s: Symbol) -> Symbol:
    """The sum of the numbers on the diagonal of a square."""
    return reduce("add", _on_diagonal("trace", s), "tensor")


def diagonal(s: Symbol) -> Symbol:
    """The numbers on the diagonal of a square, one for each row or column."""
    kept = _on_diagonal("diagonal", s)
    return _multiply_square(kept, False, 1.0, side_of(kept))


def _multiplied(left, right, turned):
    (rows, inner), (others, columns) = _extents(left, turned[0]), _extents(right, turned[1])
    if inner != others or (rows, columns) == ("columns", "rows"):
        fail(f"@ of a matrix of {rows} x {inner} and one of {others} x {columns}, which do not fit: x.T turns one")
    formats = [one.kind[8:].partition(" ")[0].rstrip(">") for one in (left, right)]
    if formats[0] != formats[1]:
        fail("a product of matrices in two formats: make both by ag.matrix(x, dtype) with one dtype")
    kind = f"tensors<{formats[0]} per {rows} x {rows}>" if rows == columns else f"tensors<{formats[0]}>"
    words = ", ".join(["{}" + " transposed" * one for one in turned])
    return left.trace.emit(f"altgrad.matmul {words}", [left, right], f"!altgrad.{left.kind}, !altgrad.{right.kind} to !altgrad.{kind}",
                           kind, ELEMENT)


def _factorize(word, name, square, *operands, more=""):
    squares = [square_of_gram(one) if isinstance(one, Symbol) and id(one) in one.trace.grams else lifted(one) for one in (square, *operands)]
    fits = square_of(squares[0].kind) or (word == "orthonormal" and squares[0].kind == "tensors<f32>")
    if not fits or {one.kind for one in squares} != {squares[0].kind}:
        fail(f"{name}() takes a square, as an ag.Square or x @ x.T is one" + ", and a basis of as many rows" * bool(operands)
             + ", or a matrix of f32" * (word == "orthonormal"))
    words = f"altgrad.factorize {word} {{}}" + " by {}" * bool(operands) + more
    return squares[0].trace.emit(words, squares, f"!altgrad.{squares[0].kind}", squares[0].kind, ELEMENT)


def eigenbasis(s: Symbol) -> Symbol:
    """The orthonormal eigenvectors of a symmetric square as columns, of the largest eigenvalue first."""
    return _factorize("eigenbasis", "eigenbasis", s)


def order(s: Symbol, q: Symbol) -> Symbol:
    """The permutation p for which the diagonal of (q @ p).T @ s @ (q @ p) falls."""
    return _factorize("order", "order", s, q)


def orthonormal(s: Symbol) -> Symbol:
    """Q of the decomposition s = Q R, with an upper triangle R, of a square or of a matrix with as many rows as columns or more."""
    return _factorize("orthonormal", "orthonormal", s)


def identity(s: Symbol) -> Symbol:
    """The identity of as many rows as a square has."""
    return _factorize("identity", "identity", s)


def inverse_root(s: Symbol, p: float) -> Symbol:
    """s ** (-1 / p) of a symmetric square; eigenvalues below 1e-7 of the largest one count as so much."""
    if isinstance(p, Symbol) or not p > 0:
        fail("the root of inverse_root(s, p) is a Python number above 0")
    return _factorize("inverse_root", "inverse_root", s, more=f" root {spelled(p)}")


def product(left: Any, right: Any, by: float = 1.0, plus: Any = None, weight: float = 1.0) -> Symbol:
    """by * (left @ right) + weight * plus, rounded once; one factor is a square, a polynomial of x @ x.T."""
    left, right = lifted(left), lifted(right)
    if left.kind.startswith("tensors"):  # x @ (x.T @ x): the product of a polynomial of x @ x.T and x, from either side
        left, right = right, left
    operands = [left, right] + ([] if plus is None else [lifted(plus, right.kind[8:-1])])
    if left.kind.startswith("tensors"):
        fail("ag.product() takes a polynomial of x @ x.T and x, or what follows from it; a @ b multiplies other matrices")
    if len({operand.root for operand in operands}) > 1:
        fail("ag.product() of what follows from two matrices: it multiplies x @ x.T with x and what follows from it; a @ b multiplies others")
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
        coefficients = ", ".join(f"[{', '.join(spelled(float(number)) for number in row)}]" for row in coefficients)
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
