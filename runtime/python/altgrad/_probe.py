"""Questions that are asked in a process of their own: the answer may be a crash, and CUDA, once
started, would not survive a fork.
"""

import json
import os
import signal
import subprocess
import sys

SECONDS = 120
NO_ANSWER = "no answer within"

# torch, the library for it, one step. What has been found is printed before more is tried.
TORCH = """
import json, sys, time
sys.path.insert(0, sys.argv[1])
def say(**found):
    print(json.dumps(found), flush=True)
import torch
say(version=torch.__version__, path=torch.__file__, cuda=torch.version.cuda)
import altgrad
from altgrad._core import knows
say(known=min(knows().keys, knows().counter, knows().autograd, knows().dims) >= 0)
param = torch.nn.Parameter(torch.ones(5))
optimizer = altgrad.optim.AdamW([param], lr=0.5)
param.grad = torch.ones(5)
start = time.perf_counter()
optimizer.step()
if not bool((param < 0.6).all()):
    raise SystemExit(f"a step of AdamW gave {param.tolist()}")
say(ms=1e3 * (time.perf_counter() - start))
"""

# The driver as the runtime opens it, by the name of its library and nothing else.
DRIVER = """
import ctypes, json
def say(**found):
    print(json.dumps(found), flush=True)
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as error:
    say(missing=str(error))
    raise SystemExit
number = ctypes.c_int()
def ask(function, *arguments):
    return number.value if getattr(cuda, function)(ctypes.byref(number), *arguments) == 0 else None
say(init=cuda.cuInit(0))
say(version=ask("cuDriverGetVersion"))
say(gpus=[])
gpus = []
for ordinal in range(ask("cuDeviceGetCount") or 0):
    device = ask("cuDeviceGet", ordinal)
    name = ctypes.create_string_buffer(256)
    cuda.cuDeviceGetName(name, 255, device)
    gpus.append([name.value.decode(errors="replace"), ask("cuDeviceGetAttribute", 75, device),
                 ask("cuDeviceGetAttribute", 76, device)])
    say(gpus=gpus)
"""


def ask(script, *arguments):
    """What the script printed, as a dict; it has "failed" where the script did not end well."""
    if not sys.executable:
        return {"failed": "this Python does not know its own program"}
    try:
        done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True,
                              text=True, errors="replace", timeout=SECONDS,
                              stdin=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return {"failed": f"{NO_ANSWER} {SECONDS} s"}
    except OSError as error:
        return {"failed": str(error)}
    found = {}
    for line in done.stdout.splitlines():
        try:
            answer = json.loads(line)
        except ValueError:
            continue
        if isinstance(answer, dict):
            found.update(answer)
    if done.returncode:
        found["failed"] = _ending(done.returncode, done.stderr.strip())
    return found


def _ending(code, errors):
    last = errors.splitlines()[-1] if errors else ""
    if code < 0:
        return f"ended by signal {-code} ({signal.strsignal(-code)}){': ' * bool(last)}{last}"
    return last or f"exit status {code}"


def run(program, *arguments):
    """(the output of a program, or None; why there is none)."""
    try:
        done = subprocess.run([os.fspath(program), *arguments], capture_output=True, text=True,
                              errors="replace", timeout=SECONDS, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode:
        return None, _ending(done.returncode, done.stderr.strip())
    return done.stdout.strip(), ""


