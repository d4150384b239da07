"""What stands for tensors and numbers while the code of an optimizer runs: names in the text, with the manners of both."""

from typing import Any, NoReturn

import torch
from torch.overrides import TorchFunctionMode

from . import _functions as ag
from ._arithmetic import apply, binary, choose, compare, narrow, power, wide
from ._errors import fail
from ._from_torch_paths import running
from ._reductions import extent
from ._trace import ELEMENT, HYPER, Symbol


def raw(value: Any) -> Any:
    """The value of the rule, or the number, that something stands for."""
    if isinstance(value, (Number, Extent)):
        return value.symbol
    if type(value) is Proxy:
        return value.symbol
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            fail("a tensor that is no state, parameter or gradient: its elements would stand in the text")
        return torch.Tensor.item(value)
    return value


def plus(a: Any, b: Any) -> Any:
    """a + b, of which the number of the step and a whole number are one more such number."""
    counts = running.get().counts
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Symbol) and one.name in counts and not isinstance(other, Symbol) and other == int(other):
            return running.get().count(counts[one.name] + int(other))
    return binary("addf", a, b)


def to_power(a: Any, n: Any) -> Any:
    """a ** n; of elements n is a number that stands in the text."""
    if not isinstance(a, Symbol) and isinstance(n, Symbol) and n.kind == "i64":
        a = n.trace.constant(a, "f64")
    if isinstance(a, Symbol) and a.level == ELEMENT and isinstance(n, Symbol) and n.level <= HYPER:
        n = running.get().known(n)
    if not isinstance(n, Symbol) and n == int(n):
        n = int(n)
        if isinstance(a, Symbol) and a.level == ELEMENT and 4 < n < 9:
            return to_power(a, n // 2) * to_power(a, n - n // 2)
    return power(a, n)


class Number(float):
    """A number of the rule among Python's. C code that reads it as a float finds a NaN, which is refused in the text."""

    __slots__ = ("symbol",)

    def __new__(cls, symbol: Symbol) -> "Number":
        made = float.__new__(cls, "nan")
        made.symbol = symbol
        return made

    def __bool__(self) -> bool:
        return running.get().decide(self.symbol)

    def _known(self):
        if self.symbol.level > HYPER:
            fail("a number that is known in each step only is wanted as a float or an int of Python's: a rule has no such number")
        return running.get().known(self.symbol)

    def __float__(self) -> float:
        return float(self._known())

    def __int__(self) -> int:
        return int(self._known())

    def __index__(self) -> int:
        value = self._known()
        return int(value) if value == int(value) else fail(f"{value} is wanted as a whole number")

    def __repr__(self) -> str:
        return repr(self.symbol)

    __str__ = __repr__
    __hash__ = object.__hash__

    def __format__(self, spec: str) -> str:
        return repr(self.symbol)

    def __round__(self, digits: Any = None) -> Any:
        return round(self._known(), digits)

    def __trunc__(self) -> int:
        return int(self._known())

    def __floor__(self) -> Any:
        return Number(apply("math.floor", self.symbol))

    def __ceil__(self) -> Any:
        return -Number(apply("math.floor", apply("negf", self.symbol)))

    def __reduce__(self) -> NoReturn:
        fail("a number of the rule is pickled or copied with others")

    def __deepcopy__(self, memo: Any) -> "Number":
        return self

    def __neg__(self) -> "Number":
        return Number(apply("negf", self.symbol))

    def __pos__(self) -> "Number":
        return self

    def __abs__(self) -> "Number":
        return Number(ag.abs(self.symbol))

    def is_integer(self) -> bool:
        return float(self).is_integer()

    def item(self) -> "Number":
        return self


def _bare(value):
    """A number, with what a comparison says as one of 0 and 1."""
    value = raw(value)
    return choose(value, 1.0, 0.0) if isinstance(value, Symbol) and value.kind == "i1" else value


def _whole_quotient(a, b):
    return apply("math.floor", apply("divf", a, b))


_TWO = {"add": plus, "sub": lambda a, b: plus(a, -b) if not isinstance(b, Symbol) else binary("subf", a, b),
        "mul": lambda a, b: binary("mulf", a, b), "truediv": lambda a, b: apply("divf", a, b), "pow": to_power, "floordiv": _whole_quotient,
        "mod": lambda a, b: apply("subf", a, apply("mulf", _whole_quotient(a, b), b))}
_ORDER = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}


def _two_sided(function, turned):
    def operator(self, other):
        if isinstance(other, torch.Tensor) or not isinstance(other, (int, float)):
            return NotImplemented  # a tensor's own operator goes on
        a, b = _bare(self), _bare(other)
        return Number(function(b, a) if turned else function(a, b))
    return operator


