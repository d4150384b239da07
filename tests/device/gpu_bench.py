"""AdamW on a GPU from 1 M to 1 G elements: altgrad's step, eager, in a graph and on unaligned gradients, torch's three, and a copy of as many bytes."""

import gc
import os
import statistics
import time

import torch

import gpu as gpus

MILLION = 1 << 20
SIZES = [[n * MILLION] for n in (1, 2, 4, 8, 18, 40, 100)] + [[1024] * 1000] + [[1000 * MILLION]]
QUICK = [[1 << 12], [64] * 10]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
MODES = ("plain", "clip", "scaler+clip")
ROUNDS, LARGE_ROUNDS = 15, 7
# Elements up to which what launches cost can be seen: a microsecond of 100.
OVERLAP_MOST = 18 * MILLION
# torch.compile writes and loads kernels for each shape anew: a few seconds for one tensor, minutes for a thousand.
COMPILED = [([n * MILLION], dtype, "plain") for n in (1, 100) for dtype in DTYPES]
COLUMNS = "case", "candidate", "device ms", "CPU ms", "GB/s", "of copy", "x fused"


class Case:
    """Parameters, gradients and both moments of one size, which every candidate steps in its turn."""

    def __init__(self, gpu, sizes, dtype, mode):
        self.gpu, self.sizes, self.dtype, self.mode = gpu, sizes, dtype, mode
        kind = DTYPES[dtype]
        make = lambda scale: [torch.empty(n, dtype=kind, device=gpu.device).normal_().mul_(scale) for n in sizes]
        self.params = [torch.nn.Parameter(p) for p in make(1.0)]
        for p, grad in zip(self.params, make(0.01)):
            p.grad = grad
        self.m, self.v = make(0.01), [v.square_() for v in make(0.01)]
        # What the mathematics needs: p, m and v read and written, g read, and once more for a norm.
        self.bytes = sum(sizes) * kind.itemsize * (7 if mode == "plain" else 8)

    def label(self):
        n = f"{len(self.sizes)} x {self.sizes[0]}" if len(self.sizes) > 1 else f"{self.sizes[0] / MILLION:.4g} M"
        return f"{n} {self.dtype} {self.mode}"

    def own(self, optimizer):
        """Gives an optimizer the moments that are there: as many bytes for every candidate, once."""
        group = optimizer.param_groups[0]
        # torch's foreach reads counts on the CPU, and would wait for others.
        where = "cpu" if group["foreach"] and not group["capturable"] else self.gpu.device
        for p, m, v in zip(self.params, self.m, self.v):
            optimizer.state[p] = {"step": torch.zeros((), device=where), "exp_avg": m, "exp_avg_sq": v}
        return optimizer

    def scaler(self, made=torch.amp.GradScaler):
        # A scale of 1 that never grows: the same gradients can be unscaled in every round.
        found = made(self.gpu.device.type, init_scale=1.0, growth_interval=1 << 30)
        found.scale(torch.ones((), device=self.gpu.device))
        return found

    def torchs(self, wrap=lambda step: step, **choice):
        optimizer = self.own(torch.optim.AdamW(self.params, lr=1e-4, **choice))
        if self.mode == "plain":
            return wrap(optimizer.step)
        scaler, clip = self.scaler(), torch.nn.utils.clip_grad_norm_

        def step():
            if self.mode == "clip":
                clip(self.params, 1.0)
                return optimizer.step()
            scaler.unscale_(optimizer)
            clip(self.params, 1.0)
            scaler.step(optimizer)
            scaler.update()
        return step

    def ours(self, **choice):
        import altgrad.optim
        if self.mode != "plain":
            choice["max_grad_norm"] = 1.0
        amp = self.mode == "scaler+clip"
        optimizer = self.own(altgrad.optim.AdamW(self.params, lr=1e-4, fused_amp=amp, **choice))
        if amp:
            # As GradScaler hands them over; its own pass over the gradients is another's business.
            optimizer.grad_scale, optimizer.found_inf = (torch.tensor(x).to(self.gpu.device) for x in (1.0, 0.0))
        return optimizer.step

    def ours_in_turn(self):
        """Launches of a step begin when the one before them has ended; else they overlap from sm_90 on."""
        os.environ["ALTGRAD_CUDA_DEPENDENT_LAUNCH"] = "0"
        try:
            step = self.ours()
            step()  # makes the plan, which asks
            return step
        finally:
            del os.environ["ALTGRAD_CUDA_DEPENDENT_LAUNCH"]

    def ours_in_scaler(self):
        """A GradScaler of ours: the step checks and scales, `update` takes the next scale over."""
        import altgrad
        optimizer = self.own(altgrad.optim.AdamW(self.params, lr=1e-4, max_grad_norm=1.0))
        scaler = self.scaler(altgrad.amp.GradScaler)

        def step():
            scaler.step(optimizer)
            scaler.update()
        return step

    def ours_in_a_graph(self):
        step = self.ours(capturable=True)
        for _ in range(3):
            step()
        self.gpu.synchronize()
        return self.gpu.graph(step)

    def ours_with_rates(self):
        """Another rate in every step, as a schedule has it."""
        step, number = self.ours(), 0
        group = step.__self__.param_groups[0]

        def scheduled():
            nonlocal number
            number += 1
            group["lr"] = 1e-4 / (1 + number % 97)
            return step()
        return scheduled

    def ours_unaligned(self):
        """The same parameters and moments; gradients as views that begin an element behind 16 bytes."""
        own = Case.__new__(Case)
        own.__dict__ = self.__dict__ | {"params": [torch.nn.Parameter(p.data) for p in self.params]}
        for p, like in zip(own.params, self.params):
            p.grad = torch.empty(p.numel() + 1, dtype=p.dtype, device=p.device)[1:].copy_(like.grad)
        return own.ours()

    def copy(self):
        source, target = (torch.empty(self.bytes // 2, dtype=torch.uint8, device=self.gpu.device) for _ in range(2))
        source.random_()
        return lambda: target.copy_(source)

    def compiled(self):
        torch._dynamo.reset()
        # A number would be compiled in, and again when it changes.
        choice = dict(lr=torch.tensor(1e-4, device=self.gpu.device), capturable=True) if self.gpu.real else dict(lr=1e-4)
        optimizer = self.own(torch.optim.AdamW(self.params, foreach=True, **choice))
        return torch.compile(optimizer.step, fullgraph=False, backend="inductor" if self.gpu.real else "eager")

    def candidates(self, compiles):
        real = self.gpu.real
        makers = {"copy": self.copy, "altgrad": self.ours, "altgrad, graph": self.ours_in_a_graph,
                  "altgrad, new rates": self.ours_with_rates, "altgrad, unaligned": self.ours_unaligned}
        if self.gpu.overlaps() and sum(self.sizes) <= OVERLAP_MOST:
            makers["altgrad, in turn"] = self.ours_in_turn
        if self.mode == "scaler+clip":
            makers["altgrad, GradScaler"] = self.ours_in_scaler
        makers |= {"torch fused": lambda: self.torchs(fused=real), "torch foreach": lambda: self.torchs(foreach=real)}
        return makers | ({"torch compile": self.compiled} if compiles else {})


def interleaved(gpu, steps, rounds):
    """name -> {times}; every candidate once in each round, in turning order."""
    ahead = {}
    for name, step in steps.items():
        for _ in range(3):
            step()
        gpu.synchronize()
        cpu = min(gpu.timed(step)[1] for _ in range(3))
        ahead[name] = min(2 * cpu + 0.2, 100.0)
    seen, names = {name: [] for name in steps}, list(steps)
    for turn in range(rounds):
        for name in names[turn % len(names):] + names[:turn % len(names)]:
            gpu.flush()
            # The GPU sleeps while the CPU enqueues the whole step; longer, where it woke up too early.
            for _ in range(4):
                sample = gpu.timed(steps[name], ahead[name])
                if sample[2]:
                    break
                ahead[name] = min(2 * ahead[name], 100.0)
                gpu.flush()
            seen[name].append(sample)
    found = {}
    for name, samples in seen.items():
        device, cpu, pure = zip(*samples)
        found[name] = {"device_ms": statistics.median(device), "device_ms_min": min(device),
                       "device_ms_max": max(device), "cpu_ms": statistics.median(cpu),
                       # Below 1 the device waited for the CPU: for a verdict that was read, or a late launch.
                       "ahead_of_device": sum(pure) / len(pure)}
    return found


def measure(gpu, sizes, dtype, mode, compiles):
    """One point of the curve: a dict, with every candidate's times, and altgrad's launches."""
    case = Case(gpu, sizes, dtype, mode)
    found = {"case": case.label(), "elements": sum(sizes), "tensors": len(sizes), "dtype": dtype, "mode": mode,
             "bytes": case.bytes, "left_out": {}}
    steps = {}
    for name, make in case.candidates(compiles).items():
        try:
            steps[name] = make()
            steps[name]()
            gpu.synchronize()
        except Exception as error:
            steps.pop(name, None)
            found["left_out"][name] = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
            print(f"    {case.label()}: {name} left out: {found['left_out'][name]}", flush=True)
    rounds = ROUNDS if sum(sizes) < 200 * MILLION else LARGE_ROUNDS
    found["candidates"] = interleaved(gpu, steps, rounds if gpu.real else 2)
    if mode == MODES[-1]:
        found["clocks"] = {k: v for k, v in gpu.state().items() if k.startswith(("clocks", "power", "temp"))}
    return found


def kernels(gpu, sizes, dtype, mode):
    """Each launch and copy of three steps of altgrad's, with its µs."""
    case = Case(gpu, sizes, dtype, mode)
    step = case.ours()
    for _ in range(3):
        step()
    return {"case": case.label(), "elements": sum(sizes), "tensors": len(sizes), "dtype": dtype, "mode": mode,
            "bytes": case.bytes, "steps": 3, "launches": gpu.launches(lambda: [step() for _ in range(3)])}


def nothing(gpu):
    """What two events with nothing between them say, ms; and the CPU's time for it."""
    samples = [gpu.timed(lambda: None, 0.2) for _ in range(20)]
    return {"device_ms": statistics.median(s[0] for s in samples), "cpu_ms": statistics.median(s[1] for s in samples)}


PARTS = [f"{dtype}-{mode}" for dtype in DTYPES for mode in MODES] + ["kernels", "compiled"]


def run(device, part, most, deadline, keep):
    """One of PARTS: {"nothing": ..., "points": [...], "kernels": [...], "not_measured": [...]}; `keep` is called often.

    A part is a process of its own: neither the profiler nor torch.compile stays in the way of what is measured.
    """
    gpu = gpus.find(device)
    found = {"nothing": nothing(gpu), "points": [], "kernels": [], "not_measured": []}
    points = [(sizes, dtype, mode) for sizes in (SIZES if gpu.real else QUICK) for dtype in DTYPES for mode in MODES
              if sum(sizes) <= most]
    compiled = part == "compiled"
    if compiled:
        points = [point for point in points if point in COMPILED or not gpu.real and point[2] == "plain"]
    elif part != "kernels":
        points = [(sizes, dtype, mode) for sizes, dtype, mode in points if f"{dtype}-{mode}" == part]
    # p, g twice, m, v; a copy of 8 streams and what foreach makes beside them.
    needs = lambda sizes, dtype: sum(sizes) * DTYPES[dtype].itemsize * 14
    for sizes, dtype, mode in points:
        label = f"{len(sizes)} x {sizes[0]} {dtype} {mode} {part}"
        gc.collect()
        # The first compilation may take a minute.
        short = time.monotonic() > deadline - 60 * (compiled and gpu.real) and "no time left"
        if not short and gpu.real and needs(sizes, dtype) > gpu.free():
            short = f"needs {needs(sizes, dtype) / 1e9:.0f} GB, {gpu.free() / 1e9:.0f} are free"
        start = time.monotonic()
        try:
            if not short and part == "kernels":
                found["kernels"].append(kernels(gpu, sizes, dtype, mode))
            elif not short:
                found["points"].append(measure(gpu, sizes, dtype, mode, compiled))
        except Exception as error:
            short = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            if "CUDA error" in short:
                raise
        if short:
            found["not_measured"].append(f"{label}: {short}")
        print(f"    {label}: {short or f'{time.monotonic() - start:.1f} s'}", flush=True)
        keep(found)
    found["device_after"] = gpu.state()
    return found


def merged(parts):
    """The curve of all parts that have something."""
    whole = {"nothing": None, "points": [], "kernels": [], "not_measured": []}
    for part in parts:
        whole["nothing"] = whole["nothing"] or part["nothing"]
        for name in ("points", "kernels", "not_measured"):
            whole[name] += part[name]
    return whole


def table(found):
    """Rows of COLUMNS."""
    rows = []
    for point in found["points"]:
        times = point["candidates"]
        copy, fused = (times.get(name, {}).get("device_ms") for name in ("copy", "torch fused"))
        for name, of in times.items():
            ms = of["device_ms"]
            rows.append((point["case"], name + ("" if of["ahead_of_device"] == 1 else " (waits)"), ms, of["cpu_ms"],
                         point["bytes"] / ms / 1e6, copy / ms if copy else None, fused / ms if fused else None))
    return rows
