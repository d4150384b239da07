"""Lightning on two processes, by ModelParallelStrategy with FSDP2 and tensor parallelism and by DDPStrategy: as with torch's AdamW, and resumed."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

for package in ("sklearn", "lightning"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/packages.sh)")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("parallel") / "found.pt"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           Path(__file__).with_name("parallel_fit.py"), path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(path)


@pytest.mark.parametrize("way", ["FSDP2", "TP", "DDP"])
@pytest.mark.parametrize("name", ["AdamW", "DistAdamW"])
def test_a_fit_is_torchs(found, way, name):
    for ours, theirs in zip(found[way, name], found[way, "torch's AdamW"]):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["FSDP2", "TP", "DDP"])
@pytest.mark.parametrize("name", ["AdamW", "DistAdamW", "DistMuon"])
def test_a_resumed_fit_has_the_bits_of_one_that_goes_on(found, way, name):
    assert all(map(torch.equal, found[way, name, "resumed"], found[way, name]))
