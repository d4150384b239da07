"""Adafactor in float32: a loop that moves as many bytes, ours, torch's, and transformers' where it is installed."""

import importlib.util
import statistics

import torch

from . import candidates, floor, measure

GPT = [(768, 768)] * 12 + [(768, 3072), (3072, 768)] * 6 + [(768,)] * 24
# name -> shapes of the parameters
CASES = {"factored one 64M": [(8192, 8192)], "factored 300 mixed": GPT * 6 + [(50257, 768)]}
# What a step moves for an element: gradients three times, parameters twice and once back. The floor loop has AdamW's.
BYTES, OF_FLOOR = 24, 28


class Of:
    """A candidate that `make` makes of parameters."""

    def __init__(self, make, shapes):
        sizes = [torch.Size(shape).numel() for shape in shapes]
        self.params = [torch.nn.Parameter(value.view(shape)) for value, shape in zip(candidates.values(sizes, torch.float32, 1.0), shapes)]
        for param, grad in zip(self.params, candidates.values(sizes, torch.float32, 0.01)):
            param.grad = grad.view(param.shape)
        self.optimizer = make(self.params)

    def step(self):
        self.optimizer.step()


def _floor(shapes):
    sizes = [torch.Size(shape).numel() for shape in shapes]
    lists = [candidates.values(sizes, torch.float32, 0.01) for _ in range(4)]
    loop = floor.Floor(*lists, False)
    loop.kept = lists
    return loop


def run(name, rounds, clock, show):
    """Medians of milliseconds, and of the ratios in each round."""
    import altgrad
    shapes = CASES[name]
    classes = {"ours": (altgrad.optim.Adafactor, 1), "torch": (lambda params: torch.optim.Adafactor(params, foreach=False), 3)}
    if importlib.util.find_spec("transformers"):
        from transformers.optimization import Adafactor
        classes["transformers"] = lambda params: Adafactor(params, lr=1e-2, relative_step=False), 3
    makers = {"floor": (lambda *_: _floor(shapes), 1)}
    makers |= {key: (lambda *_, make=make: Of(make, shapes), every) for key, (make, every) in classes.items()}
    times = measure.run_case(makers, ([0], 1, False), "f32", None, rounds, clock, show)
    row = {own: statistics.median([t for t in series if t]) for own, series in times.items()}
    row |= {f"of_{own}": measure.ratio(times, "ours", own) for own in makers if own != "ours"}
    others = "".join(f", {row[f'of_{own}']['median']:.1f} x {own}'s" for own in classes if own != "ours")
    print(f"  {name:<24}floor {row['floor']:8.2f} ms, ours {row['ours']:8.2f} ms: "
          f"{row['of_floor']['median'] * BYTES / OF_FLOOR:.2f} of the rate of the floor{others}", flush=True)
    return row
