"""A GPU day's parts are processes: what one of them breaks is its own, the report grows, and a run goes on where another ended."""

import ast
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(HERE), str(ROOT / "runtime" / "python")]

import device_check  # noqa: E402
import parts  # noqa: E402


def test_whatever_ends_a_part_is_words_of_that_part():
    def partly(keep):
        keep({"copy_tb_s": 3.0})
        ctypes.string_at(0)

    def hangs(keep):
        subprocess.Popen(["sleep", "600"])
        time.sleep(600)
    assert parts.run(partly, 60) == ("FAILED", "its process ended with SIGSEGV", {"copy_tb_s": 3.0})
    assert parts.run(hangs, 1) == ("FAILED", "still running after 1 s", None)
    assert parts.run(lambda keep: os._exit(3), 60) == ("FAILED", "its process ended with status 3", None)
    assert parts.run(lambda keep: 1 // 0, 60)[:2] == ("FAILED", "ZeroDivisionError: integer division or modulo by zero")
    assert parts.run(lambda keep: {"rows": [1]}, 60) == ("passed", "", {"rows": [1]})
    assert parts.run(lambda keep: "7 cases", 60) == ("passed", "7 cases", None)


PLANTED = """
import ctypes
from gpu import Skipped
def first(bundles, device): return "fine"
def second(bundles, device): ctypes.string_at(0)
def third(bundles, device): raise Skipped("not here")
def fourth(bundles, device): return f"{len(bundles)} bundles"
CHECKS = [first, second, third, fourth]
"""


def planted(folder, *words, checks=PLANTED):
    """A day whose checks are planted, for the host."""
    (folder / "planted.py").write_text(checks)
    code = f"""
import sys; sys.path[:0] = {[str(folder), *device_check.PATHS]!r}
import device_check, day
day.MODULES = ["planted"]
device_check.prepare = lambda: {{"adamw": "adamw.so"}}
sys.argv = ["device_check.py", "run", "--device", "cpu:v3", "--json", {str(folder / "report.json")!r}, *{list(words)!r}]
sys.exit(device_check.main())
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True)
    return done, json.loads((folder / "report.json").read_text())["checks"]


def test_one_crash_leaves_the_other_checks_alone_and_a_resumed_run_asks_for_it_alone(tmp_path):
    done, rows = planted(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [row[:3] for row in rows] == [["first", "passed", "fine"], ["second", "FAILED", "its process ended with SIGSEGV"],
                                         ["third", "skipped", "not here"], ["fourth", "passed", "1 bundles"]]
    done, rows = planted(tmp_path, "--resume")
    assert [row[0] for row in rows] == ["first", "third", "fourth", "second"]
    assert done.stdout.count("passed") == 2 and "  second" in done.stdout  # in the table alone
    done, rows = planted(tmp_path, "--minutes", "0")
    assert {row[1] for row in rows} == {"not run"} and done.returncode == 1
    done, rows = planted(tmp_path, "--only", "fourth", "--resume")
    assert [row[:2] for row in rows] == [["fourth", "passed"]] and done.returncode == 0


MEETING = """
import pathlib, time
here = pathlib.Path(__file__).parent
def meets(name, other):
    for here_is, there_is in (name, other), (name + "-met", other + "-met"):  # the first goes when both have seen both
        (here / here_is).touch()
        last = time.monotonic() + 300
        while not (here / there_is).exists():
            assert time.monotonic() < last, f"{other} does not run beside {name}"
            time.sleep(0.01)
    print("said by", name)
    time.sleep(0.2)
    (here / name).unlink()
def one(bundles, device): meets("a", "b")
def little_memory(bundles, device): assert not list(here.glob("?")), "something runs beside it"
def other(bundles, device): meets("b", "a")
CHECKS = [one, little_memory, other]
"""


def test_checks_run_at_a_time_and_what_fills_the_card_runs_alone(tmp_path):
    done, rows = planted(tmp_path, "--jobs", "2", checks=MEETING)
    assert sorted(row[:2] for row in rows[:2]) == [["one", "passed"], ["other", "passed"]], done.stdout
    assert rows[2][:2] == ["little_memory", "passed"], done.stdout
    assert done.stdout.index("said by a") < done.stdout.index("  one ")


def test_a_sanitizer_says_what_it_finds(tmp_path, monkeypatch):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text('#!/bin/sh\necho "========= COMPUTE-SANITIZER"\necho "========= Invalid __global__ read of size 4 bytes"\n')
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    words = parts.sanitize(["python", "x"], tmp_path / "sanitizer-x.txt", 60)
    assert words == "compute-sanitizer: Invalid __global__ read of size 4 bytes (sanitizer-x.txt)"


def test_python_3_10_reads_what_is_packed():
    for folder in HERE, ROOT / "tools" / "bench", ROOT / "runtime" / "python" / "altgrad":
        for file in folder.rglob("*.py"):
            ast.parse(file.read_text(), str(file), feature_version=(3, 10))
