"""transformers' Trainer with PEFT's LoRA under accelerate's FSDP2: adapters are trained as by torch's AdamW, and resumed."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

for package in ("transformers", "accelerate", "peft"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/trainers.sh)")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("peft") / "found.pt"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           Path(__file__).with_name("peft_fit.py"), path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(path)


@pytest.mark.parametrize("name", ["AdamW", "DistAdamW"])
def test_a_fit_is_torchs(found, name):
    assert found[name][0] == pytest.approx(found["torch's AdamW"][0], rel=1e-4)
    for ours, theirs in zip(found[name][1], found["torch's AdamW"][1]):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["AdamW", "DistAdamW", "AdamW8bit", "Muon"])
def test_a_resumed_fit_has_the_bits_of_one_that_goes_on(found, name):
    whole, resumed = found[name], found[name, "resumed"]
    assert resumed[0][-1] == whole[0][-1] and all(map(torch.equal, resumed[1], whole[1]))
