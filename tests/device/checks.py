"""What must hold on a device, each as a function of (bundles, device) that returns a few words or raises."""

import ctypes

import torch

import forms
from gpu import Skipped
from inputs import ROOT, SIZES, Side, compare, draw, program, same


def every_bundle_loads(bundles, device):
    for name in bundles:
        program.Program(bundles[name], device)
    return f"{len(bundles)} bundles"


def bytes_equal_host(bundles, device):
    """Odd sizes, empty tensors, mixed alignments, three groups, three steps, every bundle."""
    for name in bundles:
        compare(bundles[name], device)
    return f"{len(bundles)} bundles x {len(SIZES)} sizes x 3 steps"


def every_alignment(bundles, device):
    """Streams at different offsets, 0 to 15 elements past a 64-byte boundary; all at the same one, too."""
    chosen = [n for n in ("adamw", "adamw-bf16", "adamw-master", "adamw-clip", "adamw-bf16-clip") if n in bundles]
    for name in chosen:
        for shift in range(16):
            for apart in (0, 3):
                compare(bundles[name], device, [5000, 130], steps=1, groups=1, seed=shift,
                        offset=lambda stream, row: (shift + apart * stream) % 16)
    return f"{len(chosen)} bundles x 16 offsets, equal and different"


def special_values(bundles, device):
    """Infinities, NaN, subnormals, signed zeros, the greatest numbers: NaN must be canonical everywhere."""
    for seed, name in enumerate(bundles):
        compare(bundles[name], device, [4097, 777], steps=2, groups=1, seed=seed, special=True)
    return f"{len(bundles)} bundles"


def clip_and_scaler(bundles, device):
    """A norm far above and far below the limit; a gradient that is not finite skips the step on both sides."""
    chosen = [n for n in bundles if "clip" in n]
    for name in chosen:
        for limit in (1e-3, 1e6):
            compare(bundles[name], device, scalars={"max_norm": [limit]})
        if "unscale" in name:
            def spoil(grads, step):
                if step == 1:
                    grads[-1][5] = float("inf")
            sides = compare(bundles[name], device, before=spoil)
            if not int(sides[1].program.scalars["t"].max().item()) == 4 + 2:
                raise AssertionError(f"{name}: a step with an infinite gradient was not skipped")
    return f"{len(chosen)} bundles"


def many_tensors(bundles, device):
    for name in ("adamw", "adamw-clip"):
        compare(bundles[name], device, [1024] * 1000, steps=2, groups=7)
    return "1000 x 1024, 7 groups"


def deterministic(bundles, device):
    """The same inputs give the same bytes, whatever the device did before."""
    first = None
    for run in range(10):
        if device.startswith("cuda"):
            torch.randn(1 << (16 + run), device=device).sort()
        side = compare(bundles["adamw-clip"], device, [300001, 17, 4096 * 9], steps=1)[1]
        results = side.results()
        first = first or results
        if any(not torch.equal(first[k], results[k]) for k in first):
            raise AssertionError(f"run {run} differs from run 0")
    return "10 runs"


def several_streams(bundles, device):
    """Four plans on four streams at once; one plan on streams in turn; a gradient that arrives late."""
    if not device.startswith("cuda"):
        raise Skipped("no GPU")
    path, generator = bundles["adamw-clip"], torch.Generator().manual_seed(3)
    sizes, rows = [200003, 4099, 1], [0, 0, 0]
    manifest = program.Program(path, "cpu:v3").manifest
    grad = next(s for s in manifest["streams"] if s["role"] == "grad")
    values = {s["name"]: [draw(s, n, generator) for n in sizes] for s in manifest["streams"]}
    hosts = [Side(path, "cpu:v3", values, rows) for _ in range(4)]
    sides = [Side(path, device, values, rows) for _ in range(4)]
    streams, staged = [torch.cuda.Stream() for _ in range(4)], []
    for step in range(12):
        for i in range(4):
            grads = [draw(grad, n, generator) for n in sizes]
            hosts[i].set_grads(grads)
            hosts[i].program.step()
            staged.append([g.to(device) for g in grads])
    torch.cuda.synchronize()
    for step in range(12):
        for i in range(4):
            # The producer sleeps first: a step that did not wait would read the old gradient.
            producer, consumer = streams[(i + 1) % 4], streams[(i + step) % 4]
            with torch.cuda.stream(producer):
                torch.cuda._sleep(200_000)
                sides[i].set_grads(staged[4 * step + i])
            consumer.wait_stream(producer)
            with torch.cuda.stream(consumer):
                sides[i].program.step()  # the plan itself orders its runs, on whatever streams
            producer.wait_stream(consumer)
    torch.cuda.synchronize()
    for host, side in zip(hosts, sides):
        same(host, side, "streams")
    return "4 plans, 4 streams, 12 steps"


