#!/usr/bin/env python3
"""Predicts how long AdamW's step takes on a GPU, from the machine code of its kernels. Nothing here is measured.

    tools/gpu_model.py                    the table of tools/Measured.md, for an H200
    tools/gpu_model.py --machine H100     or A100
    tools/gpu_model.py --json             the same numbers as JSON
    tools/gpu_model.py --unaligned        the cost of gradients whose memory begins one element after a boundary
    tools/gpu_model.py --gate             the limits that tests/gpumodel sets, and the stock kernels that break one
    tools/gpu_model.py --instructions     instructions for each element, in each pass of every stock step
"""

import argparse
import json
import os
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv" / "bin" / "python"
sys.path.insert(0, str(ROOT / "tests" / "gpumodel"))
import cases  # noqa: E402
import machine  # noqa: E402
import rules  # noqa: E402
import sass  # noqa: E402
from steps import Shape, Step  # noqa: E402

SHAPES = [Shape("1 M", 1, 10**6), Shape("10 M", 1, 10**7), Shape("100 M", 1, 10**8), Shape("1 G", 1, 10**9),
          Shape("1000 × 1024", 1000, 1024)]
STORAGES = {"f32": "param=f32 grad=f32 states=param", "bf16": "param=bf16 grad=bf16 states=param",
            "bf16 + master": "param=bf16 grad=bf16 master=f32"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--machine", default="H200", help="the GPU, by its name in the machines' file")
    parser.add_argument("--machines", help="a file of GPUs, in the form of tests/gpumodel/machines.json (the default)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--unaligned", action="store_true", help="print the cost of unaligned gradients")
    parser.add_argument("--gate", action="store_true", help="check the limits of tests/gpumodel")
    parser.add_argument("--instructions", action="store_true", help="count instructions")
    parser.add_argument("--only", default="", help="with --instructions: only steps whose request has all of these words, separated by commas")
    parser.add_argument("--every", type=int, default=1, help="with --gate: only every N-th step")
    return parser.parse_args()


def rows(target, unaligned=False):
    """(name, [(predicted seconds between two events, share of the copy rate) for each shape]) of each step in the table;
    of unaligned gradients the times that aligned ones take instead of the share."""
    def cell(step, shape):
        aligned = step.measured_seconds(shape)
        if not unaligned:
            return aligned, step.copies(shape) / aligned
        slow = step.measured_seconds(shape, unaligned=True)
        return slow, slow / aligned

    with tempfile.TemporaryDirectory() as folder:
        for name, storage in STORAGES.items():
            for way, flags in (("", []), (", clip", ["--clip"])):
                step = Step([f"--set=rule=adamw {storage} step=f32", *flags], target, folder)
                if step.faults:
                    sys.exit("\n".join(fault for _, fault in step.faults))
                yield name + way, [cell(step, shape) for shape in SHAPES]


def spoken(seconds):
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-4 else f"{seconds * 1e3:.2f} ms"


def table(target, unaligned):
    times = " ×" if unaligned else ""
    print(f"AdamW on {target.name}, {target.target}, model, not measured: {target.processors} SMs at {target.clock_ghz} GHz, "
          f"a copy at {target.copy_tb_s} TB/s, {target.memory_cycles} cycles to memory and {target.cache_cycles} to L2, "
          f"{target.first_launch_us} µs before the first launch and {target.launch_us} µs between two." + unaligned * " Gradients begin an element behind 16 bytes; in brackets times aligned ones." + "\n")
    print("| | " + " | ".join(shape.name for shape in SHAPES) + " |\n|" + "---|" * (len(SHAPES) + 1))
    for name, cells in rows(target, unaligned):
        print(f"| {name} | " + " | ".join(f"{spoken(t)} ({share:.2f}{times})" for t, share in cells) + " |", flush=True)


def gate(machines, every):
    count = 0
    for request, target in cases.some(every):
        with tempfile.TemporaryDirectory() as folder:
            for miss in rules.misses(Step(request, machines[target], folder)):
                print(miss, flush=True)
                count += 1
    print(f"{len(cases.some(every))} steps, {count} misses")


def instructions(target, words):
    """Of the loop over a chunk's vectors, where quick bodies serve and where every guard says no; then of the whole chunk,
    for an element and for the bytes it moves, which is what the gate bounds."""
    print("| sweep | registers | loop | guards say no | chunk | a byte | bound |\n|---|---|---|---|---|---|---|")
    for request, on in cases.every():
        if on != target.target or not all(word in " ".join(request) for word in words):
            continue
        with tempfile.TemporaryDirectory() as folder:
            step = Step(request, target, folder)
        for phase in step.of("sweep"):
            sweep = step.sweeps.get(phase["symbol"])
            if not sweep:
                print(f"| {step.name}: {phase['name']} | not modelled |", flush=True)
                continue
            loop, exact = (len(way) / sweep.elements() for way in (sweep.loop, sweep.exact()))
            byte = sweep.instructions_per_byte()
            print(f"| {step.name}: {phase['name']} | {sweep.registers} | {loop:.1f} | {exact:.1f} | {byte * sweep.bytes:.1f} "
                  f"| {byte:.2f} | {target.instructions_per_byte() / 2:.2f} |", flush=True)


def main():
    options = arguments()
    for name in ("ptxas", "cuobjdump", "nvdisasm"):
        sass.tool(name)
    machines = machine.machines(*([options.machines] if options.machines else []))
    if options.machine not in machines:
        sys.exit(f"no machine '{options.machine}'; there are {', '.join(machines)}")
    target = machines[options.machine]
    if options.gate:
        gate(machine.strictest(machines), options.every)
    elif options.instructions:
        instructions(target, [word for word in options.only.split(",") if word])
    elif options.json:
        names = [shape.name for shape in SHAPES]
        share = "times aligned" if options.unaligned else "share"
        cells = {name: [{"shape": s, "seconds": t, share: r} for s, (t, r) in zip(names, row)]
                 for name, row in rows(target, options.unaligned)}
        print(json.dumps({"model": True, "machine": vars(target), "steps": cells}, indent=1))
    else:
        table(target, options.unaligned)


if __name__ == "__main__":
    try:
        main()
    except sass.MissingTool as missing:
        if not VENV.exists() or sys.prefix == str(VENV.parents[1]):
            sys.exit(str(missing))
        os.execv(VENV, [str(VENV), *sys.argv])  # its triton has the tools
