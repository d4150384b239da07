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


@pytest.fixture(autouse=True)
def reproducible():
    torch.set_num_threads(1)
    torch.manual_seed(0)
