"""Every mistake of mistakes.txt gets the answer that stands below it: where, what, and what to write."""

import os
import re
import shlex
import subprocess
import warnings
from pathlib import Path

import pytest
import torch

import altgrad

PAGE = Path(__file__).with_name("mistakes.txt")
SHORT = "rule mine(param w, grad g, state m, unit s, step t, lr = 1e-3, option fast)\n", "  m = g\n  s = max(g over unit)\n  w = w - lr * g\n"
PROGRAM = os.environ.get("ALTGRAD_OPT", "altgrad-opt")
RULE, TAIL = """altgrad.rule @mine(param %w: f32, grad %g: f32, state %m: f32, hyper %lr: f64 = 1.0e-3, step %t: i64) {
""", "  altgrad.yield param(%w) state(%m1)\n}\n"


def entries():
    """(section, mistake, answer) of the page, in its order."""
    section = None
    for block in PAGE.read_text(encoding="utf-8").split("\n\n"):
        if block.startswith("== "):
            section = block.split("\n")[0].strip("= ")
        elif block.strip() and not block.startswith("#"):
            mistake, answer = block.rstrip("\n").rsplit("\n    ", 1)
            yield section, mistake, answer


def run(*words, folder):
    done = subprocess.run([PROGRAM, *words], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and not done.stdout, (done.returncode, done.stdout[:200])
    return done.stderr


def said_of_rule(text, folder):
    (folder / "mine.mlir").write_text(text)
    return run("--rule=./mine.mlir", "--emit=report", folder=folder)


def said_in_python(text):
    p = torch.nn.Parameter(torch.ones(3))
    p.grad = torch.ones(3)
    with pytest.raises(Exception) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(text, {"torch": torch, "altgrad": altgrad, "optim": altgrad.optim, "p": p})
    return f"{caught.type.__name__}: {caught.value}"


def said(section, mistake, folder):
    if section.startswith("A line of a rule"):
        before, behind = SHORT if "in short form" in section else (RULE, TAIL)
        return said_of_rule(before + "".join(f"  {line}\n" for line in mistake.split("\n")) + behind, folder)
    if section.startswith("The text of a rule"):
        return said_of_rule(mistake + "\n", folder)
    if section.startswith("The storage line"):
        return run("--rule=adamw", f"--storage={mistake}", "--emit=report", folder=folder)
    if section.startswith("The command line"):
        return run(*shlex.split(mistake), folder=folder)
    return said_in_python(mistake)


@pytest.mark.parametrize("section, mistake, answer", list(entries()), ids=lambda text: text[:40].split("\n")[0])
def test_the_answer_stands_below_the_mistake(section, mistake, answer, tmp_path):
    first = said(section, mistake, tmp_path).split("\n")[0]
    assert re.fullmatch(re.escape(answer).replace(re.escape("..."), ".*"), first), first


def test_there_are_120():
    assert len(list(entries())) >= 120


def test_no_answer_speaks_mlir():
    for section, mistake, answer in entries():
        assert not re.search(r"Attr\b|::altgrad|SSA|terminator|dialect|custom op|signless|expected attribute|expected '|operand #", answer), answer
