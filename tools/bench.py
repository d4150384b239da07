#!/usr/bin/env python3
"""Measures steps on the CPU: altgrad's, torch's, other libraries', and a loop that only moves the same bytes (the floor).

The candidates of a case take turns within each round, so that a busy machine slows all of them.

    tools/bench.py --quick                small tensors, few rounds: does it run?
    tools/bench.py                        the whole table; about 15 minutes on 2 cores
    tools/bench.py --only 64M,f32,clip    the cases whose name has all of these words
    tools/bench.py --only ops             altgrad.ops beside torch's functions for gradients
    tools/bench.py --only grid            GridOptim beside the same formulas in torch
    tools/bench.py --only factored        Adafactor beside torch's and transformers'
    tools/bench.py --only rounding        AdamW with stochastic rounding and with 8-bit states, beside torch's and torchao's
    tools/bench.py --only experts         64 experts of which 8 have gradients, in turn and always the same
    tools/bench.py --only host            bf16 gradients and weights, f32 masters and moments, beside the kernels of each --folder
    tools/bench.py --only copies          AdamW that writes an MXFP8 copy, beside a second pass that makes it
    tools/bench.py --only steps           one tensor of 64 elements, beside another checkout's step: --before FOLDER
"""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv" / "bin" / "python"
try:
    import torch
except ImportError:
    if not VENV.exists() or sys.prefix == str(VENV.parents[1]):
        sys.exit("tools/bench.py needs torch; tools/quickstart.sh installs it")
    os.execv(VENV, [str(VENV), *sys.argv])

