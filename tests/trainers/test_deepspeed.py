"""DeepSpeed's engine, without ZeRO and with its three stages, and an optimizer of the client's: as with torch's AdamW."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

for package in ("sklearn", "deepspeed"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/trainers.sh)")

STAGES = 0, 1, 2, 3


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("deepspeed") / "found.pt"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           Path(__file__).with_name("deepspeed_fit.py"), path], capture_output=True, text=True,
                          env={**os.environ, "DS_ACCELERATOR": "cpu"})
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(path)


@pytest.mark.parametrize("stage", STAGES)
def test_a_fit_is_torchs(found, stage):
    for ours, theirs in zip(found["AdamW", stage], found["torch's AdamW", stage]):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("name", ["AdamW", "AdamW8bit"])
def test_a_resumed_fit_has_the_bits_of_one_that_goes_on(found, name, stage):
    assert all(map(torch.equal, found[name, stage, "resumed"], found[name, stage]))
