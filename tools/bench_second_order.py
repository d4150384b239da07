#!/usr/bin/env python3
"""SOAP beside the code of its authors on the shapes of a GPT: milliseconds of a step between two refreshes, and of one with.

    tools/bench_second_order.py                             # a GPT of 124 M parameters, without its embeddings
    tools/bench_second_order.py --layers 1 --width 256      # a smaller one
    tools/bench_second_order.py --threads 1 --clock cpu     # processor time, while others use the machine

The reference is nikhilvyas/SOAP's soap.py, written anew for matrices, in float32 on the same threads. Both take turns. The
ratio is the median of those of neighbouring steps of a kind.
"""

import argparse
import os
import statistics

import torch
from bench import measure

import altgrad


class Reference:
    """The steps of soap.py, after its first one, on a list of matrices."""

    def __init__(self, params, every, lr=3e-3, beta=0.95, eps=1e-8, decay=0.01):
        self.params, self.every, self.lr, self.beta, self.eps, self.decay, self.n = params, every, lr, beta, eps, decay, -1
        self.state = {}

    @torch.no_grad()
    def step(self):
        self.n += 1
        for param in self.params:
            self._step(param, self.state.setdefault(param, {}))

    def _step(self, p, state):
        g = p.grad
        if not state:
            state.update(m=torch.zeros_like(p), v=torch.zeros_like(p), grams=[torch.zeros(size, size) for size in p.shape])
        else:
            left, right = state["bases"]
            x = left.T @ g @ right
            state["m"].mul_(self.beta).add_(x, alpha=1 - self.beta)
            state["v"].mul_(self.beta).add_(x.square(), alpha=1 - self.beta)
            u = left @ (state["m"] / state["v"].sqrt().add_(self.eps)) @ right.T
            p.add_(u, alpha=-self.lr * (1 - self.beta ** self.n) ** 0.5 / (1 - self.beta ** self.n))
            p.add_(p, alpha=-self.lr * self.decay)
        for gram, outer in zip(state["grams"], (g @ g.T, g.T @ g)):
            gram.lerp_(outer, 1 - self.beta)
        if "bases" not in state:
            state["bases"] = [torch.linalg.eigh(gram + 1e-30 * torch.eye(len(gram)))[1].flip(1) for gram in state["grams"]]
        elif self.n % self.every == 0:
            self._refresh(state)

    def _refresh(self, state):
        left, right = state["bases"]
        m = left @ state["m"] @ right.T
        for side, (gram, basis) in enumerate(zip(state["grams"], state["bases"])):
            order = (basis.T @ gram @ basis).diag().argsort(descending=True)
            state["v"] = state["v"].index_select(side, order)
            state["bases"][side] = torch.linalg.qr(gram @ basis[:, order])[0]
        left, right = state["bases"]
        state["m"] = left.T @ m @ right


def shapes_of(layers, width):
    return [shape for _ in range(layers) for shape in ((3 * width, width), (width, width), (4 * width, width), (width, 4 * width))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12, help="blocks of the model (default 12)")
    parser.add_argument("--width", type=int, default=768, help="its width (default 768)")
    parser.add_argument("--every", type=int, default=4, help="steps from one refresh to the next (default 4)")
    parser.add_argument("--rounds", type=int, default=3, help="refreshes of each (default 3)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores")
    parser.add_argument("--clock", choices=measure.CLOCKS, default="wall", help="'cpu' counts processor time, for machines "
                        "on which others work; it needs --threads 1")
    given = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(given.threads)
    clock, sides = measure.CLOCKS[given.clock], {}
    for name in ("altgrad", "authors"):
        params = [torch.nn.Parameter(torch.randn(shape) * 0.02) for shape in shapes_of(given.layers, given.width)]
        for param in params:
            param.grad = torch.randn(param.shape) * 0.01
        sides[name] = altgrad.optim.SOAP(params, precondition_frequency=given.every) if name == "altgrad" else Reference(params, given.every)
    times = {name: {"between": [], "refresh": []} for name in sides}
    for step in range(given.every * (given.rounds + 1) + 1):
        for name, optimizer in list(sides.items())[::-1 if step % 2 else 1]:
            start = clock()
            optimizer.step()
            if step > given.every:  # before, the bases are made and each kind of step is compiled
                times[name]["refresh" if step % given.every == 0 else "between"].append(1e3 * (clock() - start))
    print(f"{given.layers} blocks of width {given.width}, {given.threads} threads, {given.clock} clock, torch {torch.__version__}")
    for kind in ("between", "refresh"):
        mine, theirs = times["altgrad"][kind], times["authors"][kind]
        ratios = sorted(other / own for own, other in zip(mine, theirs))
        print(f"{kind:8} {statistics.median(mine):10.1f} ms   authors {statistics.median(theirs):10.1f} ms   "
              f"{statistics.median(ratios):.2f} x   {ratios[0]:.2f} to {ratios[-1]:.2f}")


if __name__ == "__main__":
    main()
