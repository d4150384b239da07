#!/usr/bin/env python3
"""Measures steps of Muon or AdamW: altgrad's beside torch.optim's, in turn, in one run, on the same GEMM.

    tools/bench_muon.py                              the table of shapes; some minutes on 2 cores
    tools/bench_muon.py --shape 1024x4096            one shape; 12@768x3072 is twelve of them, + joins several
    tools/bench_muon.py --dim 512 --runs 9           512 x 512
    tools/bench_muon.py --threads 1 --clock cpu      processor time, while others use the machine
    tools/bench_muon.py --rule adamw --shape 1024x4096 --dtype bf16

--dtype is that of the products; of parameters and states with AdamW. torch.optim.Muon knows bfloat16 alone: with f32 its
own code runs with one word changed, which is what is fair where a CPU has no products in bfloat16.
"""

import argparse
import functools
import inspect
import os
import pathlib
import statistics
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv" / "bin" / "python"
try:
    import torch
except ImportError:
    if not VENV.exists() or sys.prefix == str(VENV.parents[1]):
        sys.exit("tools/bench_muon.py needs torch; tools/quickstart.sh installs it")
    os.execv(VENV, [str(VENV), *sys.argv])

sys.path.insert(0, str(ROOT / "runtime" / "python"))
from bench import measure, program, report  # noqa: E402

GPT = "+".join(["12@2304x768", "12@768x768", "12@3072x768", "12@768x3072"])  # 124 M: 85 M of them in matrices
TABLE = "1024x4096", "2048x5464", GPT, "200@256x256"
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rule", choices=("muon", "adamw"), default="muon", help="whose step (default muon)")
    parser.add_argument("--shape", help="[count@]rows x columns, as 1024x4096 or 12@768x768+12@768x3072")
    parser.add_argument("--dim", type=int, help="rows and columns of one square matrix")
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help="of the products, or of AdamW's tensors")
    parser.add_argument("--steps", type=int, default=1, help="steps in one run (default 1)")
    parser.add_argument("--warmup", type=int, default=1, help="steps before the first run (default 1)")
    parser.add_argument("--runs", type=int, default=5, help="runs of each candidate, in turn (default 5)")
    parser.add_argument("--device", default="cpu", help="torch's name of the device (default cpu)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="default: all cores")
    parser.add_argument("--clock", choices=measure.CLOCKS, default="wall", help="'cpu' counts processor time, for machines "
                        "on which others work; it needs --threads 1")
    return parser.parse_args()


def shapes_of(text):
    """"12@768x3072+2x3" as a list of pairs."""
    found = []
    for part in text.split("+"):
        count, _, shape = part.rpartition("@")
        found += [tuple(int(side) for side in shape.split("x"))] * int(count or 1)
    return found


def flops_of(shapes):
    """Of torch's form: five steps of three products."""
    sides = [sorted(shape) for shape in shapes]
    return sum(20 * n * n * m + 10 * n ** 3 for n, m in sides)


@functools.cache  # what is run in its place has no source
def multiply_in(dtype):
    """Has torch.optim.Muon multiply in `dtype`."""
    import torch.optim._muon as module
    source = inspect.getsource(module._zeropower_via_newtonschulz)
    assert source.count("grad.bfloat16()") == 1, "torch's code is another one now"
    exec(source.replace("grad.bfloat16()", f"grad.to({dtype}, copy=True)"), module.__dict__)


def torch_muon(params, dtype):
    """torch.optim.Muon, its products in `dtype`."""
    if dtype != torch.bfloat16:
        multiply_in(dtype)
    return torch.optim.Muon(params, lr=1e-6)


def our_muon(params, dtype):
    import altgrad
    return altgrad.optim.Muon(params, lr=1e-6, orthogonalize=altgrad.optim.NewtonSchulz(dtype=dtype))


def adamw(module, params, **given):
    return module.AdamW(params, lr=1e-6, **given)


def makers(rule):
    import altgrad
    if rule == "muon":
        return {"torch": torch_muon, "altgrad": our_muon}
    return {"torch": lambda params, _: adamw(torch.optim, params, fused=True),
            "altgrad": lambda params, _: adamw(altgrad.optim, params)}


def optimizer_of(make, shapes, options):
    dtype = DTYPES[options.dtype]
    drawn = torch.Generator().manual_seed(1)
    stored = torch.float32 if options.rule == "muon" else dtype
    params = [torch.nn.Parameter(torch.randn(shape, generator=drawn).to(options.device, stored)) for shape in shapes]
    for param in params:
        param.grad = torch.randn(param.shape, generator=drawn).to(options.device, stored)
    return make(params, dtype)


def milliseconds(optimizer, steps, options):
    """Of one step."""
    clock = measure.CLOCKS[options.clock]
    wait = torch.cuda.synchronize if options.device.startswith("cuda") else lambda: None
    wait()
    start = clock()
    for _ in range(steps):
        optimizer.step()
    wait()
    return (clock() - start) * 1e3 / steps


def run(text, options):
    """name -> milliseconds of each run."""
    shapes = shapes_of(text)
    optimizers = {name: optimizer_of(make, shapes, options) for name, make in makers(options.rule).items()}
    for optimizer in optimizers.values():
        milliseconds(optimizer, max(1, options.warmup), options)
    times = {name: [] for name in optimizers}
    for turn in range(options.runs):
        for name in list(optimizers)[::-1 if turn % 2 else 1]:
            times[name].append(milliseconds(optimizers[name], options.steps, options))
    return times


def title_of(text):
    return f"{len(shapes_of(text))} of a 124 M GPT" if text == GPT else text if len(text) <= 30 else text[:27] + "..."


def show(text, times, options):
    ratios = sorted(one / other for one, other in zip(times["torch"], times["altgrad"]))
    medians = {name: statistics.median(series) for name, series in times.items()}
    words = f"{title_of(text):<30}{medians['torch']:11.2f}{medians['altgrad']:11.2f}{statistics.median(ratios):8.2f} x"
    words += f"   {ratios[0]:.2f} to {ratios[-1]:.2f}"
    if options.rule == "muon":
        flops = flops_of(shapes_of(text))
        words += f"{flops / 1e9:12.1f}{flops / 1e6 / medians['altgrad']:10.1f}"
    print(words, flush=True)


def main():
    options = arguments()
    torch.set_num_threads(options.threads)
    os.environ.setdefault("ALTGRAD_OPT", str(program.compiler()))
    report.print_machine({**report.machine(), "clock": options.clock})
    print(f"{options.rule}, {options.dtype}, {options.device}; ms of a step, medians of {options.runs}"
          + ("; GFLOP of torch's form, and altgrad's rate as if it did these" if options.rule == "muon" else ""))
    head = f"{'':<30}{'torch':>11}{'altgrad':>11}{'ratio':>8}     least to most"
    print(head + ("    GFLOP   GFLOP/s" if options.rule == "muon" else ""))
    chosen = [f"{options.dim}x{options.dim}"] if options.dim else [options.shape] if options.shape else TABLE
    for text in chosen:
        show(text, run(text, options), options)


if __name__ == "__main__":
    main()
