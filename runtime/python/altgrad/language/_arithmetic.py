"""Which width an operation has: f64 below elements, f32 among them, and one rounding where a number meets an element."""

from numbers import Real
from typing import Any

from ._errors import fail
from ._trace import COLUMN, ELEMENT, UNIT, Symbol, Trace, current

_WHOLE = {"addf": "addi", "subf": "subi", "mulf": "muli"}
_SIGNED = {"olt": "slt", "ole": "sle", "ogt": "sgt", "oge": "sge", "oeq": "eq", "une": "ne"}


def check(value: Any) -> None:
    """Refuses what is neither a value of the rule nor a Python number."""
    if isinstance(value, (Symbol, Real)) and not (isinstance(value, Symbol) and value.kind.startswith("squares")
                                                  and id(value) not in value.trace.grams):
        return
    kind = type(value)
    if hasattr(kind, "alone"):
        fail(kind.alone)
    if isinstance(value, Symbol):
        fail("a product x @ x.T has no elements of its own: multiply it with the matrix, (x @ x.T) @ x")
    if (library := kind.__module__.partition(".")[0]) in ("torch", "numpy"):
        fail(f"a {library}.{kind.__name__} in a rule, which runs once and on no tensors: keep it as an ag.State, or write a "
             "number, such as float(x)")
    if value is None:
        fail("None among the values of a rule: a state with `when=` is None where its option is off, so use it under `if`")
    if isinstance(value, tuple):
        fail("a pair of hyper-parameters is no number: write betas[0] or betas[1]")
    fail(f"{value!r} is no number of a rule; Python's numbers and values of the rule are")


def trace_of(*values: Any) -> Trace:
    return next((value.trace for value in values if isinstance(value, Symbol)), None) or current("this operation")


def wide(value: Any, trace: Trace) -> Symbol:
    """A number below elements, as f64."""
    if not isinstance(value, Symbol):
        return trace.constant(value, "f64")
    if value.kind in ("f64", "i1"):
        return value
    return trace.emit("sitofp {}" if value.kind == "i64" else "extf {}", [value], f"{value.kind} to f64", "f64", value.level)


def narrow(value: Any, trace: Trace) -> Symbol:
    """A value as f32, as it meets an element."""
    if not isinstance(value, Symbol):
        return trace.constant(value, "f32")
    if id(value) in trace.grams:
        value = square_of_gram(value)
    if value.kind.startswith("tensors"):
        return trace.emit("altgrad.entry {}", [value], f"!altgrad.{value.kind}", "f32", ELEMENT)
    if value.kind in ("f32", "i1"):
        return value
    return trace.emit("truncf {}", [wide(value, trace)], "f64 to f32", "f32", value.level)


def square_of_gram(value: Symbol) -> Symbol:
    """x @ x.T as a square of rows x rows, x.T @ x as one of columns x columns, and what is a product of such ones."""
    return value.trace.grams[id(value)][1]()


def level_of(*values: Any) -> int:
    levels = {value.level for value in values if isinstance(value, Symbol)}
    return ELEMENT if {UNIT, COLUMN} <= levels else max(levels, default=0)


def meet(*values: Any, element: bool = False) -> tuple[list[Symbol], str, int]:
    """(the values in one width, that width, the level of what follows from them)."""
    for value in values:
        check(value)
        if isinstance(value, Symbol) and value.kind == "i1":
            fail("a comparison is no number: write ag.where(condition, a, b)")
    trace, level = trace_of(*values), level_of(*values)
    to, kind = (narrow, "f32") if level >= COLUMN or element else (wide, "f64")
    return [to(value, trace) for value in values], kind, level


def apply(word: str, *values: Any) -> Symbol:
    """An operation whose operands and result have one type."""
    operands, kind, level = meet(*values)
    return trace_of(*values).emit(word if "{" in word else word + " " + ", ".join(["{}"] * len(values)), operands, kind, kind, level)


def of_elements(word: str, *values: Any) -> Symbol:
    """A function that is there in f32 alone: a number below elements is rounded in front of it."""
    operands, _, level = meet(*values, element=True)
    trace = trace_of(*values)
    result = trace.emit(word + " " + ", ".join(["{}"] * len(values)), operands, "f32", "f32", level)
    return result if level >= COLUMN else wide(result, trace)


def _whole(a, b):
    """Whether this is arithmetic of the step's number, which stays whole."""
    return all(isinstance(x, int) or isinstance(x, Symbol) and x.kind == "i64" for x in (a, b))


def _of_step(words, a, b, kind):
    trace = trace_of(a, b)
    return trace.emit(words + " {}, {}", [x if isinstance(x, Symbol) else trace.constant(x, "i64") for x in (a, b)], "i64", kind,
                      level_of(a, b))


def binary(word: str, a: Any, b: Any) -> Symbol:
    if word in _WHOLE and _whole(a, b):
        return _of_step(_WHOLE[word], a, b, "i64")
    return apply(word, a, b)


def compare(how: str, a: Any, b: Any) -> Symbol:
    if _whole(a, b):
        return _of_step(f"cmpi {_SIGNED[how]},", a, b, "i1")
    operands, kind, level = meet(a, b)
    return trace_of(a, b).emit(f"cmpf {how}, {{}}, {{}}", operands, kind, "i1", level)


def logic(word: str, a: Any, b: Any) -> Symbol:
    trace = trace_of(a, b)
    for x in (a, b):
        if not isinstance(x, bool) and not (isinstance(x, Symbol) and x.kind == "i1"):
            fail("&, | and ~ take comparisons, with brackets around each: (a < b) & (b < c)")
    operands = [trace.constant(x, "i1") if isinstance(x, bool) else x for x in (a, b)]
    return trace.emit(word + " {}, {}", operands, "i1", "i1", level_of(a, b))


def choose(condition: Any, a: Any, b: Any) -> Symbol:
    """select; a condition of Python's, such as an option, chooses now."""
    if isinstance(condition, bool):
        return a if condition else b
    if not isinstance(condition, Symbol) or condition.kind != "i1":
        fail("where() wants a comparison first, such as ag.where(g > 0, a, b)")
    (a, b), kind, _ = meet(a, b, element=condition.level >= COLUMN)
    return condition.trace.emit("select {}, {}, {}", [condition, a, b], kind, kind, level_of(condition, a, b))


def power(a: Any, n: Any) -> Symbol:
    check(a), check(n)
    trace, level = trace_of(a, n), level_of(a, n)
    if level < COLUMN:
        if isinstance(n, int):
            n = trace.constant(n, "i64")
        if isinstance(n, Symbol) and n.kind == "i64":
            return trace.emit("math.fpowi {}, {}", [wide(a, trace), n], "f64, i64", "f64", level)
        if not isinstance(n, Symbol) and n == 0.5:
            return _root(a)
        return apply("math.exp", n * apply("math.log", a))
    return _POWERS[n](a) if not isinstance(n, Symbol) and n in _POWERS else of_elements("math.powf", a, n)


def _root(x):
    return apply("math.sqrt", x)


_POWERS = {2: lambda x: x * x, 3: lambda x: x * x * x, 4: lambda x: (x * x) * (x * x), 0.5: _root, 0.25: lambda x: _root(_root(x)),
           1.5: lambda x: x * _root(x), -0.5: lambda x: 1.0 / _root(x), -1: lambda x: 1.0 / x, 1: lambda x: x}