def graph_replay(bundles, device):
    """A captured step, replayed with new gradients and a new learning rate in the same memory."""
    if not device.startswith("cuda"):
        raise Skipped("no GPU")
    for name in ("adamw", "adamw-clip", "adamw-clip-unscale"):
        generator = torch.Generator().manual_seed(5)
        sizes, rows = [70001, 4096, 33], [0, 0, 0]
        manifest = program.Program(bundles[name], "cpu:v3").manifest
        grad = next(s for s in manifest["streams"] if s["role"] == "grad")
        values = {s["name"]: [draw(s, n, generator) for n in sizes] for s in manifest["streams"]}
        host, side = (Side(bundles[name], where, values, rows) for where in ("cpu:v3", device))
        host.program.step()
        side.program.step()  # uploads the tables; a capture may not
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            side.program.step()
        for step in range(20):
            grads = [draw(grad, n, generator) for n in sizes]
            for one in (host, side):
                one.set_grads(grads)
                one.program.scalars["lr"].fill_(1e-3 / (1 + step))
            host.program.step()
            graph.replay()
        torch.cuda.synchronize()
        same(host, side, f"{name} replayed")
    return "3 bundles x 20 replays"


def above_two_billion(bundles, device):
    """2^31 + 4099 elements in one tensor; windows compared where 32-bit arithmetic would break."""
    if not device.startswith("cuda"):
        raise Skipped("no GPU")
    n = 2**31 + 4099
    free = torch.cuda.mem_get_info()[0]
    if free < 9.5 * n:
        raise Skipped(f"needs {9.5 * n / 1e9:.0f} GB free, there are {free / 1e9:.0f}")
    torch.manual_seed(1)
    path, dtype = bundles["adamw-bf16"], torch.bfloat16
    side = program.Program(path, device)
    streams = {name: [torch.empty(n, dtype=dtype, device=device).uniform_(0.01, 1)] for name in ("g", "w", "m", "v")}
    windows = [(a, min(a + 8192, n)) for a in (0, 2**30 - 4096, 2**31 - 4096, n - 4099 - 4096)]
    kept = [{k: [t[0][a:b].cpu()] for k, t in streams.items()} for a, b in windows]
    side.bind(streams)
    side.step()
    torch.cuda.synchronize()
    for (a, b), old in zip(windows, kept):
        host = program.Program(path, "cpu:v3")
        host.bind(old)
        host.step()
        for name in ("w", "m", "v"):
            if not torch.equal(old[name][0].view(torch.int16), streams[name][0][a:b].cpu().view(torch.int16)):
                raise AssertionError(f"{name} differs in [{a}, {b})")
    return "4 windows"


def opcode_forms(bundles, device):
    """Every opcode form of the interpreter on special values, against the oracles' bytes."""
    if not device.startswith("cuda"):
        raise Skipped("no GPU")
    folder = ROOT / "build" / "device" / "forms"
    if not (folder / "index.json").exists():
        raise Skipped(f"no {folder}: packed where the interpreter is built")
    pack = forms.Pack(folder)
    gpu = forms.Gpu(ctypes.CDLL("libcuda.so.1"), torch.device(device).index or 0)
    try:
        counts, wrong = forms.run(pack, gpu)
    finally:
        gpu.release()
    if wrong:
        raise AssertionError(f"{len(wrong)} of {counts['launches']} launches differ: {wrong[0]}")
    for reason, names in pack.relaxed.items():
        print(f"    any result where the ISA names none, {len(names)} forms: {reason}")
    return (f"{len(counts['forms'])} forms, {len(counts['skipped'])} above sm_{gpu.chip}, {len(pack.left_out)} left "
            f"out, {counts['nans']} NaNs with bits of their own")


CHECKS = [every_bundle_loads, bytes_equal_host, every_alignment, special_values, clip_and_scaler, many_tensors,
          deterministic, several_streams, graph_replay, above_two_billion, opcode_forms]
