"""Training with states of 32, 8 and 4 bits: a small network that reads this repository's text."""

import statistics

import torch
from matplotlib.figure import Figure

import altgrad

from .text import Text, network

LR = 2e-3
OPTIMIZERS = {"32 bits": "AdamW", "8 bits, e4m3 and e5m2": "AdamWFp8", "8 bits, dynamic map": "AdamW8bit",
              "4 bits": "AdamW4bit"}


def losses_of(maker, epochs):
    """The loss of every step, the same network and batches for every optimizer."""
    text, model = Text(), network()
    optimizer = maker(model.parameters(), lr=LR)
    losses = []
    for x, y in text.batches(epochs):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def draw_states(epochs):
    runs = {words: losses_of(getattr(altgrad.optim, name), epochs) for words, name in OPTIMIZERS.items()}
    length = len(next(iter(runs.values()))) // epochs
    final = {words: statistics.mean(losses[-length:]) for words, losses in runs.items()}
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    first = next(iter(final.values()))
    print(f"{'states':<24}{'last epoch':>12}{'of 32 bits':>12}")
    for words, losses in runs.items():
        smooth = [statistics.mean(losses[max(0, at - length // 4):at + 1]) for at in range(len(losses))]
        axis.plot(smooth, linewidth=1, label=f"{words}: {final[words]:.4f}")
        print(f"{words:<24}{final[words]:>12.4f}{final[words] / first:>12.4f}")
    axis.set(xlabel="step", ylabel="loss, nats for a letter", yscale="log")
    axis.grid(alpha=0.3)
    axis.legend(title="mean loss of the last epoch", fontsize="small")
    return figure
