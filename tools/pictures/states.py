"""Training with states of 32, 8 and 4 bits: a small network that reads this repository's text."""

import statistics

import torch
from matplotlib.figure import Figure

import altgrad

from .text import LENGTH, Text, network

LR = 1e-3
# What a storage line says of the states.
STATES = {"32 bits": "states=f32", "8 bits, e4m3 and e5m2": "m=ocp.e4m3fn:256 v=ocp.e5m2:256",
          "8 bits, dynamic maps": "m=bnb8:256 v=bnb8u:256", "4 bits, torchao's maps": "m=torchao4:128 v=torchao4u:128"}


def losses_of(storage, length):
    """The loss of every step, the same network and batches for every storage; no letter comes twice."""
    text, model = Text(length), network()
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=LR, storage=storage)
    losses, steps = [], text.batches_of_an_epoch
    for x, y in text.batches(1):
        optimizer.param_groups[0]["lr"] = LR * (1 - len(losses) / steps)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def draw_states(epochs):
    runs = {words: losses_of(storage, epochs * LENGTH) for words, storage in STATES.items()}
    length = len(next(iter(runs.values()))) // 4
    final = {words: statistics.mean(losses[-length:]) for words, losses in runs.items()}
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    first = next(iter(final.values()))
    print(f"{'states':<24}{'last quarter':>14}{'of 32 bits':>12}")
    for words, losses in runs.items():
        smooth = [statistics.mean(losses[max(0, at - length // 16):at + 1]) for at in range(len(losses))]
        axis.plot(smooth, linewidth=1, label=f"{words}: {final[words]:.4f}")
        print(f"{words:<24}{final[words]:>14.4f}{final[words] / first:>12.4f}")
    axis.set(xlabel="step", ylabel="loss, nats for a letter", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend(title="mean loss of the last quarter", fontsize="small")
    return figure
