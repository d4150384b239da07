"""AdamW on a GPU: the copy ceiling, torch's fused step and altgrad's, in turn, on the same memory."""

import statistics
import time

import torch

from inputs import program

BYTES = {"f32": 4, "bf16": 2}
ROUNDS = 15


def milliseconds(step):
    """Of the device, for one call."""
    first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    first.record()
    step()
    last.record()
    last.synchronize()
    return first.elapsed_time(last)


def enqueue(step):
    """Of the CPU, until the call returns."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def interleaved(steps):
    """name -> (median device ms, median CPU ms); every candidate once in each round."""
    for step in steps.values():
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    device, host = {n: [] for n in steps}, {n: [] for n in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            device[name].append(milliseconds(step))
            host[name].append(enqueue(step))
    torch.cuda.synchronize()
    return {n: (statistics.median(device[n]), statistics.median(host[n])) for n in steps}


def copy_ceiling(device):
    """GB/s of a large copy, read and write counted; the yardstick of every row."""
    n = min(4 << 30, int(torch.cuda.mem_get_info()[0] * 0.2))
    source, target = (torch.empty(n, dtype=torch.uint8, device=device) for _ in range(2))
    source.random_()
    ms = interleaved({"copy": lambda: target.copy_(source)})["copy"][0]
    return 2 * n / ms / 1e6


def candidates(bundles, device, sizes, dtype, mode):
    kind = program.FORMATS[dtype]
    torch.manual_seed(0)
    params = [torch.randn(n, device=device, dtype=kind).requires_grad_() for n in sizes]
    m, v = ([torch.zeros_like(p, requires_grad=False) for p in params] for _ in range(2))
    for p in params:
        p.grad = torch.randn_like(p).mul_(0.01)
    optimizer = torch.optim.AdamW(params, lr=1e-4, fused=True)
    for p, a, b in zip(params, m, v):
        optimizer.state[p] = {"step": torch.zeros((), device=device), "exp_avg": a, "exp_avg_sq": b}
    scaler = torch.amp.GradScaler(device.split(":")[0], init_scale=1.0, growth_interval=1 << 30)
    scaler.scale(torch.ones((), device=device))

    def torch_step():
        if mode == "scaler+clip":
            scaler.unscale_(optimizer)
        if mode != "plain":
            torch.nn.utils.clip_grad_norm_(params, 1.0)
        if mode == "scaler+clip":
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()

    name = "adamw" + ("-bf16" if dtype == "bf16" else "")
    name += {"plain": "", "clip": "-clip", "scaler+clip": "-clip-unscale"}[mode]
    ours = program.Program(bundles[name], device)
    ours.bind({"w": [p.detach() for p in params], "g": [p.grad for p in params], "m": m, "v": v},
              {"max_norm": [1.0], "inv_scale": [1.0]})
    return {"torch fused": torch_step, "altgrad": ours.step}


def run(bundles, device, most, deadline):
    """Rows of the table: (case, candidate, ms, CPU ms, GB/s, fraction of the copy rate, times torch)."""
    ceiling = copy_ceiling(device)
    rows = [("copy", "torch copy_", None, None, ceiling, 1.0, None)]
    workloads = [(None, ("plain", "clip", "scaler+clip")), ([1024] * 1000, ("plain", "clip"))]
    for sizes, modes in workloads:
        for dtype in BYTES:
            for mode in modes:
                if time.monotonic() > deadline:
                    rows.append((f"{dtype} {mode}", "no time left", None, None, None, None, None))
                    continue
                free = torch.cuda.mem_get_info()[0] * 0.8
                shape = sizes or [int(min(most, free / (5 * BYTES[dtype]))) // 4096 * 4096]
                steps = candidates(bundles, device, shape, dtype, mode)
                times = interleaved(steps)
                # What the mathematics needs: 7 streams, and the gradients once more for a norm.
                moved = sum(shape) * BYTES[dtype] * (7 if mode == "plain" else 8)
                label = f"{len(shape)} x {shape[0] / 1e6:.4g} M {dtype} {mode}"
                for name, (ms, cpu) in times.items():
                    rate = moved / ms / 1e6
                    rows.append((label, name, ms, cpu, rate, rate / ceiling, times["torch fused"][0] / ms))
                del steps
                torch.cuda.empty_cache()
    return rows
