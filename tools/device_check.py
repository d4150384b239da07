#!/usr/bin/env python3
"""A GPU day: packs what a machine without a compiler needs, and checks and measures there.

    tools/device_check.py pack          build/device/altgrad-device.tar.xz, from the compiler built here
    tools/device_check.py run           on the GPU of this machine: facts, checks, start-up, the curve; one table, one JSON
    tools/device_check.py run --resume  what the JSON lacks, after a run that had no time left
    tools/device_check.py run --only facts,curve-f32    parts alone
    tools/device_check.py run --device cpu:v4          the checks that need no GPU
    tools/device_check.py run --device privateuseone:0     all of it on the test driver (tests/device/test_device.py)

Each part is a process of its own, so that an illegal address ends that part alone; where compute-sanitizer is installed
it looks at a check that failed, in sanitizer-NAME.txt beside the JSON. Python 3.10 and later will do.
Ends with 0 when everything held, 1 when something did not, 77 when there is no GPU to run on.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PATHS = [str(ROOT / "tools"), str(ROOT / "tests" / "device"), str(ROOT / "runtime" / "python")]
sys.path[:0] = PATHS
COMPILER = pathlib.Path(os.environ.get("ALTGRAD_OPT", ROOT / "build" / "bin" / "altgrad-opt"))
LIBRARY = ROOT / "build" / "lib" / "libaltgrad.so"
BUNDLES = ROOT / "build" / "device" / "bundles"
FACTS = ROOT / "build" / "device" / "facts"
FORMS = ROOT / "build" / "device" / "forms"
LIBTORCH = ROOT / "build" / "bin" / "altgrad_libtorch_test"
PACKED = ROOT / "build" / "device" / "packed.json"
REPORT = ROOT / "build" / "device" / "device_check.json"
ARCHIVE = ROOT / "build" / "device" / "altgrad-device.tar.xz"
NOT_RUN, MINUTES = 77, 9
TARGETS = "x86-64-v3,x86-64-v4,sm_80,sm_90"

BF16 = "param=bf16 grad=bf16 m=bf16 v=bf16"
# name -> (rule, storage, options of the compiler)
SPECS = {
    "adamw": ("adamw", "", ()),
    "adamw-clip": ("adamw", "", ("--clip",)),
    "adamw-clip-unscale": ("adamw", "", ("--clip", "--unscale")),
    "adamw-clip-scaler": ("adamw", "", ("--clip", "--scaler")),
    "adamw-bf16": ("adamw", BF16, ()),
    "adamw-bf16-clip": ("adamw", BF16, ("--clip",)),
    "adamw-bf16-clip-unscale": ("adamw", BF16, ("--clip", "--unscale")),
    "adamw-f16": ("adamw", "param=f16 grad=f16 m=f16 v=f32", ()),
    "adamw-master": ("adamw", "param=bf16 grad=bf16 master=f32 m=f32 v=f32", ()),
    "adamw-master-clip-unscale": ("adamw", "param=bf16 grad=bf16 master=f32 m=bf16 v=f32", ("--clip", "--unscale")),
    "adamw-e4m3": ("adamw", "grad=bf16 copy=ocp.e4m3fn", ()),
    "adamw-e5m2": ("adamw", "grad=bf16 copy=ocp.e5m2", ()),
    "adam-amsgrad": ("adam{amsgrad}", "", ()),
}


def pack(out=ARCHIVE):
    """Compiles every bundle and writes the archive; returns its path."""
    from bench import program
    specs = dict(SPECS)
    for path in sorted((ROOT / "templates").glob("*.mlir")):
        # A library's products have its own bits: matrices.py. inputs.py makes no matrices: optimizers.py steps such rules.
        if re.search(r"orthogonalize|matmul|\b(unit|row|column)\b", re.sub("//.*", "", path.read_text())):
            continue
        specs.setdefault(path.stem, (path.stem, "", ()))
    BUNDLES.mkdir(parents=True, exist_ok=True)
    for old in BUNDLES.glob("*.so"):
        if old.stem not in specs:
            old.unlink()
    missed, ptxas = {}, shutil.which("ptxas") or shutil.which("ptxas", path="/usr/local/cuda/bin")
    cubins = [f"--ptxas={ptxas}"] if ptxas else []
    for name, (rule, storage, options) in specs.items():
        try:
            program.compile_bundle(BUNDLES / f"{name}.so", rule, storage, TARGETS, (*options, *cubins))
        except program.Refused as error:
            missed[name] = str(error)
            (BUNDLES / f"{name}.so").unlink(missing_ok=True)
            print(f"not packed: {name}: {error}")
    if missed.keys() & SPECS.keys() or len(missed) == len(specs):
        raise SystemExit("the stock bundles do not compile; no archive written")
    for chip in 80, 90:
        FACTS.mkdir(parents=True, exist_ok=True)
        (FACTS / f"adamw-clip.sm_{chip}.ptx").write_text(program.ptx("adamw", f"sm_{chip}", ("--clip",)))
    import formpack
    if formpack.INTERPRETER.exists():
        formpack.pack(FORMS)
    else:
        print(f"not packed: the opcode forms: no {formpack.INTERPRETER}")
    import seeds
    seeds.pack()
    out.parent.mkdir(parents=True, exist_ok=True)
    import torch
    PACKED.write_text(json.dumps({"torch": torch.__version__, "commit": commit(), "cubins": bool(cubins)}) + "\n")
    files = [LIBRARY, PACKED, seeds.PACKED, *BUNDLES.glob("*.so"), *FORMS.glob("*"), *FACTS.glob("*"), *(ROOT / "build" / "bundles").glob("*.bundle"),
             ROOT / "build" / "lib" / "libaltgrad_core.so",
             ROOT / "tools" / "device_check.sh", ROOT / "tools" / "device_check.py", ROOT / "tools" / "bench" / "__init__.py", ROOT / "tools" / "bench" / "program.py",
             *(ROOT / "tests" / "device").glob("*.py"), *(ROOT / "templates").glob("*.mlir"),
             ROOT / "tests" / "python" / "twins.py", ROOT / "tests" / "devices" / "conftest.py",
             *(ROOT / "runtime" / "python" / "altgrad").rglob("*.py")]
    part = out.with_suffix(".part")
    # Bundles are alike, and more than the window of gzip apart: xz takes half the bytes.
    with tarfile.open(part, "w:xz", preset=1) as archive:
        for file in sorted(files):
            archive.add(file, f"altgrad-device/{file.relative_to(ROOT)}")
        for file in (COMPILER, LIBTORCH):
            if file.exists():
                add_stripped(archive, file, f"altgrad-device/build/bin/{file.name}")
            else:
                print(f"not packed: no {file}")
    part.rename(out)
    print(f"{out}: {len(specs) - len(missed)} bundles for {TARGETS}, {'with cubins' if cubins else 'without cubins: no ptxas here'}, {out.stat().st_size / 1e6:.1f} MB")
    return out


def commit():
    done = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--abbrev=12"],
                          capture_output=True, text=True)
    return done.stdout.strip()


def add_stripped(archive, file, name):
    """A program without the names that only a debugger reads, where there is a tool for it."""
    tool = next(filter(None, map(shutil.which, ("llvm-strip-22", "strip", "llvm-strip"))), None)
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder, file.name)
        if tool and subprocess.run([tool, "-o", copy, file]).returncode == 0:
            file = copy
        archive.add(file, name)


def print_table(report, curve):
    print(f"\n{report['where']}")
    for name, verdict, words, seconds in report["checks"]:
        print(f"  {name:<36}{verdict:<9}{words} ({seconds} s)")
    if report.get("startup"):
        print(f"  {'first step':<36}{'measured':<9}{report['startup']['words']}")
    if not curve:
        return
    print(f"\n  {'AdamW':<27}{'':<22}{'ms':>9}{'CPU ms':>9}{'GB/s':>8}{'of copy':>9}{'x fused':>9}")
    for case, name, *numbers in curve:
        formats = ("{:9.4f}", "{:9.4f}", "{:8.0f}", "{:9.2f}", "{:9.2f}")
        cells = [f.format(x) if x is not None else " " * len(f.format(0)) for f, x in zip(formats, numbers)]
        print(f"  {case:<27}{name:<22}{''.join(cells)}")
    for line in report["curve"]["not_measured"]:
        print(f"  not measured: {line}")


def prepare():
    """Bundles by name, and what processes of our own find in their environment."""
    os.environ.setdefault("ALTGRAD_LIBRARY", str(LIBRARY))
    os.environ["PYTHONPATH"] = os.pathsep.join([*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])])
    if COMPILER.exists():
        os.environ.setdefault("ALTGRAD_OPT", str(COMPILER))
    return {path.stem: path for path in sorted(BUNDLES.glob("*.so"))}


def run(options):
    if options.device.startswith("privateuseone") and "ALTGRAD_TEST_DEVICE" not in os.environ:
        print("not run on a GPU: ALTGRAD_TEST_DEVICE names no library with a torch device")
        return NOT_RUN
    bundles = prepare()
    try:
        import day
    except ImportError as error:
        print(f"not run on a GPU: {error}")
        return NOT_RUN
    if options.what == "one":
        return day.one(bundles, options)
    of_day = day.Day(bundles, options)
    of_day.report["packed"] = json.loads(PACKED.read_text()) if PACKED.exists() else {"commit": commit()}
    if not bundles:
        print(f"not run on a GPU: no bundles in {BUNDLES}: tools/device_check.sh pack")
        return NOT_RUN
    rows = of_day.run()
    if rows is None:
        return NOT_RUN
    print_table(of_day.report, day.gpu_bench.table(of_day.report["curve"]) if "curve" in of_day.report else [])
    print(f"\n{options.json}: everything above and more, {of_day.report['seconds']:.0f} s")
    return 1 if any(verdict in ("FAILED", "not run") for _, verdict, *_ in rows) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "run", "one"],
                        help="make the archive; check and measure; run the parts of --only in this process, for a debugger")
    parser.add_argument("--device", default="cuda:0", help="the device, by torch's name (default cuda:0)")
    parser.add_argument("--elements", type=float, default=2e9, help="the largest tensor of the curve (default 2e9)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"the time after which no further part begins (default {MINUTES})")
    parser.add_argument("--jobs", type=int, default=0,
                        help="how many checks run at a time; what is measured runs alone (default: half of the CPUs, "
                             "at most 8, on a GPU, and 1 elsewhere)")
    parser.add_argument("--no-bench", action="store_true", help="check, and measure neither start-up nor the curve")
    parser.add_argument("--json", type=pathlib.Path, default=REPORT,
                        help="the report, written anew after each part (default build/device/device_check.json)")
    parser.add_argument("--resume", action="store_true", help="run only parts that the report lacks or has as FAILED")
    parser.add_argument("--only", type=lambda names: names.split(","), default=[],
                        help="parts to run, separated by commas: facts, a check's name, startup, curve, curve-f32, curve-compiled")
    options = parser.parse_args()
    if options.what == "pack":
        pack()
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
