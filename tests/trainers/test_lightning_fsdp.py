"""Lightning's FSDPStrategy on two processes: as with torch's AdamW, with a clip that Lightning itself refuses there."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

for package in ("sklearn", "lightning"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/packages.sh)")


def test_a_sharded_fit_is_torchs_and_resumes_with_its_bits(tmp_path):
    found = tmp_path / "found.pt"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           Path(__file__).with_name("sharded_fit.py"), found], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = torch.load(found)
    for ours, its, half, resumed in zip(found["ours"], found["torch's"], found["half"], found["resumed"]):
        torch.testing.assert_close(ours, its, rtol=1e-5, atol=1e-6)
        assert torch.equal(resumed, ours) and not torch.equal(half, ours)
