"""Every example runs as a program and learns the digits."""

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
NEEDS = {"plain_loop": [], "with_lightning": ["lightning"], "with_trainer": ["transformers", "accelerate"],
         "with_factory": ["transformers", "accelerate"], "with_accelerate": ["accelerate"]}


def skip_without(*packages):
    missing = [package for package in ("sklearn", *packages) if not importlib.util.find_spec(package)]
    if missing:
        pytest.skip(f"{', '.join(missing)} not installed (tools/packages.sh)")


def check(words):
    assert float(words.split("accuracy ")[1]) > 0.9, words


@pytest.mark.parametrize("name", NEEDS)
def test_the_example_learns_as_a_program(name, tmp_path):
    skip_without(*NEEDS[name])
    done = subprocess.run([sys.executable, HERE / f"{name}.py"], cwd=tmp_path, text=True, capture_output=True, env={
        **os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"})
    assert done.returncode == 0, done.stderr
    check(done.stdout)


@pytest.mark.parametrize("precision", ["fp16", "fp32"])
@pytest.mark.parametrize("name", ["plain_loop", "with_lightning"])
def test_the_example_learns_in_the_precision_that_is_asked_for(name, precision, capsys):
    skip_without(*NEEDS[name])
    importlib.import_module(name).main(precision)
    check(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["with_trainer", "with_accelerate"])
def test_float16_on_a_cpu_is_not_taken_for_float32(name):
    """Accelerate does; once it does not, the examples' check can go."""
    skip_without(*NEEDS[name])
    from accelerate.state import AcceleratorState
    AcceleratorState._reset_state(True)
    with pytest.raises(SystemExit, match="Accelerate has no 16-mixed on the cpu"):
        importlib.import_module(name).main("fp16")
