"""Every line of `python -m altgrad doctor`, its advice and the exit status, under conditions that are brought about."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import altgrad
from altgrad import _cpu, _doctor, _probe
from altgrad._doctor import BAD, NOTE, OK

PACKAGE = Path(altgrad.__file__).resolve().parents[1]


def doctor(*path, program=("-m", "altgrad", "doctor"), **environment):
    """(exit status, what it printed) of a doctor with folders before the package on its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, path), str(PACKAGE)]),
                   **environment}
    done = subprocess.run([sys.executable, *program], env=environment, capture_output=True, text=True)
    assert not done.stderr
    return done.returncode, done.stdout


def shown(line):
    return f"{line.state} {line.name}: {line.words} -> {line.advice}"


V3 = "fpu avx avx2 bmi1 bmi2 f16c fma abm movbe"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"


@pytest.mark.parametrize("flags, machine, words", [
    (V4, "x86_64", "ok cpu: Old Faithful, x86-64-v4"),
    (V3, "x86_64", "ok cpu: Old Faithful, x86-64-v3"),
    (V3.replace("fma ", ""), "x86_64", "BAD cpu: Old Faithful has no fma -> altgrad's host code needs x86-64-v3"),
    (V3, "aarch64", "BAD cpu: aarch64 -> altgrad's host code is for x86-64")])
def test_the_level_of_the_cpu(flags, machine, words):
    text = f"processor : 0\nmodel name\t: Old Faithful\nflags\t\t: {flags}\n\n"
    assert shown(_doctor.cpu(_cpu.parse(text, machine))).startswith(words)


def test_a_copied_checkout_is_not_the_one_that_is_imported(tmp_path):
    for name in ("one", "copy"):
        (tmp_path / name / "tools").mkdir(parents=True)
        (tmp_path / name / "tools" / "quickstart.sh").touch()
    inside, own = tmp_path / "copy" / "tools", tmp_path / "one"
    line, = _doctor.checkout(inside, own)
    assert shown(line) == (f"note checkout: this is {tmp_path}/copy, and altgrad is imported from {own} -> to use this one remove its build "
                           f"and .venv, and run tools/quickstart.sh in {tmp_path}/copy")
    assert not _doctor.checkout(own / "tools", own) and not _doctor.checkout(tmp_path, own)
    assert not _doctor.checkout(inside, tmp_path / "site-packages")


STEPPED = dict(version="2.11.0+cu130", cuda="13.0", known=True, ms=3.0)


@pytest.mark.parametrize("found, state, words", [
    (STEPPED, OK, "ok torch: 2.11.0+cu130, for CUDA 13.0"),
    (STEPPED, OK, "ok torch's objects: libaltgrad_core.so reads them in memory"),
    (STEPPED, OK, "AdamW on the CPU, 3.0 ms, the first one"),
    ({**STEPPED, "cuda": None}, OK, "for CPUs only"),
    ({**STEPPED, "version": "2.9.1"}, NOTE, "note torch: 2.9.1, for CUDA 13.0 -> altgrad is tested with torch 2.10"),
    ({**STEPPED, "known": False}, NOTE, "note torch's objects: their layout is none that altgrad knows, or this Python has no GIL -> nothing to do: altgrad calls torch"),
    (dict(failed="No module named 'torch'"), BAD, "BAD torch: No module named 'torch' -> pip install torch"),
    (dict(failed="no answer within 120 s"), BAD, "BAD torch: no answer within 120 s -> the machine may be busy"),
    (dict(failed="ended by signal 11"), BAD, "-c 'import torch' may say more"),
    ({}, BAD, "BAD torch: the check ended without an answer"),
    (dict(version="2.11.0", failed="no bundle"), BAD, "BAD a step: no bundle")])
def test_torch_its_objects_and_a_step(found, state, words):
    line, = [line for line in _doctor.torch(found) if words in shown(line)]
    assert line.state == state


GPU = ["H100", 9, 0]
GOOD = dict(init=0, version=13000, gpus=[GPU])


