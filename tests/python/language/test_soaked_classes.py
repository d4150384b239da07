"""What tools/soak.sh classes says of a class, and the guide's table of all."""

import sys
from pathlib import Path

import pytest
import torch
import torchclasses

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "soak"))
import classes  # noqa: E402


class Off(torchclasses.FirstStep):
    """Says another rate to proxies than to tensors."""

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.sub_(p.grad, alpha=0.1 if type(p) is torch.nn.Parameter else 0.2)


def test_an_outcome_is_found_by_comparing():
    assert classes.outcome(torchclasses.FirstStep)[0] in ("same bits", "exact")
    assert classes.outcome(Off)[0] == "WRONG"
    word, why = classes.outcome(torch.optim.Muon)
    assert word == "not" and why.startswith("bfloat16() in the code of a step") and "(torch/optim/_muon.py:" in why


def test_the_guide_has_every_class_once():
    page = classes.GUIDE.read_text()
    rows = [row.split("|")[1:3] for row in page[page.index(classes.MARK[0]):page.index(classes.MARK[1])].splitlines() if row.startswith("| ")]
    names = [name.strip() for title, cells in rows[1:] for name in cells.split(",")]
    assert len(names) == len(set(names)) >= 130 and [title.strip() for title, _ in rows[1:3]] == ["same bits", "close"]
    found = {"A": ("exact", ""), "B": ("not", "torch.eye: a rule has no such tensor"), "C": ("not", "TypeError: closure")}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classes, "version", lambda _: "1.0")
        lines = classes.table(found).splitlines()
    assert lines[0] == "Rules are 1 of 3 classes of version 1.0." and lines[5] == "| close | A |"
    assert [line.split("|")[2].strip() for line in lines[6:]] == ["B", "C"]


@pytest.mark.parametrize("name", ["AdaBelief", "Lion", "ScheduleFreeSGD"])
def test_classes_of_the_package_have_its_bits(name):
    package = pytest.importorskip("pytorch_optimizer", reason="pytorch_optimizer is not installed")
    assert classes.outcome(getattr(package, name))[0] == "same bits"
