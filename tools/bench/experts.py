"""A mixture of experts: 8 of 64 tensors have gradients, others in every step; beside a step whose 8 are always the same."""

import statistics

import torch

from bench import measure

EXPERTS, ACTIVE = 64, 8
CASES = {"experts 1024": 1024, "experts 16384": 16384}  # elements of each of the 64 tensors


class Side:
    """64 experts under AdamW with a clip; step k gives gradients to `ACTIVE` of them, in turn or always the same."""

    def __init__(self, size, in_turn):
        import altgrad
        torch.manual_seed(0)
        self.params = [torch.nn.Parameter(torch.randn(size)) for _ in range(EXPERTS)]
        self.grads = [torch.randn(size) for _ in range(EXPERTS)]
        self.optimizer = altgrad.optim.AdamW(self.params, lr=1e-4, max_grad_norm=1.0)
        self.in_turn, self.count = in_turn, 0

    def iterate(self, clock):
        """Milliseconds of the step alone."""
        first = self.count * ACTIVE % EXPERTS if self.in_turn else 0
        self.count += 1
        for place, (param, grad) in enumerate(zip(self.params, self.grads)):
            param.grad = grad if first <= place < first + ACTIVE else None
        begin = clock()
        self.optimizer.step()
        return (clock() - begin) * 1e3


def run(name, rounds, clock, progress):
    """Medians of milliseconds for both sides, and of the ratios between neighbours; prints them."""
    sides = [Side(CASES[name], in_turn) for in_turn in (False, True)]
    for side in sides * 2 * EXPERTS:
        side.iterate(measure.CLOCKS[clock])
    times = ([], [])
    for turn in range(rounds * 40):
        for index in (turn % 2, 1 - turn % 2):
            times[index].append(sides[index].iterate(measure.CLOCKS[clock]))
        progress(turn, rounds * 40)
    low, ratio, high = statistics.quantiles([b / a for a, b in zip(*times)], n=4)
    same, others = map(statistics.median, times)
    print(f"\n{name:<34}{same:9.4f}{others:9.4f}   ms, the same 8 and 8 in turn: {ratio:.2f} x, {low:.2f} to {high:.2f}", flush=True)
    return {"same": same, "in turn": others, "ratio": ratio, "low": low, "high": high}