@pytest.mark.parametrize("found, torch_cuda, words", [
    (dict(missing="no such file"), "13.0", "note driver: no NVIDIA driver (no such file) -> for parameters on a GPU install"),
    (dict(failed="ended by signal 11"), "13.0", "note driver: libcuda.so.1: ended by signal 11 -> nvidia-smi"),
    (dict(init=34), "13.0", "CUDA toolkit's stub, not a driver -> take the folder with the stub from LD_LIBRARY_PATH"),
    (dict(init=803), "13.0", "does not fit the driver in the kernel -> restart"),
    (dict(init=999), "13.0", "note driver: cuInit: error 999 -> nvidia-smi may say more; on the CPU altgrad works"),
    (dict(init=100), "13.0", "note driver: sees no GPU -> is one given to this container"),
    (dict(init=0, version=13000, gpus=[]), "13.0", "note driver: sees no GPU"),
    (dict(init=0, version=13000, failed="ended by signal 6"), "13.0", "note driver: ended by signal 6"),
    ({**GOOD, "version": 11020}, "11.2", "note driver: for CUDA 11.2 -> altgrad's kernels need one for CUDA 11.3"),
    ({**GOOD, "version": None}, "13.0", "note driver: for CUDA 0.0 ->"),
    (GOOD, None, "note driver: for CUDA 13.0, and this torch is for CPUs only -> install torch for CUDA"),
    ({**GOOD, "version": 12040}, "13.0", "note driver: for CUDA 12.4, and this torch is for CUDA 13.0 -> install a newer driver"),
    (GOOD, "13.0", "ok driver: for CUDA 13.0"),
    (GOOD, "", "ok driver: for CUDA 13.0"),
    (GOOD, "13.0", "ok cuda:0: H100, capability 9.0: code for sm_90"),
    ({**GOOD, "gpus": [GPU, ["L40", 8, 9]]}, "13.0", "ok cuda:1: L40, capability 8.9: code for sm_80"),
    ({**GOOD, "gpus": [["B200", 10, 0]]}, "13.0", "ok cuda:0: B200, capability 10.0: code for sm_90"),
    ({**GOOD, "gpus": [["T4", 7, 5]]}, "13.0", "note cuda:0: T4, capability 7.5 -> altgrad's kernels are for capability 8.0"),
    ({**GOOD, "gpus": [["?", None, 0]]}, "13.0", "note cuda:0: ? does not say its capability")])
def test_the_driver_and_its_gpus(found, torch_cuda, words):
    said = [shown(line) for line in _doctor.driver(found, {}, torch_cuda)]
    assert any(words in line for line in said), said
    assert not any(line.startswith(BAD) for line in said), "the CPU works without"


@pytest.mark.parametrize("found, torch_cuda, words", [
    (GOOD, "13.0", "ok precision: bfloat16: cuda:0 (H100) has capability 9.0"),
    ({**GOOD, "gpus": [GPU, ["T4", 7, 5]]}, "13.0",
     "ok precision: float16: cuda:1 (T4) has capability 7.5, and bfloat16 needs 8.0 (the weakest of 2 devices)"),
    ({**GOOD, "gpus": [["?", None, None]]}, "13.0", "float32: cuda:0 (?) has capability 0.0"),
    (GOOD, None, "bfloat16: cpu (Old Faithful) has amx_bf16"),
    (GOOD, "", "bfloat16: cpu"),
    ({**GOOD, "version": 12040}, "13.0", "bfloat16: cpu"),
    ({**GOOD, "failed": "ended by signal 6"}, "13.0", "bfloat16: cpu"),
    (dict(missing="no such file"), "13.0", "bfloat16: cpu")])
def test_the_precision_that_would_be_chosen(found, torch_cuda, words):
    cpu = _cpu.Cpu("Old Faithful", "x86_64", frozenset(["amx_bf16"]))
    assert words in shown(_doctor.precision(cpu, found, torch_cuda))


def test_hidden_gpus_are_named():
    line, = _doctor.driver(dict(init=100), {"CUDA_VISIBLE_DEVICES": ""}, "13.0")
    assert shown(line) == "note driver: sees no GPU -> CUDA_VISIBLE_DEVICES is '': unset it"


@pytest.mark.parametrize("spoil, words", [
    (lambda f: f.write_text(""), "is not a folder"),
    (lambda f: f.symlink_to("/tmp"), "is a symbolic link"),
    (lambda f: (f.mkdir(), f.chmod(0o777)), "can be written by other users"),
    (lambda f: f.mkdir(), "2 entries, 1.5 MiB")])
def test_the_cache(tmp_path, spoil, words):
    folder = tmp_path / "cache"
    assert shown(_doctor.cache({"ALTGRAD_CACHE_DIR": str(folder)})).startswith(f"ok cache: {folder}, 0 entries")
    assert not folder.exists()
    spoil(folder)
    if folder.is_dir():
        for name, size in (("a.bundle", 2**20), ("b.bundle", 2**19), ("other", 9)):
            (folder / name).write_bytes(bytes(size))
    line = _doctor.cache({"ALTGRAD_CACHE_DIR": str(folder)})
    assert words in line.words
    assert line.state == OK or "set ALTGRAD_CACHE_DIR" in line.advice


