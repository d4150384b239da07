"""AdamW of f32 that writes an MXFP8 copy of the parameter in its sweep, beside the step alone and a second pass: our own
quantiser's, and torchao's behind torch's fused step where that is installed."""

import statistics

from . import candidates, measure

WORKLOADS = {"16M": ([16 << 20], 1, False), "300 mixed": candidates.WORKLOADS["300 mixed"]}


class OneSweep(candidates.Package):
    def make(self, choice):
        import altgrad
        return altgrad.optim.AdamW(self.params, lr=1e-4, storage="copy=mxfp8")


class Apart(candidates.Package):
    def step(self):
        import altgrad
        self.optimizer.step()
        self.copies = [altgrad.quant.quantize_blocks(param.detach()) for param in self.params]


class Torchao(candidates.Torch):
    def step(self):
        from torchao.prototype.mx_formats.config import ScaleCalculationMode
        from torchao.prototype.mx_formats.mx_tensor import to_mx
        import torch
        self.optimizer.step()
        with torch.no_grad():
            self.copies = [to_mx(param, torch.float8_e4m3fn, 32, ScaleCalculationMode.RCEIL)
                           for param in self.params if param.numel() % 32 == 0]


def makers():
    found = {"floor": (candidates.Floor, 1), "step alone": (candidates.Package, 1), "ours": (OneSweep, 1),
             "ours apart": (Apart, 1)}
    try:
        import torchao.prototype.mx_formats.mx_tensor  # noqa: F401
        found["torchao apart"] = (lambda *a: Torchao(*a, fused=True), 4)
    except ImportError:
        pass
    return found


def run(name, workload, rounds, clock, show):
    """Medians of milliseconds, and of how many times ours each is in the same round; the floor moves 28 bytes of our 29.03."""
    times = measure.run_case(makers(), workload, "f32", "plain", rounds, clock, show)
    rows = {own: {"ms": statistics.median([t for t in series if t]), "of_ours": measure.ratio(times, "ours", own)}
            for own, series in times.items()}
    for own, row in rows.items():
        print(f"  {name + ' ' + own:<36}{row['ms']:9.3f}{row['of_ours']['median']:8.2f} x ours", flush=True)
    return rows
