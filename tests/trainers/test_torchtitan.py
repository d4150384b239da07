"""torchtitan's container, schedules, clip and checkpoint manager under FSDP2: as with torch's class, and on another number of
ranks from its checkpoint."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

for package in ("sklearn", "torchtitan", "spmd_types", "torchdata", "einops", "tyro"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/trainers.sh)")

NAMES = "AdamW", "DistAdamW", "Muon", "AdamW8bit"


def run(folder, ranks, first):
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks),
                           Path(__file__).with_name("titan_fit.py"), folder, str(first)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return torch.load(folder / f"{ranks}.pt")


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """(what a fit of two ranks found, what the same found that three ranks ended)."""
    folder = tmp_path_factory.mktemp("titan")
    return run(folder, 2, 0), run(folder, 3, 4)


@pytest.mark.parametrize("name", ["AdamW", "DistAdamW"])
def test_a_fit_is_torchs(found, name):
    for ours, theirs in zip(found[0][name], found[0]["torch's AdamW"]):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_another_number_of_ranks_ends_the_fit(found, name):
    """Its averages of gradients are rounded otherwise; Muon's products are in bfloat16."""
    near = dict(rtol=1e-2, atol=2e-3) if name == "Muon" else dict(rtol=1e-3, atol=1e-4)
    for whole, resumed in zip(*[of[name] for of in found]):
        torch.testing.assert_close(resumed, whole, **near)
