"""Mistakes in a rule, told at the user's file, line and caret."""

import ast
import inspect
import linecache
import re
import sys
import textwrap
import tokenize
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from types import CodeType
from typing import Any, NamedTuple, NoReturn

from .._library import Error

_INNER = "altgrad", "torch", "numpy", "functools", "contextlib"


class SourceLocation(NamedTuple):
    """Somewhere in a file; columns count bytes from 0, as code objects have them, and may be unknown."""

    file: str
    line: int
    column: int | None = None
    end_line: int | None = None
    end: int | None = None


class RuleError(Error, SyntaxError):
    """A mistake in the function of a rule. Python shows it under the line where it was made.

    Attributes:
        msg, filename, lineno, offset, text: As SyntaxError has them.
        status: "COMPILE".
    """

    def __init__(self, words: str, where: tuple[Any, ...]) -> None:
        """As SyntaxError is made: the words, and (file, line, column, text of the line, last line, last column)."""
        SyntaxError.__init__(self, words, where)
        self.status = "COMPILE"

    def __str__(self) -> str:
        column = f":{self.offset}" if self.offset else ""
        return f"{self.filename}:{self.lineno}{column}: {self.msg}"


RuleError.__module__ = "altgrad.language"


_refusals: "ContextVar[list[RuleError] | None]" = ContextVar("refusals", default=None)


@contextmanager
def not_caught() -> Any:
    """Raises a RuleError behind the block that its code has caught: a rule that goes on without the line is another one."""
    mark = _refusals.set(told := [])
    try:
        yield
        if told:
            raise told[0].with_traceback(None) from None
    finally:
        _refusals.reset(mark)


def fail_at(place: SourceLocation, words: str) -> NoReturn:
    line = linecache.getline(place.file, place.line)
    last = line if place.end_line in (None, place.line) else linecache.getline(place.file, place.end_line)
    where = place.file, place.line, _character(line, place.column), line or None
    if place.end is not None:
        where += place.end_line, _character(last, place.end)
    error = RuleError(words, where)
    if (told := _refusals.get()) is not None:
        told.append(error)
    raise error


def fail(words: str) -> NoReturn:
    """Refuses what the user's line does that is now being run."""
    fail_at(location_of(*here()), words)


def _character(line, column):
    return None if column is None else len(line.encode()[:column].decode(errors="replace")) + 1 if line else column + 1


def here() -> tuple[CodeType, int, int]:
    """The user's code that is now being run: (code, instruction, line). Columns are looked up for errors only."""
    frame = sys._getframe(1)
    while frame.f_back and _is_inner(frame):
        frame = frame.f_back
    return frame.f_code, frame.f_lasti, frame.f_lineno


def _is_inner(frame):
    """Whether a frame is a library's; the optimizers of torch are users' code, of which rules are made."""
    name = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in _INNER and not name.startswith("torch.optim.")


def location_in(error: BaseException) -> SourceLocation | None:
    """The line of the user's that raised an error, where there is such a line."""
    trace, found = error.__traceback__, None
    while trace:
        if not _is_inner(trace.tb_frame):
            found = trace
        trace = trace.tb_next
    return found and location_of(found.tb_frame.f_code, found.tb_lasti, found.tb_lineno)


def fail_in(error: BaseException, words: str) -> None:
    """Refuses what a line of the user's did that raised an error, where there is such a line."""
    if place := location_in(error):
        fail_at(place, words)


def code_of(function: Any) -> CodeType:
    """The code that a mistake in a rule's function is shown in: its own, or that of the step that it traces."""
    return getattr(function, "stands_for", function).__code__


