"""A small GPT that reads this repository's text: Muon with AdamW beside it in one program, and AdamW alone.

AdamW's rate is the best of 4e-3, 8e-3 and 1.6e-2 at 400 steps, and AdamW beside Muon takes it, too; Muon's rate is
K. Jordan's, untuned. All grow over a twentieth of the steps and then fall to a tenth of themselves.
"""

import math
import statistics
import time

import torch
from matplotlib.figure import Figure

import altgrad

from .gpt import GPT, draw_starts, held_out, loss_of, rate_of
from .text import Text

ADAMW = {"lr": 1.6e-2, "betas": (0.9, 0.95), "weight_decay": 0.1}
MUON = {"lr": 0.02, "weight_decay": 0.1, "orthogonalize": altgrad.optim.NewtonSchulz(dtype=torch.float32)}


def adamw(model):
    return altgrad.optim.AdamW(model.parameters(), **ADAMW)


def muon(model):
    """Muon for the matrices of the layers, AdamW for embeddings, norms and head."""
    chosen = set(model.matrices())
    return altgrad.optim.Muon(model.parameters(), **MUON, adamw=ADAMW, use_muon=chosen.__contains__)


def train(make, codes, steps, seed):
    """(loss of every step, {step: loss of the text that is held out}, the processor's seconds).

    Of one seed both optimizers have the same network and batches.
    """
    torch.manual_seed(seed)
    model, start = GPT(), time.process_time()
    optimizer, draws = make(model), torch.Generator().manual_seed(seed)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_of(step, steps))
    losses, others = [], {}
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = loss_of(model, codes, draw_starts(codes, model.size, draws))
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % max(1, steps // 10) == 0 or step == steps:
            others[step] = held_out(model, codes)
    return losses, others, time.process_time() - start


def report(name, runs):
    """Prints what runs of one optimizer reached, and gives the means of their two curves."""
    losses = [statistics.mean(step) for step in zip(*(run[0] for run in runs), strict=True)]
    others = {step: statistics.mean(run[1][step] for run in runs) for step in runs[0][1]}
    final, few = [run[1][len(losses)] for run in runs], max(1, len(losses) // 20)
    error = statistics.stdev(final) / len(final) ** 0.5 if len(final) > 1 else math.nan
    print(f"{name:<16}{statistics.mean(losses[:few]):>12.4f}{statistics.mean(losses[-few:]):>12.4f}"
          f"{statistics.mean(final):>10.4f}{error:>13.4f}{sum(run[2] for run in runs) / 60:>9.1f}", flush=True)
    return losses, others


def draw_muon(options):
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis, codes = figure.subplots(), Text(10_000_000).codes
    print(f"{options.steps} steps, mean of {options.runs} runs\n"
          f"{'optimizer':<16}{'first steps':>12}{'last steps':>12}{'held out':>10}{'error of it':>13}{'CPU min':>9}")
    for color, (name, make) in {"C0": ("AdamW", adamw), "C1": ("Muon and AdamW", muon)}.items():
        losses, others = report(name, [train(make, codes, options.steps, seed) for seed in range(options.runs)])
        axis.plot(range(1, options.steps + 1), losses, color, linewidth=0.5, alpha=0.5)
        axis.plot(others.keys(), others.values(), f"{color}o-", markersize=3,
                  label=f"{name}: {others[options.steps]:.3f}")
    axis.set(xlabel="step", ylabel="loss, nats for a letter", yscale="log")
    axis.grid(alpha=0.3, which="both")
    axis.legend(title="text that is held out")
    return figure
