"""Loads the torch device of these tests; they run in ctest's entry pytest-devices."""

import os
import types

import pytest

torch = pytest.importorskip("torch")
KIND = "privateuseone"

if "ALTGRAD_TEST_DEVICE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
else:
    torch.ops.load_library(os.environ["ALTGRAD_TEST_DEVICE"])
    module = types.ModuleType(f"torch.{KIND}")
    module.is_available, module.device_count = (lambda: True), (lambda: 2)
    module._is_in_bad_fork, module._lazy_init = (lambda: False), (lambda: None)
    module.manual_seed_all = lambda seed: None
    module.current_device = torch.ops.altgrad_test_device.current_device
    torch._register_device_module(KIND, module)


@pytest.fixture(autouse=True)
def reproducible():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.ops.altgrad_test_device.take_notes()


@pytest.fixture
def notes():
    """What the device was asked since the last call."""
    return torch.ops.altgrad_test_device.take_notes
