"""One thread, a fixed seed, and the package of this checkout when no other was chosen."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

if importlib.util.find_spec("altgrad") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "runtime" / "python"))

if "ALTGRAD_STANDS_FOR_CUDA" in os.environ:  # here, and in what the tests start
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "standin"))
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])
    import sitecustomize  # noqa: F401

torch = pytest.importorskip("torch")

if "ALTGRAD_UNDER" in os.environ:  # altgrad's code runs under these of torch's settings
    import modes
    modes.install(os.environ["ALTGRAD_UNDER"])


def settings():
    return (torch.get_default_dtype(), torch._C._len_torch_function_stack(), torch.is_grad_enabled(),
            torch.are_deterministic_algorithms_enabled(), torch.get_float32_matmul_precision())


@pytest.fixture(autouse=True)
def reproducible():
    """A test that leaves other settings of torch fails, and not those behind it."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    before = settings()
    yield
    assert settings() == before, "the test leaves torch's global settings changed; set_default_device('cpu') is one, too: None is not"
