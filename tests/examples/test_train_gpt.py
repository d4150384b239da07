"""tools/train_gpt.py: a table and a picture in which altgrad's AdamW learns as torch's does."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[2] / "tools" / "train_gpt.py"


def run(folder, *words):
    if not importlib.util.find_spec("matplotlib"):
        pytest.skip("matplotlib not installed (tools/packages.sh)")
    done = subprocess.run([sys.executable, TOOL, "--device", "cpu", "--out", folder, *words], text=True, capture_output=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})
    return done.returncode, done.stdout, done.stderr


def test_four_optimizers_learn_and_the_first_two_alike(tmp_path):
    names = ["torch AdamW fused", "altgrad AdamW", "altgrad AdamW8bit", "altgrad Muon + AdamW"]
    code, printed, wrong = run(tmp_path, "--steps", "30", "--only", ",".join(names))
    assert code == 0, wrong
    runs = json.loads((tmp_path / "runs.json").read_text())
    assert list(runs) == names and (tmp_path / "losses.svg").read_text().startswith("<?xml")
    theirs, ours, narrow, muon = runs.values()
    assert ours["losses"][:10] == pytest.approx(theirs["losses"][:10], abs=1e-3)
    assert all(one["held_out"] < 0.8 * one["losses"][0] for one in runs.values())
    params = ours["parameters"]
    assert ours["states_mb"] == pytest.approx(theirs["states_mb"], rel=1e-6) == pytest.approx(8 * params / 1e6, rel=1e-3)
    assert narrow["states_mb"] < 0.3 * ours["states_mb"] and muon["states_mb"] < 0.6 * ours["states_mb"]
    assert [line.split("  ")[0] for line in printed.splitlines()[2:6]] == names


def test_an_optimizer_that_there_is_not_is_named(tmp_path):
    code, _, wrong = run(tmp_path, "--only", "altgrad Adam")
    assert code == 2 and "no optimizer is called 'altgrad Adam'; there are torch AdamW fused; altgrad AdamW; " in wrong