sys.path.insert(0, str(ROOT / "runtime" / "python"))
from bench import (backward, candidates, copies, experts, factored, floor, grid, host, latency, measure, ops, program, report,  # noqa: E402
                   rounding, steps)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="use small tensors and 3 rounds: does everything run?")
    parser.add_argument("--only", default="", help="only cases whose name has all of these words, separated by commas; "
                        "'latency' measures compile times, 'backward' iterations with norm_in_backward")
    parser.add_argument("--without", default="", help="candidates to leave out, separated by commas")
    parser.add_argument("--folder", default=[], action="append", help="a checkout of DeepSpeed or prime-rl, whose kernel steps "
                        "masters on the host; may be given again")
    parser.add_argument("--before", help="a checkout of altgrad, beside whose steps those of this one are measured")
    parser.add_argument("--rounds", type=int, help="rounds for each case (default 25)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)), help="threads of every candidate (default: all cores)")
    parser.add_argument("--clock", choices=measure.CLOCKS, default="wall", help="'cpu' counts processor time, for machines on which others work; it needs --threads 1")
    parser.add_argument("--processes", type=int, default=15, help="processes that measure compile times (default 15)")
    return parser.parse_args()


def progress(title):
    """A line that is overwritten, on a terminal alone."""
    if not sys.stderr.isatty() or os.environ.get("CI"):
        return lambda done, of: None
    return lambda done, of: print(f"\r{title}: round {done + 1} of {of} ", end="", file=sys.stderr, flush=True)


def wanted(name, only):
    return all(word in name.replace("+", " ").split() + name.split() for word in only)


def libtorch(count, size, threads):
    """The C++ front end, where its benchmark was built: medians of torch's fused kernel and of altgrad::optim::AdamW."""
    places = [ROOT / "build" / folder / "altgrad-libtorch-bench" for folder in ("bin", "tests", "tests/libtorch")]
    found = next((place for place in places if place.exists()), None)
    if not found:
        print("\nskipped: LibTorch (no build/bin/altgrad-libtorch-bench)")
        return None
    done = subprocess.run([found, str(count), str(size)], capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": str(threads)})
    rows = [line.split() for line in done.stdout.splitlines() if " ms " in line]
    medians = {row[0]: float(row[1]) for row in rows}
    torch_ms, ours = medians.get("at::_fused_adamw_"), medians.get("altgrad::optim::AdamW")
    if done.returncode or not torch_ms or not ours:
        print(f"\nskipped: LibTorch ({found.name} ended with {done.returncode}: {(done.stderr or done.stdout).strip()})")
        return None
    return {"torch": torch_ms, "altgrad": ours, "of_kernel": torch_ms / ours}


def print_libtorch(title, result, rows):
    """Beside both: torch.optim.AdamW(fused=True), which C++ does not have, and the bare kernel it calls."""
    fused = rows["torch fused"]["ms"]
    result["of_fused"] = fused / result["altgrad"]
    print(f"\n{title} from LibTorch: {result['altgrad']:.3f} ms; torch.optim's fused {fused:.3f} ms "
          f"({result['of_fused']:.2f} x), at::_fused_adamw_ alone {result['torch']:.3f} ms ({result['of_kernel']:.2f} x)")


def main():
    options = arguments()
    only = [word for word in options.only.split(",") if word]
    torch.set_num_threads(options.threads)
    os.environ.setdefault("ALTGRAD_OPT", str(program.compiler()))
    data = {"machine": {**report.machine(), "clock": options.clock}, "cases": {}, "latency": {}, "libtorch": None, "backward": {}}
    report.print_machine(data["machine"])
    if options.threads > 1 and not floor.torch_parallel_for():
        print("warning: this torch does not export torch_parallel_for; the floor runs on one thread")
    makers = {name: maker for name, maker in candidates.makers().items() if name not in options.without.split(",")}
    workloads = candidates.QUICK if options.quick else candidates.WORKLOADS
    rounds = options.rounds or (3 if options.quick else 25)
    for workload, shape in workloads.items():
        for dtype in candidates.DTYPES:
            for mode in candidates.MODES:
                name = f"{workload} {dtype} {mode}"
                if not wanted(name, only):
                    continue
                show = progress(name)
                times = measure.run_case(makers, shape, dtype, mode, rounds, options.clock, show)
                if sys.stderr.isatty():
                    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
                data["cases"][name] = measure.summarise(times)
                report.print_case(name, data["cases"][name])
    data["ops"] = {}
    for workload, shape in workloads.items():
        for dtype in candidates.DTYPES:
            for op in ops.OPS:
                name = f"ops {workload} {dtype} {op}"
                if wanted(name, only):
                    data["ops"][name] = ops.run(name, shape, dtype, op, rounds, options.clock, progress(name))
    data["rounding"] = {}
    for workload, shape in rounding.WORKLOADS.items():
        if wanted(name := f"rounding {workload}", only):
            data["rounding"][name] = rounding.run(name, shape, rounds, options.clock, progress(name))
    data["grid"] = {}
    for name in grid.CASES:
        if wanted(name, only):
            data["grid"][name] = grid.run(name, rounds, options.clock, progress(name))
    data["factored"] = {name: factored.run(name, rounds, options.clock, progress(name))
                        for name in factored.CASES if wanted(name, only)}
    data["host"] = {}
    for name, workload in host.cases(options.quick):
        if wanted(name, only):
            data["host"][name] = host.run(name, workload, rounds, options.clock, progress(name), options.folder)
    data["copies"] = {}
    for workload, shape in copies.WORKLOADS.items():
        if wanted(name := f"copies {workload}", only):
            data["copies"][name] = copies.run(name, shape, rounds, options.clock, progress(name))
    data["steps"] = {name: steps.run(name, rounds, options.clock, progress(name), options.before)
                     for name in steps.CASES if wanted(name, only)}
    data["experts"] = {name: experts.run(name, rounds, options.clock, progress(name))
                       for name in experts.CASES if wanted(name, only)}
    small = data["cases"].get("1000x1024 f32 plain", {})
    if "torch fused" in small:
        data["libtorch"] = libtorch(1000, 1024, options.threads)
        if data["libtorch"]:
            print_libtorch("1000x1024 f32 plain", data["libtorch"], small)
    for name in backward.MODELS if not only or "backward" in only else ():
        for word, dtype in candidates.DTYPES.items():
            found = data["backward"][f"{name} {word}"] = backward.measure(
                name, dtype, options.rounds or (5 if options.quick else 25), measure.CLOCKS[options.clock])
            backward.show(f"{name} {word}", found)
    if not only or "latency" in only:
        data["latency"] = latency.measure(3 if options.quick else options.processes, options.clock)
        print()
        for case, row in data["latency"].items():
            print(f"{case:<34}{row['ms']:9.2f}{row['best']:9.2f}   ms, {options.clock} time, median and best; compiles in fresh processes")
    if not options.quick:
        report.print_aims(data["cases"], data["latency"], latency.AIMS, data["libtorch"])
    print()
    stem = ROOT / "build" / "bench" / ("quick" if options.quick else "part" if only else "bench")
    report.write_json(stem.with_suffix(".json"), data)
    if data["cases"]:
        report.write_plot(stem.with_suffix(".png"), data)


if __name__ == "__main__":
    main()
