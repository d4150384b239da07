#!/usr/bin/env python3
"""A GPU day: packs what a machine without a compiler needs, and checks and measures there.

    tools/device_check.py pack          build/device/altgrad-device.tar.xz, from the compiler built here
    tools/device_check.py run           on the GPU of this machine: the checks, start-up, the curve; one table, one JSON
    tools/device_check.py run --device cpu:v4          the checks that need no GPU
    tools/device_check.py run --device privateuseone:0     all of it on the test driver (tests/device/test_device.py)

Ends with 0 when everything held, 1 when something did not, 77 when there is no GPU to run on.
"""

import argparse
import faulthandler
import importlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
PATHS = [str(ROOT / "tools"), str(ROOT / "tests" / "device"), str(ROOT / "runtime" / "python")]
sys.path[:0] = PATHS
COMPILER = pathlib.Path(os.environ.get("ALTGRAD_OPT", ROOT / "build" / "bin" / "altgrad-opt"))
LIBRARY = ROOT / "build" / "lib" / "libaltgrad.so"
BUNDLES = ROOT / "build" / "device" / "bundles"
FORMS = ROOT / "build" / "device" / "forms"
LIBTORCH = ROOT / "build" / "bin" / "altgrad_libtorch_test"
PACKED = ROOT / "build" / "device" / "packed.json"
REPORT = ROOT / "build" / "device" / "device_check.json"
ARCHIVE = ROOT / "build" / "device" / "altgrad-device.tar.xz"
NOT_RUN, MINUTES = 77, 9
# Seconds that start-up and the curve are to have when the checks are long.
KEPT = 200
MODULES = "checks", "optimizers", "steady", "refusals", "libtorch"
STAND_IN = "privateuseone"
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
        specs.setdefault(path.stem, (path.stem, "", ()))
    BUNDLES.mkdir(parents=True, exist_ok=True)
    for old in BUNDLES.glob("*.so"):
        if old.stem not in specs:
            old.unlink()
    missed = {}
    for name, (rule, storage, options) in specs.items():
        try:
            program.compile_bundle(BUNDLES / f"{name}.so", rule, storage, TARGETS, options)
        except program.Refused as error:
            missed[name] = str(error)
            (BUNDLES / f"{name}.so").unlink(missing_ok=True)
            print(f"not packed: {name}: {error}")
    if missed.keys() & SPECS.keys() or len(missed) == len(specs):
        raise SystemExit("the stock bundles do not compile; no archive written")
    import formpack
    if formpack.INTERPRETER.exists():
        formpack.pack(FORMS)
    else:
        print(f"not packed: the opcode forms: no {formpack.INTERPRETER}")
    out.parent.mkdir(parents=True, exist_ok=True)
    import torch
    PACKED.write_text(json.dumps({"torch": torch.__version__, "commit": commit()}) + "\n")
    files = [LIBRARY, PACKED, *BUNDLES.glob("*.so"), *FORMS.glob("*"), *(ROOT / "build" / "bundles").glob("*.bundle"),
             ROOT / "build" / "lib" / "libaltgrad_torch.so", *(ROOT / "build" / "lib").glob("altgrad_native.*.so"),
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
    print(f"{out}: {len(specs) - len(missed)} bundles for {TARGETS}, {out.stat().st_size / 1e6:.1f} MB")
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


def why_not(device):
    """Words if `device` cannot be used, else None."""
    try:
        import torch
    except ImportError as error:
        return f"{error}"
    if device.startswith(STAND_IN) and "ALTGRAD_TEST_DEVICE" not in os.environ:
        return "ALTGRAD_TEST_DEVICE names no library with a torch device"
    if not device.startswith("cuda"):
        return None
    if not torch.version.cuda:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch finds no CUDA device"
    return None


def place(device):
    import torch
    if not device.startswith("cuda"):
        return f"host against {device}, {platform.processor() or platform.machine()}, torch {torch.__version__}"
    p = torch.cuda.get_device_properties(device)
    return (f"{p.name}, {p.multi_processor_count} SMs, {p.total_memory / 1e9:.0f} GB, sm_{p.major}{p.minor}, "
            f"torch {torch.__version__}")


def poisoned(device):
    """After an illegal address every later call fails; nothing more can be learnt in this process."""
    import torch
    try:
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        return False
    except RuntimeError:
        return True


def find_checks(only):
    found = [check for name in MODULES for check in importlib.import_module(name).CHECKS]
    unknown = set(only) - {check.__name__ for check in found} - {"startup", "curve"}
    if unknown:
        raise SystemExit(f"no checks named {', '.join(sorted(unknown))}; there are startup, curve, "
                         f"{', '.join(check.__name__ for check in found)}")
    return [check for check in found if not only or check.__name__ in only]


def run_checks(checks, bundles, device, deadline):
    """Rows (name, verdict, words, seconds)."""
    from gpu import Skipped
    rows = []
    for check in checks:
        start = time.monotonic()
        if start > deadline:
            rows.append((check.__name__, "not run", "no time left", 0.0))
            continue
        try:
            verdict, words = "passed", check(bundles, device)
        except Skipped as reason:
            verdict, words = "skipped", str(reason)
        except Exception as error:
            verdict, words = "FAILED", f"{type(error).__name__}: {error}".splitlines()[0]
            if not isinstance(error, AssertionError):
                traceback.print_exc()
        rows.append((check.__name__, verdict, words, round(time.monotonic() - start, 1)))
        print(f"  {check.__name__:<36}{verdict:<8} {words} ({rows[-1][-1]} s)", flush=True)
        if verdict == "FAILED" and poisoned(device):
            rows.append(("the rest", "not run", "the CUDA context is poisoned; run again without that check", 0.0))
            break
    return rows


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


def run(options):
    why = why_not(options.device)
    bundles = {path.stem: path for path in sorted(BUNDLES.glob("*.so"))}
    if not why and not bundles:
        why = f"no bundles in {BUNDLES}: tools/device_check.sh pack"
    if why:
        print(f"not run on a GPU: {why}")
        return NOT_RUN
    os.environ.setdefault("ALTGRAD_LIBRARY", str(LIBRARY))
    # For processes of their own, which some checks are.
    os.environ["PYTHONPATH"] = os.pathsep.join([*PATHS, *filter(None, [os.environ.get("PYTHONPATH")])])
    if COMPILER.exists():
        os.environ.setdefault("ALTGRAD_OPT", str(COMPILER))
    seconds = options.minutes * 60
    begun = time.monotonic()
    # Whatever hangs: its stack on stderr, and what was found so far in the JSON.
    faulthandler.dump_traceback_later(seconds + 45, exit=True)
    report, curve = {"where": place(options.device)}, []

    def keep():
        report["seconds"] = round(time.monotonic() - begun, 1)
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(report, indent=1) + "\n")

    on_gpu = options.device.startswith(("cuda", STAND_IN))
    if on_gpu:
        import gpu
        from altgrad._binding.binder import binder
        report["device"] = gpu.find(options.device).state()
        report["packed"] = json.loads(PACKED.read_text()) if PACKED.exists() else {"commit": commit()}
        report["where"] += f", tensors looked at by {binder()}"
    print(f"{report['where']}, {len(bundles)} bundles", flush=True)
    wanted = lambda name: on_gpu and (name in options.only if options.only else not options.no_bench)
    kept = KEPT if wanted("curve") else 0
    report["checks"] = run_checks(find_checks(options.only), bundles, options.device, begun + seconds - kept)
    keep()
    if wanted("startup") and not poisoned(options.device):
        import startup
        try:
            rows = startup.run(options.device)
            report["startup"] = {"rows": rows, "words": startup.words(rows)}
        except Exception as error:
            report["checks"].append(("startup", "FAILED", f"{type(error).__name__}: {error}", 0.0))
        keep()
    if wanted("curve") and not poisoned(options.device):
        import gpu_bench
        report["curve"] = {}
        gpu_bench.run(options.device, options.elements, begun + seconds, report["curve"], keep)
        curve = gpu_bench.table(report["curve"])
        report["device_after"] = gpu.find(options.device).state()
    keep()
    print_table(report, curve)
    print(f"\n{options.json}: everything above and more, {report['seconds']:.0f} s")
    return 1 if any(verdict in ("FAILED", "not run") for _, verdict, *_ in report["checks"]) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "run"], help="make the archive, or check and measure")
    parser.add_argument("--device", default="cuda:0", help="the device, by torch's name (default cuda:0)")
    parser.add_argument("--elements", type=float, default=2e9, help="the largest tensor of the curve (default 2e9)")
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"the time that all of it may take (default {MINUTES})")
    parser.add_argument("--no-bench", action="store_true", help="check, and measure nothing")
    parser.add_argument("--json", type=pathlib.Path, default=REPORT, help="the report to write (default build/device/device_check.json)")
    parser.add_argument("--only", type=lambda names: names.split(","), default=[], help="parts to run, separated by commas: checks, startup, curve")
    options = parser.parse_args()
    if options.what == "pack":
        pack()
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
