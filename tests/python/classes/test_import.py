"""Importing the package leaves no thread, loads no library of ours and opens no driver."""

import os
import subprocess
import sys

import pytest

import altgrad

PROGRAM = """
import os, sys, time
tasks = lambda: len(os.listdir("/proc/self/task"))
mapped = lambda: open("/proc/self/maps").read()
import altgrad
assert "torch" not in sys.modules and "libaltgrad" not in mapped()
import torch
before = tasks()
import altgrad.amp, altgrad.optim
assert "lightning" not in sys.modules and not torch.cuda.is_initialized()
assert tasks() == before, (tasks(), before)
assert "libaltgrad" not in mapped() and "libcuda.so" not in mapped()
altgrad.optim.AdamW([torch.nn.Parameter(torch.ones(3))])
ends = time.monotonic() + 20
while tasks() != before and time.monotonic() < ends:  # the kernel lists a thread that is joined for a moment more
    time.sleep(0.01)
assert tasks() == before and "libcuda.so" not in mapped()
print(altgrad.runtime_version())
assert tasks() == before and "libcuda.so" not in mapped()
"""


def run(program, **environment):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          env=environment)


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="a driver is wanted there")
def test_import_is_quiet():
    done = run(PROGRAM)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"altgrad {altgrad.__version__}, ABI ")


@pytest.mark.parametrize("name", ["amp", "matrices", "ops", "optim", "clip_grad_norm_"])
def test_import_leaves_torchs_compiler_out(name):
    done = run(f"import sys, altgrad; from altgrad import {name}; print(sorted({{'torch._dynamo', 'sympy'}} & sys.modules.keys()))")
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_missing_library_says_where_it_was_sought():
    done = run("import altgrad; altgrad.runtime_version()", ALTGRAD_LIBRARY="/nowhere/lib.so")
    assert "altgrad.Error: libaltgrad.so not found at /nowhere/lib.so" in done.stderr
