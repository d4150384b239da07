"""ptxas takes every stock module: its registers, its shared memory, its instructions on that target.

Of the modules each eleventh is assembled, others than those that test_gate.py looks at; ALTGRAD_GATE=all takes all."""

import os

import pytest

import cases
import sass
from steps import compiler

STOCK = sorted(set((*cases.stock(), *cases.stock(cases.SCALED), *cases.blocks(), *cases.gradients())))
WANTED = os.environ.get("ALTGRAD_GATE", "11")
EACH = 1 if WANTED == "all" else int(WANTED)


@pytest.mark.parametrize("target", cases.TARGETS)
def test_ptxas_takes_stock_modules(target, tmp_path):
    try:
        sass.tool("ptxas")
    except sass.MissingTool as missing:
        pytest.skip(f"{missing}: no module was assembled")
    # Of the second target others, so that more is seen.
    for request in STOCK[EACH // (2 + cases.TARGETS.index(target))::EACH]:
        sass.assemble(compiler(*request, f"--target={target}", "--emit=ptx"), target, str(tmp_path / "step.cubin"))


def test_what_ptxas_refuses_is_an_error(tmp_path):
    text = compiler(*STOCK[0], "--target=sm_90", "--emit=ptx").replace("{", "{\n.shared .b8 large[50000];", 1)
    try:
        with pytest.raises(RuntimeError, match="too much shared data"):
            sass.assemble(text, "sm_90", str(tmp_path / "step.cubin"))
    except sass.MissingTool as missing:
        pytest.skip(f"{missing}")