def location_of(code: CodeType, instruction: int, line: int) -> SourceLocation:
    if not hasattr(code, "co_positions"):  # Python 3.10
        return SourceLocation(code.co_filename, line)
    first, last, column, end = next(islice(code.co_positions(), instruction // 2, None))
    return SourceLocation(code.co_filename, first or line, column, last, end)


def place_of_argument(function: Any, name: str | None = None) -> SourceLocation:
    """Where a function names an argument; its first line where there is no source."""
    code = code_of(function)
    found, _ = inspect.findsource(code) if linecache.getline(code.co_filename, code.co_firstlineno) else ([], 0)
    pattern = re.compile(rf"\bdef\s+{re.escape(code.co_name)}\b" if name is None else rf"(?<![\w.\"'=]){re.escape(name)}\b(?=\s*[:=,)])")
    for number, line in enumerate(found[code.co_firstlineno - 1:], code.co_firstlineno):
        if match := pattern.search(line):
            start = len(line[:match.start()].encode())
            return SourceLocation(code.co_filename, number, start, number, start + len(match[0].encode()))
    return SourceLocation(code.co_filename, code.co_firstlineno)


_DECIDES = "only an ag.Option, or ag.when(t % 10 == 0) of an ag.Step, decides an `if`; for numbers write ag.where(condition, a, b)"
_TRUTH = {
    ast.If: "`if` on a value, which has no number while the rule is traced: " + _DECIDES,
    ast.IfExp: "`if` on a value, which has no number while the rule is traced: " + _DECIDES,
    ast.While: "`while` on a value, which has no number while the rule is traced: a rule has no loops but `for` over "
               "range(), which is unrolled",
    ast.Assert: "`assert` on a value, which has no number while the rule is traced: leave it out",
    ast.And: "`and` takes no values of a rule: write (a) & (b)",
    ast.Or: "`or` takes no values of a rule: write (a) | (b)",
    ast.Not: "`not` takes no value of a rule: write ~(a)",
    ast.Call: "Python's max(), min(), any(), all() and sorted() take no values of a rule: write ag.maximum(a, b), x.max(), x.all()",
    ast.Compare: "a chain of comparisons takes no values of a rule: write (a < b) & (b < c)",
}
_ANY = ("a value of a rule is neither true nor false while the rule is traced: " + _DECIDES
        + "; for `and`, `or`, `not` write (a) & (b), (a) | (b), ~(a), and for a < b < c write (a < b) & (b < c)")


def fail_as_truth() -> NoReturn:
    """Refuses a value where Python wants true or false, in the words of what the line does."""
    code, *at = here()
    place = location_of(code, *at)
    fail_at(place, _TRUTH.get(_asks(place, code.co_firstlineno), _ANY))


def _asks(place, first):
    """The kind of the smallest piece of syntax around a place that asks for a truth; None where no source can be read."""
    lines = linecache.getlines(place.file)
    try:
        tree, shift = ast.parse("".join(lines)), 0
    except (SyntaxError, ValueError):  # a page with other text around the function
        try:
            block = inspect.getblock(lines[first - 1:])
            tree, shift = ast.parse(textwrap.dedent("".join(block))), len(block[0]) - len(block[0].lstrip())
        except (SyntaxError, ValueError, IndexError, tokenize.TokenError):
            return None
        ast.increment_lineno(tree, first - 1)
    if place.column is None or place.end is None:
        return None
    start, end, found = (place.line, place.column - shift), (place.end_line, place.end - shift), []
    for node in ast.walk(tree):
        test = getattr(node, "test", node)
        if not hasattr(test, "end_lineno") or (test.lineno, test.col_offset) > start or (test.end_lineno, test.end_col_offset) < end:
            continue
        size = test.end_lineno - test.lineno, test.end_col_offset - test.col_offset
        if isinstance(node, (ast.If, ast.IfExp, ast.While, ast.Assert)):
            found.append((size, 1, type(node)))
        elif isinstance(node, ast.BoolOp) or isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            found.append((size, 0, type(node.op)))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("max", "min", "any", "all", "sorted"):
            found.append((size, 0, ast.Call))
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            found.append((size, 0, ast.Compare))
    return min(found, key=lambda one: one[:2])[2] if found else None
