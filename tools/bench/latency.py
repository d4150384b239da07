"""Compile latency: a fresh process from the text of a rule to PTX and to host code; and loading a bundle."""

import ctypes
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time

from . import program

CASES = {"spec -> PTX": ("--target=sm_90", "--emit=ptx"),
         "spec -> host code": ("--target=x86-64-v4", "--emit=bundle"),
         "process that does nothing": ("--version",)}
AIMS = {"spec -> PTX": 60, "spec -> host code": 100}


def children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


CLOCKS = {"wall": time.perf_counter, "cpu": children}


def measure(count, clock):
    """case -> {"ms": median, "best": fastest} over `count` processes, the cases in turn."""
    now = CLOCKS[clock]
    times = {case: [] for case in CASES}
    rule = ("--rule=adamw", f"--rule-path={program.ROOT / 'templates'}")
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(count + 1):
            for case, options in CASES.items():
                command = [program.compiler(), *(rule if "emit" in options[-1] else ()), *options]
                if "emit" in options[-1]:
                    command += ["-o", f"{folder}/out"]
                start = now()
                subprocess.run([str(c) for c in command], check=True, capture_output=True)
                times[case].append((now() - start) * 1e3)
        times.update(loading(f"{folder}/out", count))
    # The first of each reads the compiler from disk.
    return {case: {"ms": statistics.median(t[1:]), "best": min(t[1:])} for case, t in times.items()}


def loading(path, count):
    """case -> times of altgrad_load in ms, and of one with another digest, which is refused once all is read and hashed."""
    program.compile_bundle(path, "adamw", targets="x86-64-v3,x86-64-v4,sm_80,sm_90")
    whole = pathlib.Path(path).read_bytes()
    pathlib.Path(f"{path}.damaged").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    lib, handle = program.library(), ctypes.c_void_p()
    times = {f"load {len(whole) >> 10} KiB": [], "of that, read and hash": []}
    for _ in range(count + 1):
        for case, name in zip(times, (path, f"{path}.damaged")):
            start = time.perf_counter()
            status = lib.altgrad_load(os.fsencode(name), ctypes.byref(handle))
            times[case].append((time.perf_counter() - start) * 1e3)
            assert (status == 0) == (name == path), lib.altgrad_last_error()
            if status == 0:
                lib.altgrad_bundle_free(handle)
    return times
