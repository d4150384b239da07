"""torch's reductions of proxies: to one number of the tensor, or of each of its rows."""

from typing import Any

from . import _functions as ag
from ._arithmetic import apply, choose, compare
from ._errors import fail
from ._from_torch_paths import running
from ._from_torch_proxies import raw
from ._reductions import extent, mean, of_condition, reduce
from ._trace import ELEMENT, UNIT, Symbol


def as_float(value: Any) -> Any:
    """A value among floats: a comparison is 0 or 1 there."""
    return choose(value, 1.0, 0.0) if isinstance(value, Symbol) and value.kind == "i1" else value


def as_truth(value: Any) -> Any:
    """A value among comparisons: whether it is not 0."""
    return value if isinstance(value, bool) or isinstance(value, Symbol) and value.kind == "i1" else compare("une", value, 0.0)


def _over(args, kwargs, at):
    """Over what a reduction goes: the tensor, or its units where `dim` names all dimensions but the first."""
    dim = kwargs.pop("dim", kwargs.pop("axis", args[at] if len(args) > at else None))
    keeps = kwargs.pop("keepdim", args[at + 1] if len(args) > at + 1 else False)
    if kwargs:
        fail(f"{', '.join(kwargs)}= of a reduction")
    if dim is None or dim == () or dim == []:
        return "tensor"
    run = running.get()
    run.asks_rank = True
    dims = {int(one) % run.rank for one in (dim if isinstance(dim, (tuple, list)) else (dim,))}
    if dims == set(range(run.rank)):
        return "tensor"
    if dims != set(range(1, run.rank)):
        fail(f"a reduction over dimension {dim} of {run.rank}: numbers of columns, and of parts of a row, come with a later version")
    if not keeps:
        fail("a reduction to one number for each row without keepdim=True: it would meet columns")
    return "unit"


def _reduce(how, x, over):
    """A reduction, of one number for all elements, too: zeros_like(p).norm()."""
    if x.level == ELEMENT:
        return reduce(how, x, over)
    if x.level == UNIT and over == "tensor":
        fail("a reduction of numbers of rows to one of the tensor comes with a later version")
    return x if how == "max" else (x * x if how == "sumsq" else x) * extent("numel" if over == "tensor" else "unit")


def _sum(how):
    def reduced(x, *args, **kwargs):
        over = _over(args, kwargs, 0)
        total = _reduce("add", as_float(raw(x)), over)
        return mean(total, over) if how == "mean" else total
    return reduced


def _largest(sign):
    def reduced(x, *args, **kwargs):
        over = _over(args, kwargs, 0)
        return _reduce("max", raw(x), over) if sign > 0 else apply("negf", _reduce("max", apply("negf", raw(x)), over))
    return reduced


def _norm(x, *args, **kwargs):
    order = kwargs.pop("p", kwargs.pop("ord", args[0] if args else 2))
    over, x = _over(args, kwargs, 1), raw(x)
    if order in (None, 2, "fro"):
        return ag.sqrt(_reduce("sumsq", x, over))
    if order == 4:
        return ag.sqrt(ag.sqrt(_reduce("sumsq", x * x, over)))
    if order == -2:
        return apply("divf", 1.0, ag.sqrt(_reduce("sumsq", apply("divf", 1.0, x), over)))
    if order == 1:
        return _reduce("add", ag.abs(x), over)
    if order == float("inf"):
        return _reduce("max", ag.abs(x), over)
    return fail(f"a norm of order {order}: there are 1, 2, 4, -2 and infinity")


def _dot(a, b):
    return _reduce("add", raw(a) * raw(b), "tensor")


def _std(root):
    def reduced(x, *args, **kwargs):
        less = int(kwargs.pop("unbiased", kwargs.pop("correction", True)))
        over, x = _over(args, kwargs, 0), raw(x)
        away = x - mean(_reduce("add", x, over), over)
        count = extent("numel" if over == "tensor" else "unit")
        made = apply("divf", _reduce("sumsq", away, over), count - float(less) if less else count)
        return ag.sqrt(made) if root else made
    return reduced


def _any(x, *args, **kwargs):
    _over(args, kwargs, 0)
    return compare("ogt", of_condition("count", as_truth(raw(x)), "f32"), 0.0)


def _all(x, *args, **kwargs):
    _over(args, kwargs, 0)
    return of_condition("and", as_truth(raw(x)), "i1")


REDUCTIONS = {"sum": _sum("sum"), "mean": _sum("mean"), "max": _largest(1), "amax": _largest(1), "min": _largest(-1), "amin": _largest(-1),
              "norm": _norm, "linalg_norm": _norm, "linalg_vector_norm": _norm, "dot": _dot, "std": _std(True), "var": _std(False),
              "any": _any, "all": _all}


def of_number(name: str, value: Symbol) -> Symbol:
    """A reduction of a tensor of one number."""
    return ag.abs(value) if "norm" in name else as_truth(value) if name in ("any", "all") else value