def test_an_entry_that_goes_meanwhile_is_not_counted(tmp_path):
    (tmp_path / "here.bundle").write_bytes(bytes(2**20))
    (tmp_path / "gone.bundle").symlink_to(tmp_path / "nowhere")
    assert "1 entries, 1.0 MiB" in _doctor.cache({"ALTGRAD_CACHE_DIR": str(tmp_path)}).words


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    within = {"XDG_CACHE_HOME": str(tmp_path)}
    assert "is read-only -> rules of your own" in shown(_doctor.cache(within))
    (tmp_path / "altgrad").mkdir()
    assert f"{tmp_path}/altgrad cannot be written" in _doctor.cache(within).words
    monkeypatch.setattr(os, "geteuid", lambda: 1234567)
    assert "belongs to another user" in _doctor.cache(within).words
    assert "is no folder" in _doctor.cache({"ALTGRAD_CACHE_DIR": "/dev/null/x/y"}).words
    assert "cache is a relative path" in _doctor.cache({"ALTGRAD_CACHE_DIR": "my/cache"}).words
    assert "neither ALTGRAD_CACHE_DIR nor HOME" in _doctor.cache({"HOME": "relative"}).words


def test_the_compiler(tmp_path, monkeypatch):
    program = tmp_path / "altgrad-opt"
    given = {"ALTGRAD_OPT": str(program)}
    assert "does not start" in _doctor.compiler(given).words
    for script, words in (("echo altgrad-opt 9; echo more", f"ok compiler: altgrad-opt 9, {program}"),
                          ("echo no GLIBC >&2; exit 1", "does not start: no GLIBC -> stock optimizers"),
                          ("kill -9 $$", "does not start: ended by signal 9 (Killed)")):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert words in shown(_doctor.compiler(given))
    assert "ALTGRAD_OPT names this one, unset it" in _doctor.compiler(given).advice
    monkeypatch.setattr(_doctor._library, "find_compiler", lambda: None)
    monkeypatch.setenv("PATH", "/nowhere")
    assert shown(_doctor.compiler({})).startswith("note compiler: altgrad-opt is neither in the package")


def test_stock_bundles(tmp_path, monkeypatch):
    (tmp_path / "lib").mkdir()
    monkeypatch.setattr(_doctor._library, "find_library", lambda: tmp_path / "lib" / "libaltgrad.so")
    assert "none of them compiled ahead -> the first step" in shown(_doctor.bundles())
    (tmp_path / "bundles").mkdir(0o755)
    (tmp_path / "bundles" / "x.bundle").touch(0o644)
    assert "1 bundles of them compiled ahead" in shown(_doctor.bundles())
    for path in (tmp_path / "bundles" / "x.bundle", tmp_path / "bundles"):
        path.chmod(0o775)
        assert f"{path} can be written by a group or by others, so it is passed over -> chmod -R go-w" in shown(_doctor.bundles())
        path.chmod(0o755)


def test_a_check_that_fails_is_a_line():
    def surprise():
        raise MemoryError("much")

    line, = _doctor._guard(surprise)
    assert shown(line) == "note surprise: the check failed: MemoryError('much') -> please report this message"


def test_a_question_without_an_answer(monkeypatch):
    monkeypatch.setattr(_probe, "SECONDS", 0.2)
    assert _probe.ask("import time; time.sleep(60)") == {"failed": "no answer within 0.2 s"}
    assert "timed out" in _probe.run("/bin/sleep", "60")[1]
    monkeypatch.setattr(sys, "executable", "")
    assert "does not know its own program" in _probe.ask("")["failed"]


def test_here_and_with_every_gpu_hidden():
    status, text = doctor(CUDA_VISIBLE_DEVICES="")
    assert status == 0 and text.endswith("altgrad works here\n"), text
    assert "CUDA_VISIBLE_DEVICES=''" in text and "  ok    a step " in text


@pytest.fixture
def no_torch(tmp_path):
    """A folder in which torch is a file that does not import; quickly."""
    (tmp_path / "torch.py").write_text("raise ImportError('no torch')")
    return tmp_path


