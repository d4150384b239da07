"""AdamW with masters on the host: bf16 gradients come, f32 masters and moments stay, bf16 weights go. Beside it a loop
that moves the same 30 bytes (32 with a clip), torch's fused step with the casts it needs, and kernels of folders."""

import ctypes
import statistics

import torch

from . import candidates, floor, kernels, measure

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


def run(name, workload, rounds, clock, show, folders):
    """Medians of milliseconds, and the floor's time and ours over each other's in the same round."""
    shape, mode = workload
    makers = {"floor": (Floor, 1), "ours": (Ours, 1), "torch fused and casts": (kernels.Cast, 2),
              **kernels.found(folders)}
    times = measure.run_case(makers, shape, "f32", mode, rounds, clock, show)
    rows = {own: {"ms": statistics.median([t for t in series if t]), "of_floor": measure.ratio(times, own, "floor"),
                  "of_ours": measure.ratio(times, "ours", own)} for own, series in times.items()}
    for own, row in rows.items():
        print(f"  {name + ' ' + own:<52}{row['ms']:9.3f}{row['of_floor']['median']:8.2f} of the "
              f"{30 + 2 * (mode == 'clip')}-byte floor{row['of_ours']['median']:8.2f} x ours", flush=True)
    return rows
