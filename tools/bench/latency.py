"""Compile latency: a fresh process from the text of a rule to PTX and to host code."""

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
    # The first of each reads the compiler from disk.
    return {case: {"ms": statistics.median(t[1:]), "best": min(t[1:])} for case, t in times.items()}
