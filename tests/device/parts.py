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


class Part:
    """`body(keep)` in a forked child; `keep(result)` as often as it likes, lest a result be lost.

    The caller must not have begun to use the driver. `quiet`: what the child prints comes when it has ended.
    """

    def __init__(self, body, seconds, quiet=False):
        self.folder, self.seconds, self.begun = tempfile.TemporaryDirectory(prefix="altgrad-part-"), seconds, time.monotonic()
        self.said, self.log = (pathlib.Path(self.folder.name, name) for name in ("said.json", "log"))
        sys.stdout.flush()
        self.child = os.fork()
        if self.child == 0:
            _child(body, self.said, seconds, self.log if quiet else None)

    def poll(self):
        """None while it runs; then (verdict, words, result).

        The verdict is passed, skipped or FAILED; words are what the body returns if that is a string, or why it ended.
        """
        done, status = os.waitpid(self.child, os.WNOHANG)
        late = not done and time.monotonic() > self.begun + self.seconds
        if not done and not late:
            return None
        if late:
            self._end()
        said = json.loads(self.said.read_text()) if self.said.exists() else {}
        if self.log.exists():
            print(self.log.read_text(errors="replace"), end="", flush=True)
        self.folder.cleanup()
        if late:
            return "FAILED", f"still running after {self.seconds:.0f} s", said.get("result")
        if "verdict" not in said:
            signalled = os.WIFSIGNALED(status) and signal.Signals(os.WTERMSIG(status)).name
            ended = signalled or f"status {os.waitstatus_to_exitcode(status)}"
            return "FAILED", f"its process ended with {ended}", said.get("result")
        return said["verdict"], said["words"], said["result"]

    def _end(self):
        try:
            os.killpg(self.child, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self.child, signal.SIGKILL)
        os.waitpid(self.child, 0)


def run(body, seconds):
    """What Part.poll says at last."""
    part = Part(body, seconds)
    while not (said := part.poll()):
        time.sleep(0.02)
    return said


def _child(body, path, seconds, log):
    os.setpgid(0, 0)  # so that what it starts ends with it
    if log:
        to = os.open(log, os.O_WRONLY | os.O_CREAT)
        os.dup2(to, 1)
        os.dup2(to, 2)
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
