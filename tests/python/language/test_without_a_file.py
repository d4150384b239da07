"""A rule needs no source: in a notebook's cell, in exec, under python -m, from standard input."""

import subprocess
import sys

import rules

import altgrad.language as ag

CELL = """
import altgrad.language as ag
@ag.rule
def halves(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=0.5):
    m = ag.lerp(m, g, 0.5)
    return p - lr * m, dict(m=m)
"""
USE = """
import torch
p = torch.nn.Parameter(torch.ones(3)); p.grad = torch.ones(3)
halves.optimizer()([p]).step(); print(p.tolist())
"""


def test_a_cell():
    names = {"__name__": "__main__"}
    exec(compile(CELL, "<ipython-input-1-0>", "exec"), names)
    exec(compile(USE, "<ipython-input-2-0>", "exec"), names)
    assert names["p"].tolist() == [0.75] * 3


def test_python_m(tmp_path):
    (tmp_path / "mine.py").write_text(CELL + USE)
    done = subprocess.run([sys.executable, "-m", "mine"], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "[0.75, 0.75, 0.75]\n", done.stderr


def test_standard_input_and_a_word(tmp_path):
    names = {"__name__": "__main__"}
    exec(CELL, names)
    for words in (["-"], ["-c", CELL + "print(halves)"]):
        done = subprocess.run([sys.executable, *words], cwd=tmp_path, input=CELL + "print(halves)", capture_output=True, text=True)
        assert done.stdout == names["halves"].text + "\n", done.stderr


def test_python_shows_the_line_and_a_caret(tmp_path):
    (tmp_path / "mine.py").write_text(CELL.replace("0.5)\n    return", "0.5)\n    m = ag.zeta(m)\n    return") + "print(halves)\n")
    done = subprocess.run([sys.executable, "mine.py"], cwd=tmp_path, capture_output=True, text=True)
    *_, file, line, caret, words = done.stderr.splitlines()
    assert file.endswith('mine.py", line 6') and line == "    m = ag.zeta(m)" and caret.strip("^") == " " * 8
    assert words.startswith("altgrad.language.RuleError: there is no ag.zeta; ")


def test_annotations_may_be_strings_and_helpers_stand_anywhere():
    names = {"ag": ag}
    exec("""from __future__ import annotations
@ag.rule
def f(p: ag.Param, g: ag.Grad, m: ag.State(when="heavy") = None, heavy: ag.Option = True, *, lr: float = 0.1):
    m = blend(m, g)
    return p - lr * m, dict(m=m)
def blend(m, g):
    return ag.lerp(m, g, 0.5)
""", names)
    assert "lerp %m to %g" in names["f"].text and str(names["f"]) == names["f"].text


def test_a_rule_in_a_rule_is_its_function():
    @ag.rule
    def outer(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=1e-4):
        new, m = rules.lion(p, g, m, lr=lr, betas=(0.9, 0.99), weight_decay=0.0)
        return ag.where(g * m > 0, new, p), m
    assert "altgrad.rule @outer(" in outer.text and "math.copysign" in outer.text


def test_a_star_imports_what_modules_may_have():
    names = {}
    exec("from altgrad.language import *", names)
    assert names["rule"] is ag.rule and names["Param"] is ag.Param
