"""GridOptim of 16 M parameters: a floor loop, ours, and its source's formulas (definitions 7.1) in torch."""

import ctypes
import statistics

import torch

from . import candidates, floor, measure

COUNT = 16 << 20
# name -> (dtype of gradients, whether parameters are codes)
CASES = {"grid 16M codes": (torch.bfloat16, True), "grid 16M f32": (torch.float32, False)}


class Floor:
    """Twelve bytes for an element: gradients in bf16, codes and float32 velocities."""

    def __init__(self, sizes, dtype, mode):
        self.kept = [torch.zeros(COUNT, dtype=kind) for kind in (torch.bfloat16, torch.uint8, torch.float32)]
        self.function = ctypes.CDLL(str(floor.build())).floor_grid
        self.pool = ctypes.cast(floor.torch_parallel_for(), ctypes.c_void_p) if torch.get_num_threads() > 1 else None
        grad, param, m = [tensor.data_ptr() for tensor in self.kept]
        self.row = floor.Row(grad, param, m, None, 4 * COUNT)
        chunks = [part for first in range(0, 4 * COUNT, floor.CHUNK_BYTES) for part in (0, first)]
        self.count, self.chunks = len(chunks) // 2, (ctypes.c_int64 * len(chunks))(*chunks)

    def step(self):
        self.function(ctypes.byref(self.row), self.chunks, ctypes.c_int64(self.count), self.pool)


class Ours:
    def __init__(self, sizes, dtype, mode):
        import altgrad
        grads, coded = mode
        value, = candidates.values([COUNT], torch.float32, 1.0)
        value = value.to(torch.float8_e4m3fn)
        self.param = torch.nn.Parameter(value if coded else value.float())
        self.optimizer = altgrad.optim.GridOptim([self.param], seed=1)
        if coded:
            self.param.grad_dtype = grads
        self.param.grad, = candidates.values([COUNT], grads, 0.01)

    def step(self):
        self.optimizer.step()


class Source:
    """In the order of the source, with a float32 master, and two numbers that wait."""

    def __init__(self, sizes, dtype, mode):
        self.grad, = candidates.values([COUNT], mode[0], 0.01)
        self.grid = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
        self.grid = torch.unique(self.grid[self.grid.isfinite()])
        self.param, = candidates.values([COUNT], torch.float32, 1.0)
        self.master, self.velocity = self.param.clone(), torch.zeros(COUNT)

    @torch.no_grad()
    def step(self, scale=6.0, momentum=0.9, decay=1e-4, clip=10):
        grad = self.grad.float() if self.grad.dtype != torch.float32 else self.grad.clone()
        updates = (grad.abs() > 1e-10).sum().item()
        grad.add_(self.master, alpha=decay)
        self.velocity.mul_(momentum).add_(grad)
        index = torch.searchsorted(self.grid, self.master)
        r = (self.velocity * scale).clamp_(-clip, clip)
        k = torch.floor(r + torch.rand_like(r)).to(torch.int32)
        new = self.grid[(index - k).clamp_(0, len(self.grid) - 1)]
        flips = (new != self.param).sum().item()
        self.master.copy_(new)
        self.param.copy_(new)
        return flips, updates


def run(name, rounds, clock, show):
    """Medians of milliseconds, and of the ratios in each round."""
    makers = {"floor": (Floor, 1), "ours": (Ours, 1), "source": (Source, 4)}
    workload = [COUNT], 1, False
    times = measure.run_case(makers, workload, "f32", CASES[name], rounds, clock, show)
    row = {own: statistics.median([t for t in series if t]) for own, series in times.items()}
    row |= {"of_floor": measure.ratio(times, "ours", "floor"), "of_source": measure.ratio(times, "ours", "source")}
    print(f"  {name:<36}{row['floor']:9.3f}{row['ours']:9.3f}{row['of_floor']['median']:8.2f} of the 12-byte floor"
          f"{row['source']:9.1f}{row['of_source']['median']:8.1f} x the source in torch", flush=True)
    return row
