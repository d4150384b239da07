"""accelerate's FSDP2, which puts DTensors into the groups of an optimizer that it is given: ours follow, and are saved whole."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

for package in ("sklearn", "accelerate"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/packages.sh)")

import accelerated  # noqa: E402
import digits  # noqa: E402

import altgrad  # noqa: E402


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    path = tmp_path_factory.mktemp("accelerated") / "found.pt"
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           Path(accelerated.__file__), path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(path)


@pytest.mark.parametrize("name", ["AdamW", "DistAdamW"])
def test_a_fit_is_torchs(found, name):
    assert found[name][0] == pytest.approx(found["torch's AdamW"][0], rel=1e-5)
    assert found[name][0][-1] < 0.9 * found[name][0][0], "nothing is trained"
    for ours, theirs in zip(found[name][1], found["torch's AdamW"][1]):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_muon_is_that_of_one_process(found):
    net = digits.network()
    optimizer = accelerated.muon(altgrad.optim.Muon)(net)
    for batch in accelerated.batches(0, 1):
        digits.loss_of(net, batch).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
    for ours, alone in zip(found["DistMuon"][1], net.parameters()):
        torch.testing.assert_close(ours, alone.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["SHARDED_STATE_DICT", "FULL_STATE_DICT"])
@pytest.mark.parametrize("name", ["DistAdamW", "DistMuon"])
def test_a_resumed_fit_has_the_bits_of_one_that_goes_on(found, name, kind):
    half = accelerated.STEPS // 2
    assert found[name, kind][0] == found[name][0][half:]
    assert all(map(torch.equal, found[name, kind][1], found[name][1]))
