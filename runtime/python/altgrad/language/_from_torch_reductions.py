"""torch's reductions of proxies: to one number of the tensor, or of each of its rows or columns."""

from typing import Any

from . import _functions as ag, _trace
from ._arithmetic import apply, choose, compare
from ._errors import fail
from ._from_torch_paths import running
from ._from_torch_proxies import (COLUMN, ELEMENTS, FLAT, FLAT_COLUMN, FLAT_ROW, FULL, NUMBER, OF_COLUMNS, OF_ROWS, ROW, TALL, WIDE, Proxy,
                                  proxy, raw)
from ._reductions import extent, mean, of_condition, reduce
from ._trace import ELEMENT, UNIT, Symbol


def as_float(value: Any) -> Any:
    """A value among floats: a comparison is 0 or 1 there."""
    return choose(value, 1.0, 0.0) if isinstance(value, Symbol) and value.kind == "i1" else value


def as_truth(value: Any) -> Any:
    """A value among comparisons: whether it is not 0."""
    return value if isinstance(value, bool) or isinstance(value, Symbol) and value.kind == "i1" else compare("une", value, 0.0)


def _over(x, dim, keeps):
    """(over what a reduction of a tensor goes, the form of its result): over the tensor, its units where `dim` names all dimensions but
    the first, the columns of a matrix, or "" over nothing."""
    if dim is None or dim == () or dim == []:
        return "tensor", NUMBER
    run = running.get()
    run.asks_rank = run.asks_rank or x.form in (FULL, ROW, COLUMN)
    rank = 1 if x.form in (FLAT, FLAT_ROW, FLAT_COLUMN) else 2 if x.form in (WIDE, TALL) else run.rank
    dims = {int(one) % rank for one in (dim if isinstance(dim, (tuple, list)) else (dim,))}
    of_rows = dims == {*range(1, rank)}
    if dims == {*range(rank)} or x.form in ((COLUMN, WIDE) if of_rows else (ROW, TALL)):
        return "tensor", NUMBER
    if x.form in (ROW, COLUMN, WIDE, TALL) and keeps:
        return "", x.form
    if not of_rows and rank != 2 or x.form != FULL:
        fail(f"a reduction over dimension {dim} of {rank}: there are those over all dimensions, over all but the first, and of a matrix over "
             "either one")
    return ("unit", ROW if keeps else FLAT_ROW) if of_rows else ("column", COLUMN if keeps else FLAT_COLUMN)


class _Over:
    """What a reduction of a tensor goes over; `becomes` is the form of its result."""

    def __init__(self, x: Proxy, dim: Any = None, keepdim: bool = False) -> None:
        self.form = x.form
        self.over, self.becomes = _over(x, dim, keepdim)

    def reduce(self, how: str, x: Symbol) -> Symbol:
        """A reduction, of one number for all elements, too: zeros_like(p).norm()."""
        if self.over and x.level == _LEVELS[self.form]:
            return reduce(how, x, self.over)
        if self.over and x.level in (UNIT, _trace.COLUMN):
            fail("a reduction of numbers of rows or columns that were spread over a tensor: reduce them before")
        x = x * x if how == "sumsq" else x
        return x if how == "max" or not self.over else x * self.count()

    def mean(self, x: Symbol) -> Symbol:
        return mean(self.reduce("add", x), self.over, _LEVELS[self.form]) if self.over else x

    def count(self) -> Symbol:
        """How many numbers each result is of."""
        if not self.over:
            fail("a variance of one number in each row or column")
        if self.form in ELEMENTS:
            return extent({"tensor": "numel", "column": "rows"}.get(self.over, self.over))
        return extent("numel") / extent("unit") if self.form in OF_ROWS else extent("columns")

    def condition(self, how: str, x: Symbol, kind: str) -> Symbol:
        return of_condition(how, as_truth(x), kind, self.over)


_LEVELS = {**dict.fromkeys(ELEMENTS, ELEMENT), **dict.fromkeys(OF_ROWS, UNIT), **dict.fromkeys(OF_COLUMNS, _trace.COLUMN)}


def _norm(of, x, p=2):
    if p in (None, 2, "fro"):
        return ag.sqrt(of.reduce("sumsq", x))
    if p == 4:
        return ag.sqrt(ag.sqrt(of.reduce("sumsq", x * x)))
    if p == -2:
        return apply("divf", 1.0, ag.sqrt(of.reduce("sumsq", apply("divf", 1.0, x))))
    if p == 1:
        return of.reduce("add", ag.abs(x))
    if p == float("inf"):
        return of.reduce("max", ag.abs(x))
    return fail(f"a norm of order {p}: there are 1, 2, 4, -2 and infinity")


def _variance(of, x, unbiased=True):
    away, less = x - of.mean(x), int(unbiased)
    return apply("divf", of.reduce("sumsq", away), of.count() - float(less) if less else of.count())


def _smallest(of, x):
    return apply("negf", of.reduce("max", apply("negf", x)))


def _largest(of, x):
    return of.reduce("max", x)


REDUCTIONS = {"sum": lambda of, x: of.reduce("add", as_float(x)), "mean": lambda of, x: of.mean(as_float(x)), "max": _largest,
              "amax": _largest, "min": _smallest, "amin": _smallest, "norm": _norm, "linalg_norm": _norm, "linalg_vector_norm": _norm,
              "std": lambda of, x, unbiased=True: ag.sqrt(_variance(of, x, unbiased)), "var": _variance,
              "any": lambda of, x: compare("ogt", of.condition("count", x, "f32"), 0.0), "all": lambda of, x: of.condition("and", x, "i1"),
              "dot": lambda of, x: of.reduce("add", x)}
# torch's names of arguments, where there are several.
_ARGUMENTS = {"axis": "dim", "ord": "p", "correction": "unbiased"}


def reduced(name: str, x: Proxy, args: "tuple[Any, ...]", kwargs: "dict[str, Any]") -> Proxy:
    """A reduction of a tensor as torch calls it."""
    order = ("p", "dim", "keepdim") if "norm" in name else ("dim", "unbiased", "keepdim") if name in ("std", "var") else ("dim", "keepdim")
    given = dict(zip(order, args)) | {_ARGUMENTS.get(key, key): value for key, value in kwargs.items()}
    over = {key: given.pop(key) for key in ("dim", "keepdim") if key in given}
    value = raw(x)
    if name == "dot":
        value, over = value * raw(over["dim"]), {}
    if given.keys() - {"p" if "norm" in name else "unbiased" if name in ("std", "var") else ""}:
        fail(f"{', '.join(given)}= of a reduction")
    of = _Over(x, **over)
    return proxy(REDUCTIONS[name](of, value, **given), of.becomes)


def of_number(name: str, value: Symbol) -> Symbol:
    """A reduction of a tensor of one number."""
    return ag.abs(value) if "norm" in name else as_truth(value) if name in ("any", "all") else value
