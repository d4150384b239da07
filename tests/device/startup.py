"""How long the first step of a stock optimizer takes beyond torch's own context: with an empty cache, and with a warm one.

`startup.py DEVICE` is one process, which prints its times; what it finds in the caches, the caller decides.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

import torch

import gpu as gpus

TARGET = 30.0
WAYS = {"plain": {}, "scaler and clip": dict(max_grad_norm=1.0, fused_amp=True)}


def measure(device, ways):
    """ms: of torch's context, of the import, of the first step and of a steady one."""
    gpu, times, start = gpus.find(device), {}, time.perf_counter()

    def took(name):
        nonlocal start
        gpu.synchronize()
        now = time.perf_counter()
        times[name], start = (now - start) * 1e3, now

    params = [torch.randn(shape).to(gpu.device) for shape in ((512, 512), (512,), (1000, 77))]
    params = [torch.nn.Parameter(p) for p in params]
    # torch's own kernels are loaded when they are first used.
    torch.optim.AdamW(params, foreach=True)
    for p in params:
        p.grad = p.detach() * 0.01 + 1
    sum(p.square().sum() for p in params)
    took("context")
    import altgrad.optim
    took("import")
    optimizer = altgrad.optim.AdamW(params, lr=1e-3, **ways)
    optimizer.step()
    took("first step")
    optimizer.step()
    took("second step")
    for _ in range(5):
        optimizer.step()
    took("five more")
    return times


def run(device):
    """Rows {caches, way, context, import, first step, ...}; the caches live in a folder of ours alone."""
    rows, repeat = [], 2 if gpus.find(device).real else 1
    for way in WAYS:
        with tempfile.TemporaryDirectory() as folder:
            environment = os.environ | {"ALTGRAD_CACHE_DIR": folder + "/altgrad", "CUDA_CACHE_PATH": folder + "/nv"}
            for caches in ["empty"] + ["warm"] * repeat:
                done = subprocess.run([sys.executable, "-W", "ignore", __file__, device, way], env=environment,
                                      capture_output=True, text=True, timeout=gpus.patience(device))
                if done.returncode:
                    raise RuntimeError(f"{way}, {caches}: {done.stderr.splitlines()[-1:]}")
                rows.append({"caches": caches, "way": way} | json.loads(done.stdout.splitlines()[-1]))
                print("   ", ", ".join(f"{k} {v:.1f} ms" if isinstance(v, float) else f"{k} {v}"
                                       for k, v in rows[-1].items()), flush=True)
    return rows


def words(rows):
    """What the table says of them."""
    found = []
    for way in WAYS:
        first = {caches: min(r["first step"] for r in rows if (r["caches"], r["way"]) == (caches, way))
                 for caches in ("empty", "warm")}
        late = "" if first["warm"] <= TARGET else f", above {TARGET:.0f}"
        found.append(f"{way} {first['empty']:.0f} ms, warm {first['warm']:.0f} ms{late}")
    return "; ".join(found)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], WAYS[sys.argv[2]])))
