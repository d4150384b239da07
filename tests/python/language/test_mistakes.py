"""Every mistake of mistakes.txt is told in these words, at this place, with and without a source."""

import doctest
import linecache
import re
import sys
from pathlib import Path

import pytest

import altgrad.language as ag

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects of Python 3.10 have no columns")
HEAD = "import math, torch, numpy as np, altgrad.language as ag\n@ag.rule\n"


def mistakes():
    """(arguments, body, line, column, words) of each."""
    arguments, bodies = "", True
    for block in Path(__file__).with_name("mistakes.txt").read_text().split("\n\n"):
        if block.startswith("=="):
            arguments, bodies = block.partition(": ")[2], not block.startswith("== signatures")
        elif not block.startswith("#"):
            *body, said = block.strip("\n").split("\n")
            place, _, words = said.partition(" ")
            line, _, column = place.partition(":")
            yield (arguments if bodies else body[0]), [row[2:] for row in body] if bodies else ["return p - 0.1 * g"], int(line), int(column or 0), words


MISTAKES = list(mistakes())


@pytest.mark.parametrize("source", [True, False], ids=["from a file", "without a source"])
@pytest.mark.parametrize("arguments, body, line, column, words", MISTAKES, ids=lambda one: one[0] if isinstance(one, list) else "")
def test_the_words_and_the_place(arguments, body, line, column, words, source):
    text = HEAD + f"def f(p: ag.Param, g: ag.Grad{arguments}):\n" + "".join(f"    {row}\n" for row in body)
    name = f"user-{abs(hash(text))}.py"
    if source:
        linecache.cache[name] = len(text), None, text.splitlines(True), name
    names = {"__name__": "user"}
    with pytest.raises(ag.RuleError) as caught:
        exec(compile(text, name, "exec"), names)
        names["f"].optimizer()
    error = caught.value
    assert error.filename == name
    if source:
        assert doctest.OutputChecker().check_output(words + "\n", error.msg + "\n", doctest.ELLIPSIS), error.msg
        assert error.lineno == 3 + line and (column == 0 or error.offset == column + 4 * (line > 0)), (error.lineno, error.offset)
        assert error.text == text.splitlines(True)[2 + line]
    else:
        assert error.lineno in (2, 3 + line)  # of an argument the line of its function
    assert re.match(r"\S+:\d+(:\d+)?: ", str(error))


def test_the_catalogue_has_what_it_had():
    assert len(MISTAKES) >= 80
