"""Trainers that save on rank 0 alone, with torch's AdamW and with DistAdamW: what they save is whole."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.mark.parametrize("which", ["lightning", "transformers"])
def test_a_fit_is_torchs_and_resumes_with_its_bits(which, tmp_path):
    for package in ("sklearn", "accelerate", which):
        pytest.importorskip(package, reason=f"{package} is not installed (tools/packages.sh)")
    found = tmp_path / "found.pt"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           Path(__file__).with_name("saving_fits.py"), which, found], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    theirs, ours = torch.load(found)
    for its, whole, resumed in zip(theirs["whole"], ours["whole"], ours["resumed"]):
        torch.testing.assert_close(whole, its, rtol=1e-5, atol=1e-6)
        assert torch.equal(resumed, whole)
    assert "so that they travel twice" in done.stderr and "what is saved here" not in done.stderr
