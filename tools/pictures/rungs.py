"""A run of GridOptim: on which rungs of e4m3 the weights lie, and how many of them move in a step."""

import math

import numpy
import torch
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

import altgrad

from .formats import numbers
from .text import Text, network

FORMAT, SCALE = "ocp.e4m3fn", 6.0
LEAST = 1e-4  # the smallest share of the weights that is drawn


def train(epochs):
    """(losses, shares of weights on each rung, flips, updates), a row for each step."""
    text, model, grid = Text(), network(), torch.from_numpy(numbers(FORMAT)).float()
    weights = list(model.parameters())
    optimizer = altgrad.optim.GridOptim(weights, scale=SCALE, seed=0)
    losses, shares, flips, updates = [], [], [], []
    for x, y in text.batches(epochs):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        done = len(losses) / (epochs * text.batches_of_an_epoch)
        moved, updated = optimizer.step(0.5 * SCALE * (1 + math.cos(math.pi * done)))
        values = torch.cat([weight.detach().flatten() for weight in weights])
        rungs = torch.searchsorted(grid, values.abs()) + (values != 0)
        losses.append(loss.item())
        shares.append(torch.bincount(rungs, minlength=len(grid) + 1).double() / len(values))
        flips.append(float(moved))
        updates.append(float(updated))
    return losses, torch.stack(shares).numpy(), numpy.array(flips), numpy.array(updates)


def draw_rungs(options):
    epochs = options.epochs
    losses, shares, flips, updates = train(epochs)
    figure = Figure(figsize=(9, 7), layout="constrained")
    loss, rungs, moves = figure.subplots(3, sharex=True, height_ratios=[1, 1.6, 1])
    loss.plot(losses, linewidth=0.6)
    loss.set(ylabel="loss, nats for a letter")
    top = int(numpy.flatnonzero(shares.max(0) > LEAST)[-1]) + 1
    image = rungs.imshow(100 * shares[:, :top].T, origin="lower", aspect="auto", cmap="magma",
                         norm=LogNorm(100 * LEAST, 100 * shares.max()))
    figure.colorbar(image, ax=rungs, label="% of the weights")
    rungs.set(ylabel="rung, without its sign")
    # The first step moves all to the grid.
    moves.plot(range(1, len(flips)), 100 * flips[1:] / numpy.maximum(updates[1:], 1), linewidth=0.6)
    moves.set(ylabel="flips, % of updates", xlabel="step", ylim=(0, None))
    for axis in (loss, moves):
        axis.grid(alpha=0.3)
    length = len(losses) // epochs
    print(f"loss of the first and the last epoch: {numpy.mean(losses[:length]):.4f} {numpy.mean(losses[-length:]):.4f}")
    print(f"weights that move in a step of the first and the last epoch: {flips[:length].sum() / updates[:length].sum():.2%} "
          f"{flips[-length:].sum() / updates[-length:].sum():.2%} of those with a gradient")
    return figure