def _compared(how):
    def operator(self, other):
        if isinstance(other, torch.Tensor) or not isinstance(other, (int, float)):
            return NotImplemented
        return Number(compare(how, _bare(self), _bare(other)))
    return operator


_TOO_LARGE = 10 ** 400  # for a float and for an int of C's


class Extent(int):
    """A size of the parameter. C code that reads it as an int or a float finds one that is too large, which raises OverflowError."""

    def __new__(cls, symbol: Symbol) -> "Extent":
        made = int.__new__(cls, _TOO_LARGE)
        made.symbol = symbol
        return made

    __bool__, __hash__ = lambda self: True, object.__hash__
    __float__, __index__, __int__, __repr__ = Number.__float__, Number.__index__, Number.__int__, Number.__repr__
    __neg__, __abs__, _known = Number.__neg__, Number.__abs__, Number._known


def _refused(name):
    def refuse(self, *_):
        fail(f"{name}() of a number: there is no such thing of one while the rule is traced")
    return refuse


# What else a float and an int have would be computed from what they are for C.
for _kind, _plain in (Number, float), (Extent, int):
    for _name in {*dir(_plain)} - {*dir(object)} - {*vars(_kind)}:
        setattr(_kind, _name, _refused(_name))
for _kind in (Number, Extent):
    for _name, _function in _TWO.items():
        setattr(_kind, f"__{_name}__", _two_sided(_function, False))
        setattr(_kind, f"__r{_name}__", _two_sided(_function, True))
    for _name, _how in _ORDER.items():
        setattr(_kind, f"__{_name}__", _compared(_how))


class Shape(tuple):
    """The shape of the parameter: its sizes are numbers of the rule."""

    def numel(self) -> Number:
        return Number(extent("numel"))


class Cell:
    """What several proxies of one memory have: x, x.data, x.view(-1)."""

    __slots__ = ("symbol",)

    def __init__(self, symbol: Any) -> None:
        self.symbol = symbol


# Which shape a tensor has: that of one number; the parameter's, and all its elements as (n,), (1, n) and (n, 1); and a number for
# each row or column of a matrix, as (rows, 1), (rows,), (1, columns) and (columns,).
NUMBER, FULL, FLAT, WIDE, TALL = "a number", "a tensor", "a list of elements", "a row of elements", "a column of elements"
ROW, FLAT_ROW, COLUMN, FLAT_COLUMN = "a column of rows", "a list of rows", "a row of columns", "a list of columns"
ELEMENTS, OF_ROWS, OF_COLUMNS = (FULL, FLAT, WIDE, TALL), (FLAT_ROW, ROW), (FLAT_COLUMN, COLUMN)


class Proxy(torch.Tensor):
    """Stands for a tensor whose shape is one of these forms. It holds no elements."""

    cell: Cell
    form: str
    held_grad: Any = None

    @property
    def symbol(self) -> Symbol:
        return self.cell.symbol

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        from ._from_torch_functions import call
        return call(function, args, kwargs or {})

    def __deepcopy__(self, memo: Any) -> "Proxy":
        return proxy(self.symbol, self.form)

    def __format__(self, spec: str) -> str:
        return f"<{self.form}, {self.symbol.name}>"

    def __repr__(self) -> str:
        return format(self)

    def tolist(self) -> Any:
        return self.item() if self.form == NUMBER else fail("tolist() of a tensor: its elements have no numbers while the rule is traced")

    numpy = __array__ = lambda self, *_, **__: fail("NumPy takes no tensor while the rule is traced")


def proxy(value: Any, form: str, cell: "Cell | None" = None) -> Proxy:
    """A proxy for a value; what is no comparison and no step count is rounded to float32, as a tensor stores it."""
    run = running.get()
    if cell is None:
        if not isinstance(value, Symbol):
            value = run.trace.constant(value, "i1" if isinstance(value, bool) else "f32")
        cell = Cell(value if value.kind in ("i1", "i64") else narrow(value, run.trace))
    with torch._C.DisableTorchFunction():
        made = torch.Tensor._make_subclass(Proxy, torch.empty((), device="meta"))
    made.cell, made.form = cell, form
    return made


def number(symbol: Any) -> Any:
    """What item() gives."""
    if not isinstance(symbol, Symbol):
        return symbol
    if symbol.level == ELEMENT:
        fail("item() of a tensor with many elements")
    return Number(symbol if symbol.kind in ("i1", "i64") else wide(symbol, symbol.trace))


class Mode(TorchFunctionMode):
    """Hands the functions that make tensors, and those that proxies are given to, to their counterparts."""

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        from ._from_torch_functions import MAKERS, call, has_proxies
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if name in MAKERS or has_proxies((args, kwargs)):
            return call(function, args, kwargs)
        return function(*args, **kwargs)
