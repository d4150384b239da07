"""Ctrl-C while a rule is compiled: the compiler ends at once and Python's handler says what comes then."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import altgrad

SCRIPT = """
import signal, sys
import altgrad
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
{handler}
try:
    altgrad.optim.FromRule(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
else:
    print("made")
"""
# Waits when it is called first, and is the compiler afterwards.
COMPILER = """#!/bin/sh
mkdir {0}/first 2> /dev/null && {{ echo $$ > {0}/pid; exec sleep 1000; }}
exec {1} "$@"
"""


@pytest.mark.parametrize("handler, printed", [
    ("", "interrupted"), ("signal.signal(signal.SIGINT, lambda *_: print('seen'))", "seen made")])
def test_ctrl_c_ends_the_compiler(handler, printed, tmp_path):
    real = os.environ.get("ALTGRAD_OPT") or str(altgrad._library.find_compiler())
    compiler = tmp_path / "altgrad-opt"
    compiler.write_text(COMPILER.format(tmp_path, Path(real).resolve()))
    compiler.chmod(0o755)
    rule = tmp_path / "own.mlir"
    rule.write_text((altgrad._library.find_templates() / "sgd.mlir").read_text().replace("rule sgd(", "rule own("))
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ALTGRAD_OPT": str(compiler),
                   "TMPDIR": str(temporary), "ALTGRAD_CACHE_DIR": str(tmp_path / "cache")}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(handler=handler), str(rule)], env=environment,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    pid = tmp_path / "pid"
    while process.poll() is None and not (pid.exists() and pid.read_text()):
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=500)
    assert out.split() == printed.split() and not errors
    assert not list(temporary.iterdir())
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


EXITS = """
import os, sys, threading, time
import altgrad
threading.Thread(target=altgrad.optim.FromRule, args=(sys.argv[1],), daemon=True).start()
while not os.path.exists(sys.argv[2]):
    time.sleep(0.01)

class Late:
    def __del__(self):  # while the interpreter exits, which takes a while then
        time.sleep(0.5)

late = Late()
late.itself = late
"""


def test_python_exits_while_a_daemon_thread_waits_for_the_compiler(tmp_path):
    compiler = tmp_path / "altgrad-opt"
    compiler.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexec sleep 5\n")
    compiler.chmod(0o755)
    rule = tmp_path / "own.mlir"
    rule.write_text((altgrad._library.find_templates() / "sgd.mlir").read_text().replace("rule sgd(", "rule own("))
    done = subprocess.run([sys.executable, "-c", EXITS, rule, tmp_path / "started"], capture_output=True, text=True, env={
        **os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ALTGRAD_OPT": str(compiler),
        "ALTGRAD_CACHE_DIR": str(tmp_path / "cache")})
    assert (done.returncode, done.stderr) == (0, "")
