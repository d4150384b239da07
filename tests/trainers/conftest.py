"""One thread, a folder of its own, and none of the Trainer's advice."""

import pytest
import torch


def pytest_configure(config):
    for words in (".*does not have many workers", ".*many `num_workers`", ".*callbacks used to create the checkpoint",
                  "`training_step` returned `None`", ".*LeafSpec"):
        config.addinivalue_line("filterwarnings", f"ignore:{words}")


@pytest.fixture(autouse=True)
def reproducible(tmp_path, monkeypatch):
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)
