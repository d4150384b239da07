"""LibTorch's optimizers on the GPU: the test that was built where the compiler is, if it starts beside this torch."""

import json
import os
import pathlib
import subprocess

import torch

import gpu as gpus
from gpu import ROOT, Skipped

TEST = ROOT / "build" / "bin" / "altgrad_libtorch_test"
PACKED = ROOT / "build" / "device" / "packed.json"


def libtorch_cases(bundles, device):
    """DeviceTest of tests/libtorch: the same bytes as on the CPU."""
    gpu = gpus.find(device)
    if not TEST.exists():
        raise Skipped(f"no {TEST.name}: it was not built where this was packed")
    built = json.loads(PACKED.read_text())["torch"] if PACKED.exists() else torch.__version__
    if built.split("+")[0] != torch.__version__.split("+")[0]:
        raise Skipped(f"{TEST.name} was built for torch {built}; here is {torch.__version__}")
    folders = [ROOT / "build" / "lib", pathlib.Path(torch.__file__).parent / "lib"]
    found = ":".join([*map(str, folders), *os.environ.get("LD_LIBRARY_PATH", "").split(":")]).rstrip(":")
    done = subprocess.run([TEST, "--gtest_filter=DeviceTest.*"], capture_output=True, text=True, timeout=gpus.patience(device),
                          env=os.environ | {"LD_LIBRARY_PATH": found, "ALTGRAD_TEST_ON": str(gpu.device)})
    if done.returncode == 127 or "symbol lookup error" in done.stderr:
        raise Skipped(f"{TEST.name} does not start here: {done.stderr.strip()[:300]}")
    lines = done.stdout.splitlines()
    if done.returncode:
        wrong = [line for line in lines if "Failure" in line or "FAILED" in line]
        print(done.stdout[-3000:], done.stderr[-1000:], flush=True)
        raise AssertionError(f"status {done.returncode}: {(wrong or lines[-1:] or [''])[0]}")
    return next((line.strip("[ ]PASSED.") for line in lines if "PASSED" in line), "nothing ran") + " passed"


CHECKS = [libtorch_cases]
