"""Training with states of 32, 8 and 4 bits: a small network that reads this repository's text."""

import math
import statistics

import torch
from matplotlib.figure import Figure

import altgrad

from .text import LENGTH, Text, network

LR = 1e-3
# What a storage line says of the states.
STATES = {"32 bits": "states=f32", "8 bits, e4m3 and e5m2": "m=ocp.e4m3fn:256 v=ocp.e5m2:256,keep_positive",
          "8 bits, e5m2 by draws": "m=ocp.e4m3fn:256 v=ocp.e5m2:256,stochastic,keep_positive",
          "8 bits, dynamic maps": "m=bnb8:256 v=bnb8u:256,keep_positive",
          "8 bits, torchao's bytes": "m=bnb8:256 v=bnb8u:256", "4 bits, torchao's maps": "m=torchao4:128 v=torchao4u:128"}


def losses_of(storage, length, seed):
    """The loss of every step; no letter comes twice. Of one seed all storages have the same network and batches."""
    text, model = Text(length), network(seed)
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=LR, storage=storage)
    losses, steps = [], text.batches_of_an_epoch
    for x, y in text.batches(1, seed):
        optimizer.param_groups[0]["lr"] = LR * (1 - len(losses) / steps)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def last_quarter(losses):
    return statistics.mean(losses[-(len(losses) // 4):])


def draw_states(options):
    """One run says little: of the same storage other seeds, texts and machines end 1 % apart, each beside its 32 bits."""
    runs = options.runs
    curves = {words: [losses_of(storage, options.epochs * LENGTH, seed) for seed in range(runs)]
              for words, storage in STATES.items()}
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    first = [last_quarter(losses) for losses in next(iter(curves.values()))]
    print(f"{'states':<24}{'last quarter':>14}{'of 32 bits':>12}{'error of it':>13}")
    for words, of_seeds in curves.items():
        final = [last_quarter(losses) for losses in of_seeds]
        ratios = [mine / wide for mine, wide in zip(final, first, strict=True)]
        error = statistics.stdev(ratios) / runs ** 0.5 if runs > 1 else math.nan
        losses = [statistics.mean(step) for step in zip(*of_seeds, strict=True)]
        window = len(losses) // 64
        smooth = [statistics.mean(losses[max(0, at - window):at + 1]) for at in range(len(losses))]
        axis.plot(smooth, linewidth=1, label=f"{words}: {statistics.mean(final):.4f}")
        print(f"{words:<24}{statistics.mean(final):>14.4f}{statistics.mean(ratios):>12.4f}{error:>13.4f}")
    axis.set(xlabel="step", ylabel="loss, nats for a letter", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend(title=f"last quarter, mean of {runs} runs", fontsize="small")
    return figure