def test_without_torch_and_with_one_that_crashes(no_torch):
    status, text = doctor(no_torch)
    assert status == 1 and "BAD   torch          ImportError: no torch" in text
    (no_torch / "torch.py").write_text("import os; os.kill(os.getpid(), 9)")
    status, text = doctor(no_torch)
    assert status == 1 and "BAD   torch          ended by signal 9" in text
    assert text.endswith("does not work here: torch\n"), text


def test_under_a_program_that_ignores_its_children(no_torch):
    (no_torch / "torch.py").write_text("import os; os.kill(os.getpid(), 9)")
    done = subprocess.run(["env", "--ignore-signal=CHLD", sys.executable, "-m", "altgrad", "doctor"],
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": f"{no_torch}:{PACKAGE}"})
    assert done.returncode == 1 and "BAD   torch          ended by signal 9" in done.stdout, done.stdout


def test_words_that_cannot_be_written(no_torch):
    (no_torch / "torch.py").write_text("raise ImportError('t\xf6rch')", encoding="utf-8")
    _, text = doctor(no_torch, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert r"ImportError: t\xf6rch" in text
    command = f"exec {sys.executable} -m altgrad doctor >/dev/full"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env={
        **os.environ, "PYTHONPATH": f"{no_torch}:{PACKAGE}"})
    assert done.returncode == 1
    assert done.stderr == "the report cannot be written: [Errno 28] No space left on device\n"


def test_without_the_runtime(no_torch):
    status, text = doctor(no_torch, ALTGRAD_LIBRARY="/nowhere/libaltgrad.so")
    assert status == 1 and "BAD   runtime        libaltgrad.so not found at /nowhere" in text
    assert text.endswith("does not work here: runtime, torch, stock rules\n")


def test_other_words_are_the_usage():
    done = subprocess.run([sys.executable, "-m", "altgrad", "nurse"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 2 and done.stderr.startswith("usage: python -m altgrad doctor")


FAKE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int owner;
int cuInit(unsigned f) { if (!owner) owner = getpid(); return getpid() == owner ? 0 : 3; }
int cuDriverGetVersion(int *v) { *v = 12080; return 0; }
int cuDeviceGetCount(int *n) { *n = 2; if (getenv("FAKE_DIES")) abort(); return 0; }
int cuDeviceGet(int *d, int i) { *d = i; return 0; }
int cuDeviceGetName(char *p, int n, int d) { strcpy(p, d ? "A100 \\"MIG\\"" : "H100"); return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = a == 75 ? 9 - d : 0; return 0; }
"""


@pytest.fixture
def fake_driver(tmp_path):
    """A folder with a libcuda.so.1 that shows two GPUs, and refuses a forked child."""
    compiler = shutil.which(os.environ.get("CXX", "cc")) or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler for a fake driver")
    (tmp_path / "fake.c").write_text(FAKE)
    subprocess.run([compiler, "-x", "c", "-shared", "-fPIC", "-o", tmp_path / "libcuda.so.1",
                    tmp_path / "fake.c"], check=True)
    return tmp_path


def test_gpus_of_a_driver_and_one_that_dies(fake_driver, no_torch):
    _, text = doctor(no_torch, LD_LIBRARY_PATH=str(fake_driver))
    assert "for CUDA 12.8" in text, text
    assert "cuda:0         H100, capability 9.0: code for sm_90" in text
    assert 'cuda:1         A100 "MIG", capability 8.0: code for sm_80' in text
    _, text = doctor(no_torch, LD_LIBRARY_PATH=str(fake_driver), FAKE_DIES="1")
    assert "note  driver         ended by signal 6" in text


def test_in_a_child_of_a_process_that_uses_cuda(fake_driver, no_torch):
    """CUDA does not survive fork: the doctor asks in fresh processes."""
    program = """
import ctypes, os, sys
cuda = ctypes.CDLL("libcuda.so.1")
assert cuda.cuInit(0) == 0
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert cuda.cuInit(0) == 3
from altgrad import _doctor
status = _doctor.main()
sys.stdout.flush()
os._exit(status)
"""
    status, text = doctor(no_torch, program=("-c", program), LD_LIBRARY_PATH=str(fake_driver))
    assert status == 1 and "cuda:1" in text and text.endswith("does not work here: torch\n")


def test_the_command_line_says_its_version_and_its_usage():
    status, printed = doctor(program=("-m", "altgrad", "--version"))
    assert (status, printed) == (0, f"altgrad {altgrad.__version__}\n")
    done = subprocess.run([sys.executable, "-m", "altgrad", "docter"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE)})
    assert done.returncode == 2 and "usage: python -m altgrad doctor" in done.stderr
