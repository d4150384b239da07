"""AdamW with masters on the host: bf16 gradients come, f32 masters and moments stay, bf16 weights go. Beside it a loop that
moves the same 30 bytes (32 with a clip), torch's fused step with the casts that it needs, and DeepSpeed's kernel."""

import ctypes
import pathlib
import statistics

import torch

from . import candidates, floor, measure

WORKLOADS = {"48M": ([48 << 20], 1, False), "12 layers of 4M": ([4 << 20] * 12, 1, False),
             "300 mixed": candidates.WORKLOADS["300 mixed"]}
MODES = "plain", "clip"


def cases(quick):
    """(name, (workload, mode)) of each case."""
    for name, (sizes, *rest) in WORKLOADS.items():
        for mode in MODES:
            yield f"host {name} {mode}", (([max(64, size // 16) for size in sizes] if quick else sizes, *rest), mode)


class Floor:
    def __init__(self, sizes, dtype, mode):
        f32, bf16 = torch.float32, torch.bfloat16
        self.kept = [candidates.values(sizes, kind, 1.0) for kind in (bf16, f32, f32, f32, bf16)]
        self.function, self.clipped = ctypes.CDLL(str(floor.build())).floor_host, mode == "clip"
        self.pool = ctypes.cast(floor.torch_parallel_for(), ctypes.c_void_p) if torch.get_num_threads() > 1 else None
        self.rows, chunks = (floor.Row * len(sizes))(), []
        for index, (tensors, size) in enumerate(zip(zip(*self.kept), sizes)):
            *streams, weight = [tensor.data_ptr() for tensor in tensors]
            self.rows[index] = floor.Row(*streams, 4 * size, weight)
            chunks += [part for first in range(0, 4 * size, floor.CHUNK_BYTES) for part in (index, first)]
        self.count, self.chunks = ctypes.c_int64(len(chunks) // 2), (ctypes.c_int64 * len(chunks))(*chunks)

    def step(self):
        self.function(self.rows, self.chunks, self.count, self.clipped, self.pool)


class Ours:
    def __init__(self, sizes, dtype, mode):
        import altgrad
        self.params = [torch.nn.Parameter(value) for value in candidates.values(sizes, torch.bfloat16, 1.0)]
        for param, grad in zip(self.params, candidates.values(sizes, torch.bfloat16, 0.01)):
            param.grad = grad
        self.optimizer = altgrad.optim.AdamW(self.params, lr=1e-4, storage="master=f32",
                                             max_grad_norm=1.0 if mode == "clip" else None)

    def step(self):
        self.optimizer.step()


class Cast:
    """What a step of float32 masters needs around it: gradients widened and clipped before, weights rounded after."""

    def __init__(self, sizes, dtype, mode):
        self.clipped = mode == "clip"
        self.grads = candidates.values(sizes, torch.bfloat16, 0.01)
        self.weights = candidates.values(sizes, torch.bfloat16, 1.0)
        self.masters = [torch.nn.Parameter(weight.float()) for weight in self.weights]
        for master in self.masters:
            master.grad = torch.empty_like(master)
        self.begin()

    def begin(self):
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-4, fused=True)
        self.update = self.optimizer.step

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_([master.grad for master in self.masters], self.grads)
        if self.clipped:
            torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.update()
        torch._foreach_copy_(self.weights, [master.data for master in self.masters])


def deepspeed(folder):
    """The class of DeepSpeed's kernel, built from the `csrc` in its folder."""
    from torch.utils.cpp_extension import load
    sources = [pathlib.Path(folder, "csrc", "adam", name) for name in ("cpu_adam.cpp", "cpu_adam_impl.cpp")]
    out = floor.ROOT / "build" / "bench" / "deepspeed"
    out.mkdir(parents=True, exist_ok=True)
    wide = "-D__AVX512__" if "avx512f" in open("/proc/cpuinfo").read() else "-D__AVX256__"
    built = load("altgrad_bench_cpu_adam", [str(path) for path in sources], build_directory=str(out),
                 extra_include_paths=[str(pathlib.Path(folder, "csrc", "includes"))],
                 extra_cflags=["-O3", "-std=c++20", "-march=native", "-fopenmp", wide])

    class DeepSpeed(Cast):
        def begin(self):
            self.moments = [[torch.zeros_like(master.data) for master in self.masters] for _ in "mv"]
            self.count = 0
            built.create_adam(0, 1e-4, 0.9, 0.999, 1e-8, 0.01, True, False)

        def update(self):
            self.count += 1
            for master, m, v in zip(self.masters, *self.moments):
                built.adam_update(0, self.count, 1e-4, 0.9, 0.999, 1e-8, 0.01, True, master.data, master.grad, m, v)

    return DeepSpeed


def run(name, workload, rounds, clock, show, folder):
    """Medians of milliseconds, and the floor's time and ours over each other's in the same round."""
    shape, mode = workload
    makers = {"floor": (Floor, 1), "ours": (Ours, 1), "torch fused and casts": (Cast, 2)}
    if folder:
        makers["DeepSpeed and casts"] = deepspeed(folder), 2
    times = measure.run_case(makers, shape, "f32", mode, rounds, clock, show)
    rows = {own: {"ms": statistics.median([t for t in series if t]), "of_floor": measure.ratio(times, own, "floor"),
                  "of_ours": measure.ratio(times, "ours", own)} for own, series in times.items()}
    for own, row in rows.items():
        print(f"  {name + ' ' + own:<52}{row['ms']:9.3f}{row['of_floor']['median']:8.2f} of the "
              f"{30 + 2 * (mode == 'clip')}-byte floor{row['of_ours']['median']:8.2f} x ours", flush=True)
    return rows
