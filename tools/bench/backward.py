"""A whole iteration, backward and a clipped step: the norm summed in backward beside the norm summed in the step."""

import ctypes
import statistics

import torch

# name -> (width, layers, samples): gradients of 256 KB (too small for a hook), 1 MB and 4 MB each in f32.
MODELS = {"width 256": (256, 96, 16), "width 512": (512, 48, 16), "width 1024": (1024, 24, 16)}
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of malloc.h


def keep_freed_memory():
    """Or whose gradients are given back to the system, and faulted in again, is left to chance: as long as both steps."""
    libc = ctypes.CDLL(None)
    libc.mallopt(_TRIM_THRESHOLD, 2 ** 31 - 1)
    libc.mallopt(_MMAP_THRESHOLD, 32 << 20)


class Side:
    def __init__(self, width, layers, samples, dtype, in_backward):
        import altgrad
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(*[of for _ in range(layers) for of in (
            torch.nn.Linear(width, width), torch.nn.ReLU())]).to(dtype)
        self.data = torch.randn(samples, width).to(dtype)
        self.optimizer = altgrad.optim.AdamW(self.model.parameters(), lr=1e-4, max_grad_norm=1.0,
                                             norm_in_backward=in_backward)

    def iterate(self, clock):
        """(milliseconds of backward, of the step)."""
        self.optimizer.zero_grad()
        loss = self.model(self.data).square().mean()
        begin = clock()
        loss.backward()
        between = clock()
        self.optimizer.step()
        return (between - begin) * 1e3, (clock() - between) * 1e3


def measure(name, dtype, rounds, clock):
    """Medians of milliseconds for both sides, and of the ratios within a round; the bits are compared."""
    keep_freed_memory()
    sides = [Side(*MODELS[name], dtype, in_backward) for in_backward in (False, True)]
    for side in sides * 3:
        side.iterate(clock)
    times = ([], [])
    for turn in range(rounds):
        for index in (turn % 2, 1 - turn % 2):
            times[index].append(sides[index].iterate(clock))
    same = all(map(torch.equal, *[list(side.model.parameters()) for side in sides]))
    found = {"rounds": rounds, "same bits": same, "params": sum(p.numel() for p in sides[0].model.parameters())}
    for part, of in {"backward": lambda t: t[0], "step": lambda t: t[1], "both": sum}.items():
        two, one = [[of(t) for t in each] for each in times]
        low, median, high = statistics.quantiles([a / b for a, b in zip(two, one)], n=4)
        found[part] = {"two": statistics.median(two), "one": statistics.median(one), "ratio": median,
                       "low": low, "high": high}
    return found


def show(name, found):
    print(f"\n{name}, {found['params'] / 1e6:.1f} M parameters, norm in the step and in backward "
          f"({'the same bits' if found['same bits'] else 'OTHER BITS'})")
    for part in ("backward", "step", "both"):
        row = found[part]
        print(f"  {part:<10}{row['two']:9.2f}{row['one']:9.2f} ms  {row['ratio']:.3f} x, "
              f"quartiles {row['low']:.3f} to {row['high']:.3f}", flush=True)
