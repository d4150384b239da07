"""What a value of a rule does under Python's operators, and what it refuses."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from . import _arithmetic as arithmetic
from . import _matrices as matrices
from . import _reductions as reductions
from ._errors import fail, fail_as_truth
from ._hints import hint_of_attribute, hint_of_library
from ._trace import LEVELS, Symbol


def _operator(word: str) -> "tuple[Callable[[Any, Any], Symbol], Callable[[Any, Any], Symbol]]":
    return (lambda a, b: arithmetic.binary(word, a, b)), (lambda b, a: arithmetic.binary(word, a, b))


def _comparison(how: str) -> Callable[[Any, Any], Symbol]:
    return lambda a, b: arithmetic.compare(how, a, b)


def _logic(word: str) -> Callable[[Any, Any], Symbol]:
    return lambda a, b: arithmetic.logic(word, a, b)


def _refused(words: str) -> Callable[..., Any]:
    def refuse(self: Symbol, *_: Any, **__: Any) -> Any:
        fail(words)
    return refuse


def _in_place(sign: str) -> Callable[[Any, Any], Any]:
    def refuse(self: Symbol, other: Any) -> Any:
        if not self.role:
            return NotImplemented  # Python goes on with the operator that makes a new value
        fail(f"`{self.name[1:]} {sign}= …` changes nothing in place: write {self.name[1:]} = {self.name[1:]} {sign} …, and return it")
    return refuse


def _without_keywords(reduction: Callable[..., Symbol]) -> Callable[..., Symbol]:
    """A reduction that refuses torch's keywords in words."""
    @wraps(reduction)
    def checked(self: Symbol, over: str = "tensor", **given: Any) -> Symbol:
        if given:
            name = reduction.__name__
            fail(f'x.{name}() has no {next(iter(given))}=: write x.{name}("row"), "column", "unit" or "tensor", whose result meets '
                 "elements without a dimension to keep")
        return reduction(self, over)
    return checked


def _floor(a: Any, b: Any) -> Symbol:
    if arithmetic.level_of(a, b) >= arithmetic.COLUMN:
        fail("// and % are for numbers of the step, not for elements: write ag.floor(a / b)")
    return arithmetic.apply("math.floor", arithmetic.apply("divf", a, b))


class Value(Symbol):
    """A number of the rule, for every element, unit or tensor at once. Operators write lines of the text."""

    __slots__ = ()
    __hash__ = object.__hash__

    __add__, __radd__ = _operator("addf")
    __sub__, __rsub__ = _operator("subf")
    __mul__, __rmul__ = _operator("mulf")
    __truediv__, __rtruediv__ = _operator("divf")
    __lt__, __le__, __gt__, __ge__ = map(_comparison, ("olt", "ole", "ogt", "oge"))
    __eq__, __ne__ = map(_comparison, ("oeq", "une"))
    __and__ = __rand__ = _logic("andi")
    __or__ = __ror__ = _logic("ori")
    __xor__ = __rxor__ = _logic("xori")
    __iadd__, __isub__, __imul__, __itruediv__, __ipow__ = map(_in_place, ("+", "-", "*", "/", "**"))

    def __invert__(self) -> Symbol:
        return arithmetic.logic("xori", self, True)

    def __neg__(self) -> Symbol:
        return arithmetic.apply("negf", self)

    def __pos__(self) -> Symbol:
        return self

    def __abs__(self) -> Symbol:
        return arithmetic.apply("math.absf", self)

    def __pow__(self, n: Any) -> Symbol:
        return arithmetic.power(self, n)

    def __rpow__(self, base: Any) -> Symbol:
        return arithmetic.power(base, self)

    def __floordiv__(self, other: Any) -> Symbol:
        return _floor(self, other)

    def __mod__(self, other: Any) -> Symbol:
        return self - _floor(self, other) * other

    def __matmul__(self, other: Any) -> Symbol:
        return matrices.product_of(self, other)

    @property
    def T(self) -> "matrices.Transposed":
        """The transpose of a matrix, for x @ x.T."""
        return matrices.Transposed(self)

    @_without_keywords
    def sum(self, over: str = "tensor") -> Symbol:
        """The sum of all elements of the tensor, of each "row", "column" or "unit", of each "block<1x32>", or of all tensors
        of the "step". What is one for each row, column or tensor counts once for each."""
        return reductions.reduce("add", self, over)

    @_without_keywords
    def mean(self, over: str = "tensor") -> Symbol:
        """The sum divided by how many there are."""
        return reductions.average("add", self, over)

    @_without_keywords
    def max(self, over: str = "tensor") -> Symbol:
        """The largest element; NaN if there is one."""
        return reductions.reduce("max", self, over)

    @_without_keywords
    def min(self, over: str = "tensor") -> Symbol:
        """The smallest element."""
        return -reductions.reduce("max", -self, over)

    @_without_keywords
    def norm(self, over: str = "tensor") -> Symbol:
        """The root of the sum of squares."""
        return arithmetic.apply("math.sqrt", reductions.reduce("sumsq", self, over))

    @_without_keywords
    def all(self, over: str = "tensor") -> Symbol:
        """Whether a comparison holds for every element of the tensor, or of each row, column, unit or block."""
        return reductions.of_condition("and", self, "i1", over)

    @_without_keywords
    def count(self, over: str = "tensor") -> Symbol:
        """For how many elements of the tensor, or of each row, column, unit or block, a comparison holds."""
        return reductions.of_condition("count", self, "f32", over)

    # What has a meaning for tensors and numbers, and none here.

    def __bool__(self) -> bool:
        fail_as_truth()

    __float__ = __int__ = __complex__ = __round__ = __trunc__ = __floor__ = __ceil__ = _refused(
        "a value has no number while the rule is traced, so float(), int(), round() and the functions of math take none: leave "
        "float() and int() out, and write ag.sqrt, ag.floor and so on")
    __index__ = _refused("a value has no number while the rule is traced: range() and indices take Python's whole numbers only")
    __iter__ = __len__ = _refused("a value stands for all elements at once and has no length: write .sum(), .mean() or .max()")
    __getitem__ = _refused("a value stands for all elements at once and has no index; of a choice write ag.where(condition, a, b)")
    __setitem__ = __delitem__ = _refused("a value is not changed in place: write g = ag.where(condition, new, g)")
    __array__ = _refused("NumPy takes no values of a rule: write Python's operators and the functions of ag")
    __setattr__ = _refused("nothing of a value is set: write a new value, p = p - lr * g")

    def __format__(self, spec: str) -> str:
        return repr(self) if not spec else fail("a value has no digits while the rule is traced: print(x) says what it is")

    def __repr__(self) -> str:
        return f"<{LEVELS[self.level]}, {self.name}: {self.kind}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fail(hint_of_attribute(name))

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        fail(hint_of_library("torch", getattr(function, "__name__", "")))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        fail(hint_of_library("numpy", ufunc.__name__))
