#!/usr/bin/env python3
"""Records the bytes of parameters and states after 20 steps, and compares two recordings. Equal recordings show that
a change of the runtime or of the compiler changed no bit.

    tools/step_bytes.py record before.json      # CPU, and sm_80 and sm_90 on the test driver
    tools/step_bytes.py compare before.json after.json

Every class, dtype and storage, without and with clip, loss scaler and statistics, on the CPU also with each of
these alone, makes 20 steps on tensors of several sizes; one gradient is absent in some of them. A recording has
a SHA-256 of each, or the kind of error. It takes some minutes; --only WORD records the cases whose names have
the word.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {"cpu": {}, "sm_80": {"FAKE_CUDA_CAPABILITY": "80"}, "sm_90": {"FAKE_CUDA_CAPABILITY": "90"}}
CLASSES = ("ADOPT", "Adagrad", "Adam", "AdamW", "AdamW4bit", "AdamW8bit", "AdamWFp8", "AdEMAMix", "GridOptim", "LAMB",
           "Lion", "Lion8bit", "LionFp8", "ManifoldAdamW", "RMSprop", "SGD")
OPTIONS = {"GridOptim": {"seed": 3}, "SGD": {"momentum": 0.9}, "AdamW amsgrad": {"amsgrad": True}}
RULES = ("adamw", "lion", "lamb")
STORAGES = ("states=bf16", "states=bf16,stochastic", "param=bf16,stochastic", "param=bf16 master=f32",
            "master=bf16+i16", "copy=mxfp8", "m=ocp.e4m3fn:128")
DTYPES = ("float32", "bfloat16", "float16")
ADDED = {"": {}, "clip": {"max_grad_norm": 1.0}, "scaler": {"fused_amp": True}, "statistics": {"statistics": True},
         "all": {"max_grad_norm": 1.0, "fused_amp": True, "statistics": True}}
SIZES = ((4100,), (33, 32), (7,))
STEPS = 20


def cases():
    """(name, class or rule, storage, dtype, what is added) of everything that is recorded."""
    for dtype in DTYPES:
        for added in ADDED:
            for name in (*CLASSES, "AdamW amsgrad"):
                yield f"{name} {dtype} {added}".strip(), name, None, dtype, added
        for rule in RULES:
            for storage in STORAGES:
                for added in ("", "all"):
                    yield f"{rule} [{storage}] {dtype} {added}".strip(), rule, storage, dtype, added


def make(name, storage, params, added):
    import altgrad
    if storage:
        drawn = {"seed": 3} if "stochastic" in storage else {}
        return altgrad.optim.FromRule(name, storage=storage)(params, lr=1e-2, **drawn, **added)
    return getattr(altgrad.optim, name.split()[0])(params, lr=1e-2, **OPTIONS.get(name, {}), **added)


def run(name, storage, dtype, added):
    """The SHA-256 of everything that the steps have left."""
    import torch
    generator = torch.Generator().manual_seed(1)
    random = lambda size: torch.randn(size, generator=generator)
    params = [torch.nn.Parameter(random(size).to(getattr(torch, dtype))) for size in SIZES]
    optimizer = make(name, storage, params, ADDED[added])
    for step in range(STEPS):
        for place, param in enumerate(params):
            grad = random(param.shape).to(param.dtype)
            param.grad = None if step in (5, 6, 11) and place == step % 3 else grad
        if optimizer.fused_amp:
            optimizer.grad_scale, optimizer.found_inf = torch.full((1,), 4.0), torch.zeros(1)
            optimizer.found_inf += step == 8
        optimizer.step()
    digest = hashlib.sha256()
    for param in params:
        held = optimizer.state.get(param, {})
        for key, value in [("", param.detach()), *sorted(held.items())]:
            value = torch.as_tensor(value).contiguous()
            digest.update(f"{key} {value.dtype} {tuple(value.shape)}".encode())
            digest.update(value.view(-1).view(torch.uint8).numpy().tobytes())
    if optimizer.grad_norm is not None:
        digest.update(optimizer.grad_norm.numpy().tobytes())
    return digest.hexdigest()


def part(target, only, first, stride):
    """In a process of its own: every `stride`-th case as JSON lines."""
    import torch
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for name, *words in list(cases())[first::stride]:
        if only in name and (words[-1] in ("", "all") or target == "cpu"):
            try:
                found = run(*words)
            except (TypeError, ValueError, RuntimeError) as error:
                found = f"refused: {type(error).__name__}"
            print(json.dumps([name, found]), flush=True)


def record(file, targets, only, build, jobs):
    usual = {**os.environ, "ALTGRAD_OPT": str(build / "bin/altgrad-opt"), "ALTGRAD_LIBRARY": str(
        build / "lib/libaltgrad.so"), "PYTHONPATH": f"{ROOT}/runtime/python:{ROOT}/tests/standin"}
    driver = {"ALTGRAD_STANDS_FOR_CUDA": "cpu", "FAKE_CUDA_EAGER": "1", "FAKE_CUDA_HOST": "1",
              "LD_LIBRARY_PATH": str(build / "tests/cuda")}

    def child(place):
        target, first = place
        said = {} if target == "cpu" else {**driver, **TARGETS[target]}
        words = subprocess.run([sys.executable, __file__, "part", target, only, str(first), str(jobs)], check=True, text=True,
                               env={**usual, **said}, stdout=subprocess.PIPE).stdout
        return {f"{target} {name}": found for name, found in map(json.loads, words.splitlines())}

    with ThreadPoolExecutor(jobs) as pool:
        found = {}
        for one in pool.map(child, [(target, first) for target in targets for first in range(jobs)]):
            found.update(one)
    write(file, found)


def write(file, found):
    """Writes a recording: a digest, or why there is none, of each case."""
    Path(file).write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    refused = sum(value.startswith("refused") for value in found.values())
    print(f"{file}: {len(found)} cases, {refused} refused")


def compare(before, after):
    one, other = [json.loads(Path(file).read_text()) for file in (before, after)]
    differ = [name for name in sorted({**one, **other}) if one.get(name) != other.get(name)]
    for name in differ:
        print(f"{name}: {one.get(name)} {other.get(name)}")
    print(f"{len(one)} cases, {len(differ)} differ")
    return bool(differ)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record", help="make a recording")
    one.add_argument("file", help="the recording to write, as JSON")
    one.add_argument("--targets", default=",".join(TARGETS),
                     help=f"targets, separated by commas (default: {','.join(TARGETS)})")
    one.add_argument("--only", default="", help="only cases whose name has this word")
    one.add_argument("--build", type=Path, default=ROOT / "build", help="the build to record (default: build)")
    one.add_argument("--jobs", type=int, default=2, help="processes that record (default 2)")
    two = commands.add_parser("compare", help="compare two recordings; fail where they differ")
    two.add_argument("before", help="a recording")
    two.add_argument("after", help="another one")
    three = commands.add_parser("part", help="a share of a recording; what record starts by itself")
    three.add_argument("target", help="a target")
    three.add_argument("only", help="as --only")
    three.add_argument("first", type=int, help="the first case")
    three.add_argument("stride", type=int, help="from one case to the next")
    given = parser.parse_args()
    if given.command == "part":
        return part(given.target, given.only, given.first, given.stride)
    if given.command == "compare":
        return compare(given.before, given.after)
    return record(given.file, given.targets.split(","), given.only, given.build, given.jobs)


if __name__ == "__main__":
    sys.exit(main())
