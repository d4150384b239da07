#!/usr/bin/env python3
"""Trains a small network on real data twice, with torch's AdamW and with altgrad's, from the same seed.

The data are the 1797 handwritten digits that come with scikit-learn. Writes build/quickstart.png.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "runtime" / "python"))  # where the package is not installed
import altgrad  # noqa: E402

BATCH, LR, DECAY = 128, 2e-3, 1e-2


def progress(name, done, of, loss):
    if sys.stderr.isatty() and not os.environ.get("CI"):
        bar = "#" * (30 * done // of)
        print(f"\r  {name:<24}[{bar:<30}] loss {loss:.4f} ", end="" if done < of else "\n", file=sys.stderr, flush=True)


def load(device):
    digits = load_digits()
    split = train_test_split(digits.data / 16.0, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
    x, x_test = (torch.tensor(part, dtype=torch.float32, device=device) for part in split[:2])
    y, y_test = (torch.tensor(part, dtype=torch.long, device=device) for part in split[2:])
    return x, y, x_test, y_test


def make_model(device):
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)).to(device)


def train(name, make_optimizer, data, epochs):
    """losses of every step, accuracy on the digits held out, milliseconds of optimizer.step(), the model."""
    x, y, x_test, y_test = data
    model = make_model(x.device)
    optimizer = make_optimizer(model.parameters())
    shuffle = torch.Generator().manual_seed(1)
    wait = torch.cuda.synchronize if x.is_cuda else lambda: None
    losses, times = [], []
    for epoch in range(epochs):
        for batch in torch.randperm(len(x), generator=shuffle).to(x.device).split(BATCH):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(x[batch]), y[batch])
            loss.backward()
            wait()
            start = time.perf_counter()
            optimizer.step()
            wait()
            times.append((time.perf_counter() - start) * 1e3)
            losses.append(loss.item())
        progress(name, epoch + 1, epochs, losses[-1])
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    return {"losses": losses, "accuracy": accuracy, "ms": statistics.median(times[5:]), "model": model}


def choose_device():
    """A GPU where altgrad.optim takes its tensors, else the CPU."""
    if torch.cuda.is_available():
        probe = torch.nn.Parameter(torch.ones(8, device="cuda"))
        probe.grad = torch.ones_like(probe)
        try:
            altgrad.optim.AdamW([probe]).step()
            return torch.device("cuda")
        except (TypeError, ValueError, NotImplementedError, altgrad.Error) as error:
            print(f"  on the CPU: altgrad.optim says of CUDA tensors: {error}")
    return torch.device("cpu")


def plot(runs, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), width_ratios=[3, 1])
    for (name, run), style in zip(runs.items(), ("-", "--")):
        left.semilogy(run["losses"], style, label=name, linewidth=1.3)
    left.set_xlabel("step")
    left.set_ylabel("training loss")
    left.set_title("handwritten digits, 64-256-256-10, same seed", fontsize=10)
    left.legend()
    bars = right.bar(["torch\nfused", "altgrad"], [run["ms"] for run in runs.values()], color=["C0", "C1"])
    right.bar_label(bars, fmt="%.3f", fontsize=8)
    right.set_title("optimizer.step(), ms", fontsize=10)
    right.margins(y=0.15)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=20, help="passes over the data (default 20)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "quickstart.png",
                        help="the picture to write (default build/quickstart.png)")
    options = parser.parse_args()
    device = choose_device()
    torch.use_deterministic_algorithms(True, warn_only=True)
    data = load(device)
    choice = {"lr": LR, "weight_decay": DECAY}
    makers = {"torch.optim.AdamW": lambda params: torch.optim.AdamW(params, fused=True, **choice),
              "altgrad.optim.AdamW": lambda params: altgrad.optim.AdamW(params, **choice)}
    runs = {name: train(name, maker, data, options.epochs) for name, maker in makers.items()}
    theirs, ours = runs.values()
    apart = max((a - b).abs().max().item() for a, b in zip(theirs["model"].parameters(), ours["model"].parameters()))
    final = {name: statistics.mean(run["losses"][-11:]) for name, run in runs.items()}

    print(f"  {'':<22}" + "".join(f"{name:>22}" for name in ("torch fused", "altgrad")))
    print(f"  {'loss, last epoch':<22}" + "".join(f"{value:>22.6f}" for value in final.values()))
    print(f"  {'accuracy, held out':<22}" + "".join(f"{run['accuracy']:>21.2%} " for run in runs.values()))
    print(f"  {'step, median':<22}" + "".join(f"{run['ms']:>19.3f} ms" for run in runs.values()))
    print(f"  after {len(ours['losses'])} steps on the {device.type} "
          + (f"no weight differs by more than {apart:.1e}" if apart else "all weights are equal bit for bit"))
    plot(runs, options.out)
    print(f"  wrote {options.out}")


if __name__ == "__main__":
    main()
