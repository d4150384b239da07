"""The device checks under pytest: packing and the host half everywhere, the rest where there is a GPU."""

import json
import os
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
    return device_check.pack(tmp_path_factory.mktemp("device") / "altgrad-device.tar.xz")


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


def has_gpu():
    import torch
    return torch.cuda.is_available()


def test_says_why_not(archive, tmp_path):
    """Without a GPU: words and a status of its own."""
    if has_gpu():
        pytest.skip("there is a GPU")
    done = subprocess.run([sys.executable, ROOT / "tools" / "device_check.py", "run", "--json", tmp_path / "report.json"],
                          capture_output=True, text=True)
    assert done.returncode == device_check.NOT_RUN
    assert "not run on a GPU: " in done.stdout


@pytest.fixture
def test_driver(monkeypatch):
    """The torch device of tests/devices on the test driver; the name of it."""
    if "ALTGRAD_TEST_DEVICE" not in os.environ or "ALTGRAD_FAKE_CUDA" not in os.environ:
        pytest.skip("needs the test driver (ctest -R pytest-device)")
    for name, value in (("LD_LIBRARY_PATH", os.environ["ALTGRAD_FAKE_CUDA"]), ("FAKE_CUDA_EAGER", "1"),
                        ("FAKE_CUDA_HOST", "1"), ("FAKE_CUDA_DEVICES", "2"), ("PYTHONWARNINGS", "ignore")):
        monkeypatch.setenv(name, value)
    return "privateuseone:0"


def test_all_of_it_from_the_archive_on_the_test_driver(archive, tmp_path, test_driver):
    """Every check, the start-up and the curve, so that the first run on a GPU is not the first run."""
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    done = subprocess.run([sys.executable, "tools/device_check.py", "run", "--device", test_driver,
                           "--minutes", "60", "--json", tmp_path / "report.json"],
                          cwd=tmp_path / "altgrad-device", capture_output=True, text=True)
    report = json.loads((tmp_path / "report.json").read_text()) if done.returncode == 1 else {"checks": []}
    failed = [row for row in report["checks"] if row[1] not in ("passed", "skipped")]
    assert done.returncode == 0, str(failed) + done.stdout[-3000:] + done.stderr[-3000:]
    report = json.loads((tmp_path / "report.json").read_text())
    skipped = {name for name, verdict, *_ in report["checks"] if verdict != "passed"}
    assert skipped <= {"several_streams", "graph_replay", "above_two_billion", "opcode_forms", "libtorch_cases",
                       "group_of_one", "own_products", "own_product_times"}
    assert ", own products " in next(words for name, _, words, *_ in report["checks"] if name == "muon_times")
    assert len(report["checks"]) > 35 and len(report["startup"]["rows"]) == 4
    facts = report["facts"]
    assert {"copy_tb_s", "launch_us", "first_launch_us", "overlapped_launch_us", "graph_launch_us", "memory_ns", "cache_ns",
            "jit_ms", "load_cubin_ms", "machine"} <= set(facts)
    assert [row[0] for row in report["checks"]][0] == "facts" and report["checks"][-1][0] == "curve-compiled"
    curve = report["curve"]
    assert len(curve["points"]) == 16 and len(curve["kernels"]) == 12 and not curve["not_measured"]
    for point in curve["points"]:
        assert not point["left_out"]
        assert {"copy", "altgrad", "altgrad, graph", "altgrad, new rates", "altgrad, unaligned", "altgrad, in turn", "torch fused",
                "torch foreach"} <= set(point["candidates"])
    assert all(entry["launches"] for entry in curve["kernels"])
    assert sum("torch compile" in point["candidates"] for point in curve["points"]) == 4


def test_a_difference_and_a_wait_are_noticed(test_driver, tmp_path):
    """One bit of a parameter; a tensor that is read while nobody may wait."""
    script = """
import torch, gpu, pairs
device = gpu.find("privateuseone:0")
pair = pairs.Pair(device, lambda ps: torch.optim.SGD(ps), [(7,), (5, 3)])
pair.same()
def spoil():
    pair.params[1][1].data.view(-1)[4].mul_(1.0000001)
    pair.same("spoilt,")
def wait():
    with device.no_waiting():
        pair.params[1][0].sum().item()
print(pairs.every([("none", pair.same)]))
for case in spoil, wait:
    try:
        pairs.every([(case.__name__, case)])
    except AssertionError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(device_check.PATHS)})
    first, second, third = [line for line in done.stdout.splitlines() if not line.startswith("    ")]
    assert first == "1 cases"
    assert "spoil: AssertionError: spoilt, parameter 1: 1 of 60 bytes differ, element 4 is" in second
    assert third == "1 of 1 cases: wait: AssertionError: a tensor of the device was read"


def test_on_a_gpu(archive, tmp_path):
    if not has_gpu():
        pytest.skip("not run on a GPU: torch finds no CUDA device")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    done = subprocess.run([sys.executable, "tools/device_check.py", "run", "--no-bench"],
                          cwd=tmp_path / "altgrad-device", capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
