"""What the compiler makes of some 190 requests, kept to be compared with what another compiler makes of them.

A rewrite that should change no kernel is proved so:
    python tests/differential/recording.py record BEFORE --compiler=OLD/altgrad-opt
    python tests/differential/recording.py record AFTER
    python tests/differential/recording.py diff BEFORE AFTER
A recording is a folder of bundles for all seven targets, with the PTX, the manifest and the machine code in them. `diff` names
each request of which one of these differs, shows the first lines that do, and ends with 1. Without PTX a bundle is only for hosts:
--targets=sm_90 records what one target gets.
"""

import argparse
import concurrent.futures
import ctypes
import difflib
import os
import pathlib
import subprocess
import sys

import program
import randomline
import templatecases

TARGETS = ["x86-64-v3", "x86-64-v4", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"]
RANDOM = range(1000, 1060)
NARROW = ["states=bnb8u:256 m=bnb8:256", "states=torchao4u:128 m=torchao4:128", "param=bf16 grad=bf16 master=bf16+i8 states=bf16",
          "copy=nvfp4", "copy=mxfp8,both", "copy=mxfp4", "copy=ocp.e4m3fn:128x128,pow2", "rungs=ocp.e4m3fn param=ocp.e4m3fn",
          "m=int8:64,softsign v=uint8:64,sqrt", "states=ocp.e4m3fn:32:ocp.e8m0", "param=bf16,stochastic32 states=bf16,stochastic",
          "copy=ocp.e4m3fn,delayed:4", "copy=ocp.e4m3fn,current,pow2", "copy=ocp.e2m1 states=ocp.e2m1:32"]


def requests():
    """Each request's name and the arguments of altgrad-opt."""
    modes = list(templatecases.MODES)
    for i, (rule, choices) in enumerate(templatecases.OPTIONS.items()):
        for j, storage in enumerate(templatecases.STORAGES):
            options, mode = choices[j % len(choices)], modes[(i + j) % len(modes)]
            words = templatecases.storage_words(rule, options, storage)
            yield f"{rule}-{options or 'plain'}-{storage}-{mode}", [
                f"--rule={rule}{{{options}}}", f"--storage={words}", *templatecases.MODES[mode]]
    for i, words in enumerate(NARROW):
        for rule in ("adamw", "ademamix") if "m=" not in words and "rungs" not in words else ("adamw",):
            yield f"narrow-{i}-{rule}", [f"--rule={rule}", f"--storage={words}", *(["--clip"] if i % 2 else [])]
    for seed in RANDOM:
        spec = randomline.generate(seed)
        sets = [f"--set=rule={one['rule']}{{{','.join(one['options'])}}} {' '.join(one['words'])}" for one in spec["sets"]]
        yield f"random-{seed}", [*sets, *spec["flags"]]
    for kind, flags in (("norm", ["--norm=l2"]), ("clip", ["--clip"]), ("value", ["--clip-value"]), ("unscale", ["--clip", "--unscale"])):
        yield f"gradients-{kind}", ["--set=grad=bf16", "--set=grad=f32", *flags]


def make(folder, compiler, targets, name, arguments):
    """The bundle of a request in a file, or the compiler's words in another."""
    done = subprocess.run([compiler, f"--rule-path={program.TEMPLATES}", *arguments, f"--target={','.join(targets)}",
                           "--emit=bundle", "-o", folder / f"{name}.so"], capture_output=True, text=True)
    if done.returncode:
        (folder / f"{name}.refused").write_text(done.stderr)


def record(folder, compiler, targets, every):
    folder.mkdir(parents=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        made = [pool.submit(make, folder, compiler, targets, name, arguments)
                for index, (name, arguments) in enumerate(requests()) if index % every == 0]
        for one in made:
            one.result()
    bundles, refused = len(list(folder.glob("*.so"))), len(list(folder.glob("*.refused")))
    print(f"{bundles} bundles, {refused} requests refused")


def parts(path):
    """The texts in a bundle, and its machine code as objdump prints it."""
    if path.suffix == ".refused":
        return {"words": path.read_text()}
    loaded, texts = ctypes.CDLL(str(path.resolve())), {}
    for name in ["altgrad_manifest", *(f"altgrad_ptx_{target}" for target in TARGETS)]:
        try:
            texts[name] = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(loaded, name))).decode()
        except ValueError:  # the bundle is not for this target
            continue
    code = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    texts["code"] = code.split("\n", 3)[-1]
    return texts


def diff(before, after, lines):
    names = {path.name for folder in (before, after) for path in folder.iterdir()}
    differ, alike = 0, 0
    for name in sorted(names):
        old, new = before / name, after / name
        if not old.exists() or not new.exists():
            print(f"{name}: only in {old.parent if old.exists() else new.parent}")
            differ += 1
            continue
        if old.read_bytes() == new.read_bytes():
            alike += 1
            continue
        differ += 1
        olds, news = parts(old), parts(new)
        for part in sorted({*olds, *news}):
            if olds.get(part) == news.get(part):
                continue
            changes = list(difflib.unified_diff(olds.get(part, "").splitlines(), news.get(part, "").splitlines(), lineterm="", n=1))[2:]
            count = sum(line[0] in "+-" for line in changes)
            print(f"{name} {part}: {count} lines", *changes[:lines], sep="\n  ")
    print(f"{alike} alike, {differ} differ")
    return 1 if differ else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("record")
    make.add_argument("folder", type=pathlib.Path)
    make.add_argument("--compiler", default=program.COMPILER)
    make.add_argument("--targets", default=",".join(TARGETS))
    make.add_argument("--every", type=int, default=1, help="only every Nth request")
    compare = commands.add_parser("diff")
    compare.add_argument("before", type=pathlib.Path)
    compare.add_argument("after", type=pathlib.Path)
    compare.add_argument("--lines", type=int, default=8)
    given = parser.parse_args()
    if given.command == "record":
        return record(given.folder, given.compiler, given.targets.split(","), given.every)
    return diff(given.before, given.after, given.lines)


if __name__ == "__main__":
    sys.exit(main())
