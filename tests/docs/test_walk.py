"""The walk through the compiler (walk.test) shows every pass, and so does the compiler's guide."""
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PASSES = sorted({name for folder in ("passes", "codegen")
                 for name in re.findall(r'"(altgrad-[a-z-]+)"', (ROOT / folder / "Passes.td").read_text())})


def test_the_passes_are_found():
    assert len(PASSES) == 17 and "altgrad-cut-stages" in PASSES


@pytest.mark.parametrize("name", PASSES)
def test_the_walk_runs_every_pass(name):
    runs = [line for line in (ROOT / "tests/docs/walk.test").read_text().splitlines() if line.startswith("# RUN:")]
    assert any(re.search(rf"{name}\b(?!-)", line) for line in runs), f"tests/docs/walk.test never runs --{name}"


@pytest.mark.parametrize("name", PASSES)
def test_the_guide_runs_every_pass(name):
    section = (ROOT / "codegen/Guide.md").read_text().split("## The IR after each pass")[1].split("\n## ")[0]
    assert re.search(rf"{name}\b(?!-)", section), f"codegen/Guide.md does not show what --{name} makes"


@pytest.mark.parametrize("name", PASSES)
def test_misuse_of_every_pass_is_tested(name):
    text = (ROOT / "tests/passes/misuse.test").read_text()
    assert re.search(rf"RUN: (not )?altgrad-opt \S+ --{name}\b(?!-)", text), f"tests/passes/misuse.test has no --{name}"
