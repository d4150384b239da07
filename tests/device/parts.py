"""Each part of a GPU day in a process of its own: what one breaks, a lost context say, the next never sees."""

import faulthandler
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

from gpu import Skipped


def run(body, seconds):
    """(verdict, words, result): `body(keep)` in a forked child; `keep(result)` as often as it likes, lest a result be lost.

    The verdict is passed, skipped or FAILED; words are what the body returns if that is a string, or why it ended. The
    caller must not have begun to use the driver.
    """
    with tempfile.TemporaryDirectory(prefix="altgrad-part-") as folder:
        path = pathlib.Path(folder, "said.json")
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            _child(body, path, seconds)
        status = _wait(child, seconds)
        said = json.loads(path.read_text()) if path.exists() else {}
    if status is None:
        return "FAILED", f"still running after {seconds:.0f} s", said.get("result")
    if "verdict" not in said:
        signalled = os.WIFSIGNALED(status) and signal.Signals(os.WTERMSIG(status)).name
        return "FAILED", f"its process ended with {signalled or f'status {os.waitstatus_to_exitcode(status)}'}", said.get("result")
    return said["verdict"], said["words"], said["result"]


def _child(body, path, seconds):
    os.setpgid(0, 0)  # so that what it starts ends with it
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(seconds - 3, 1))
    said = {"result": None}

    def write(**more):
        said.update(more)
        part = path.with_suffix(".part")
        part.write_text(json.dumps(said))
        part.rename(path)

    try:
        verdict, words = "passed", body(lambda result: write(result=result))
    except Skipped as reason:
        verdict, words = "skipped", str(reason)
    except Exception as error:
        verdict, words = "FAILED", f"{type(error).__name__}: {error}".splitlines()[0]
        if not isinstance(error, AssertionError):
            traceback.print_exc()
    if not isinstance(words, str):
        said["result"], words = words, ""
    write(verdict=verdict, words=words)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # a lost context may hang whoever cleans up


def _wait(child, seconds):
    """The child's status, or None after it had to be ended."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(0.02)
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def sanitizer():
    """compute-sanitizer, where there is one."""
    return shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")


def sanitize(command, log, seconds):
    """What compute-sanitizer says first of a failed part, run once more by `command`; all of it goes to `log`."""
    tool = sanitizer()
    if not tool:
        return "no compute-sanitizer here"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as file:
        try:
            subprocess.run([tool, "--tool", "memcheck", "--print-limit", "5", *map(str, command)], stdout=file,
                           stderr=subprocess.STDOUT, timeout=seconds)
        except subprocess.TimeoutExpired:
            file.write(f"\nended after {seconds:.0f} s\n")
    lines = [line.strip("= ") for line in log.read_text(errors="replace").splitlines() if line.startswith("=====")]
    found = [line for line in lines if line and not line.startswith(("COMPUTE-SANITIZER", "ERROR SUMMARY: 0"))]
    return f"compute-sanitizer: {found[0] if found else 'finds nothing'} ({log.name})"
