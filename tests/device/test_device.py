"""The device checks under pytest: packing and the host half everywhere, the rest where there is a GPU."""

import pathlib
import subprocess
import sys
import tarfile

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(pathlib.Path(__file__).parent), str(ROOT / "runtime" / "python")]

import device_check  # noqa: E402

if not device_check.COMPILER.exists() or not device_check.LIBRARY.exists():
    pytest.skip("not built: tools/build.sh", allow_module_level=True)


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    return device_check.pack(tmp_path_factory.mktemp("device") / "altgrad-device.tar.gz")


def test_archive_is_small_and_whole(archive):
    assert archive.stat().st_size < 64 << 20
    with tarfile.open(archive) as packed:
        names = packed.getnames()
    for needed in ("build/lib/libaltgrad.so", "tools/device_check.sh", "tests/device/checks.py",
                   "build/device/bundles/adamw.so", "build/device/forms/index.json",
                   "runtime/python/altgrad/__init__.py"):
        assert f"altgrad-device/{needed}" in names


def test_host_half_runs_from_the_archive(archive, tmp_path):
    """Both host levels agree byte for byte, by the code that will compare a GPU with the host."""
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    done = subprocess.run([sys.executable, "tools/device_check.py", "run", "--device", "cpu:v4"],
                          cwd=tmp_path / "altgrad-device", capture_output=True, text=True)
    if "is not x86-64-v4" in done.stdout:
        pytest.skip("this CPU is not x86-64-v4")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout


def test_says_why_not(archive):
    """Without a GPU: words and a status of its own."""
    if not device_check.why_not("cuda:0"):
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, ROOT / "tools" / "device_check.py", "run"], capture_output=True, text=True)
    assert done.returncode == device_check.NOT_RUN
    assert "not run on a GPU: " in done.stdout


def test_on_a_gpu(archive, tmp_path):
    why = device_check.why_not("cuda:0")
    if why:
        pytest.skip(f"not run on a GPU: {why}")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    done = subprocess.run([sys.executable, "tools/device_check.py", "run", "--no-bench"],
                          cwd=tmp_path / "altgrad-device", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
