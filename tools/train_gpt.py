#!/usr/bin/env python3
"""Trains a GPT on this repository's text under several optimizers and compares loss, memory and speed.

On a CPU it is a small GPT in float32, of a minute or two for each optimizer; on a GPU it has the 124 million parameters of
GPT-2 and runs under autocast to bfloat16. Every optimizer has a process of its own, the same initial weights and the same
batches. Its peak of memory is counted above what Python, torch and altgrad take. bitsandbytes and torchao take part where
they are installed.

It prints a table and draws the losses, with matplotlib, into build/train_gpt/losses.svg; build/train_gpt/runs.json has the
figures.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "runtime" / "python")]
from altgrad import optim  # noqa: E402
from pictures.gpt import GPT, GPT2, SMALL, draw_starts, held_out, loss_of, rate_of  # noqa: E402
from pictures.text import Text  # noqa: E402

# The rates of a small GPT are the best of three of AdamW's and K. Jordan's for Muon; those of GPT-2 are usual ones.
RATES = {"cpu": {"adamw": 1.6e-2, "muon": 0.02}, "cuda": {"adamw": 6e-4, "muon": 0.02}}


def adamw(kind, **words):
    return lambda model, rates: kind(model.parameters(), lr=rates["adamw"], betas=(0.9, 0.95), weight_decay=0.1, **words)


def muon(model, rates):
    dtype = torch.bfloat16 if model.head.weight.is_cuda else torch.float32
    return optim.Muon(model.parameters(), lr=rates["muon"], weight_decay=0.1, use_muon=set(model.matrices()).__contains__,
                      adamw={"lr": rates["adamw"], "betas": (0.9, 0.95)}, orthogonalize=optim.NewtonSchulz(dtype=dtype))


def of_package(package, path):
    """A maker of another library's class, which is imported when it is used."""
    def make(model, rates):
        module, name = path.rsplit(".", 1)
        return adamw(getattr(importlib.import_module(module), name))(model, rates)
    make.package = package
    return make


MAKERS = {
    "torch AdamW fused": adamw(torch.optim.AdamW, fused=True),
    "altgrad AdamW": adamw(optim.AdamW),
    "altgrad AdamW8bit": adamw(optim.AdamW8bit),
    "altgrad AdamW4bit": adamw(optim.AdamW4bit),
    "altgrad Muon + AdamW": muon,
    "bitsandbytes AdamW8bit": of_package("bitsandbytes", "bitsandbytes.optim.AdamW8bit"),
    "torchao AdamW8bit": of_package("torchao", "torchao.optim.AdamW8bit"),
}


def installed():
    return [name for name, make in MAKERS.items() if importlib.util.find_spec(getattr(make, "package", "torch"))]


def now(device):
    """Seconds: of the processor on a CPU, which other programs do not lengthen, and of the clock on a GPU."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def resident():
    """The most memory that the process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def state_bytes(optimizer):
    """Of all states, also where a tensor is a subclass with tensors inside, as torchao's."""
    def size(value):
        inner = getattr(value, "__tensor_flatten__", None)
        return sum(size(getattr(value, name)) for name in inner()[0]) if inner else value.nbytes
    return sum(size(value) for held in optimizer.state.values() for value in held.values() if isinstance(value, torch.Tensor))


def train(name, device, steps, seed):
    """The figures of one run."""
    if device == "cpu":
        torch.set_num_threads(1)
    torch.manual_seed(seed)
    before_all = resident()  # of a GPU nothing yet
    size = SMALL if device == "cpu" else GPT2
    model, codes = GPT(size).to(device), Text(10_000_000).codes.to(device)
    optimizer, draws = MAKERS[name](model, RATES[device]), torch.Generator().manual_seed(seed)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: rate_of(step, steps))
    losses, in_steps, begun, spent = [], 0.0, None, 0.0
    for step in range(steps):
        if step == min(5, steps - 1):  # compilers and caches are warm
            begun, in_steps = now(device), 0.0
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = loss_of(model, codes, draw_starts(codes, size, draws))
        loss.backward()
        before = now(device)
        optimizer.step()
        in_steps += now(device) - before
        optimizer.zero_grad()
        schedule.step()
        losses.append(loss.item())
    counted, spent = steps - min(5, steps - 1), now(device) - begun
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else resident() - before_all
    return {"losses": losses, "held_out": held_out(model, codes), "tokens_per_second": counted * size.batch * size.context / spent,
            "step_ms": 1e3 * in_steps / counted, "states_mb": state_bytes(optimizer) / 1e6, "peak_mb": peak / 1e6,
            "parameters": sum(param.numel() for param in model.parameters())}


def run_alone(name, options):
    """The same in a process of its own, whose peak of memory is that of this run."""
    words = [sys.executable, __file__, "--run", name, "--device", options.device, "--steps", str(options.steps),
             "--seed", str(options.seed)]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    if done.returncode:
        sys.exit(f"train_gpt.py: {name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


def print_table(runs, options):
    first = next(iter(runs.values()))
    clock = "processor second, one thread" if options.device == "cpu" else "second"
    print(f"{first['parameters'] / 1e6:.1f} M parameters, {options.steps} steps on {options.device}; tokens per {clock}")
    print(f"{'optimizer':<24}{'held out':>10}{'states MB':>11}{'peak MB':>9}{'step ms':>9}{'tokens/s':>10}")
    for name, run in runs.items():
        print(f"{name:<24}{run['held_out']:>10.3f}{run['states_mb']:>11.2f}{run['peak_mb']:>9.0f}{run['step_ms']:>9.2f}"
              f"{run['tokens_per_second']:>10.0f}")


def draw(runs, path):
    from matplotlib.figure import Figure
    figure = Figure(figsize=(8, 4), layout="constrained")
    axis = figure.subplots()
    for name, run in runs.items():
        window = max(1, len(run["losses"]) // 40)
        smooth = [sum(run["losses"][max(0, at - window):at + 1]) / (at + 1 - max(0, at - window)) for at in range(len(run["losses"]))]
        axis.plot(range(1, len(smooth) + 1), smooth, linewidth=1.2, label=f"{name}: {run['held_out']:.3f}")
    axis.set(xlabel="step", ylabel="loss, nats for a letter", yscale="log")
    axis.grid(alpha=0.3, which="both")
    axis.legend(title="text that is held out", fontsize="small", loc="upper left", bbox_to_anchor=(1.0, 1.0))
    figure.savefig(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(installed()), help="optimizers, separated by commas (default: all that are installed)")
    parser.add_argument("--steps", type=int, default=400, help="steps of each run (default 400)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default 0)")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu",
                        help="where it runs (default: a GPU if there is one)")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "train_gpt", help="the folder to write to (default build/train_gpt)")
    parser.add_argument("--run", help="one optimizer, whose figures are printed as JSON (used by this program)")
    options = parser.parse_args()
    if options.steps < 1:
        parser.error(f"--steps is {options.steps}; it is at least 1")
    if options.run:
        print(json.dumps(train(options.run, options.device, options.steps, options.seed)))
        return
    wanted = [part.strip() for part in options.only.split(",")]
    if unknown := [name for name in wanted if name not in MAKERS]:
        parser.error(f"no optimizer is called {unknown[0]!r}; there are {'; '.join(installed())}")
    runs = {name: run_alone(name, options) for name in wanted}
    print_table(runs, options)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "runs.json").write_text(json.dumps(runs, indent=1))
    draw(runs, options.out / "losses.svg")
    print(f"wrote {options.out / 'losses.svg'}")


if __name__ == "__main__":
    main()
