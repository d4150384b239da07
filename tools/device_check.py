#!/usr/bin/env python3
"""A GPU day: packs what a machine without a compiler needs, and checks and measures there.

    tools/device_check.py pack          build/device/altgrad-device.tar.gz, from the compiler built here
    tools/device_check.py run           on the GPU of this machine: the checks, the benchmark, one table
    tools/device_check.py run --device cpu:v4     the checks that need no GPU

Ends with 0 when everything held, 1 when something did not, 77 when there is no GPU to run on.
"""

import argparse
import json
import os
import pathlib
import platform
import sys
import tarfile
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests" / "device"), str(ROOT / "runtime" / "python")]
COMPILER = pathlib.Path(os.environ.get("ALTGRAD_OPT", ROOT / "build" / "bin" / "altgrad-opt"))
LIBRARY = ROOT / "build" / "lib" / "libaltgrad.so"
BUNDLES = ROOT / "build" / "device" / "bundles"
FORMS = ROOT / "build" / "device" / "forms"
ARCHIVE = ROOT / "build" / "device" / "altgrad-device.tar.gz"
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
    files = [LIBRARY, *BUNDLES.glob("*.so"), *FORMS.glob("*"),
             ROOT / "tools" / "device_check.sh", ROOT / "tools" / "device_check.py", ROOT / "tools" / "bench" / "__init__.py", ROOT / "tools" / "bench" / "program.py",
             *(ROOT / "tests" / "device").glob("*.py"), *(ROOT / "templates").glob("*.mlir"),
             *(ROOT / "runtime" / "python" / "altgrad").rglob("*.py")]
    part = out.with_suffix(".part")
    with tarfile.open(part, "w:gz") as archive:
        for file in sorted(files):
            archive.add(file, f"altgrad-device/{file.relative_to(ROOT)}")
    part.rename(out)
    print(f"{out}: {len(specs) - len(missed)} bundles for {TARGETS}, {out.stat().st_size / 1e6:.1f} MB")
    return out


def why_not(device):
    """Words if `device` cannot be used, else None."""
    try:
        import torch
    except ImportError as error:
        return f"{error}"
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


def run_checks(bundles, device, deadline):
    """Rows (name, verdict, words)."""
    import checks
    rows = []
    for check in checks.CHECKS:
        start = time.monotonic()
        if start > deadline:
            rows.append((check.__name__, "not run", "no time left"))
            continue
        try:
            verdict, words = "passed", check(bundles, device)
        except checks.Skipped as reason:
            verdict, words = "skipped", str(reason)
        except Exception as error:
            verdict, words = "FAILED", f"{type(error).__name__}: {error}".splitlines()[0]
            if not isinstance(error, AssertionError):
                traceback.print_exc()
        words += f" ({time.monotonic() - start:.1f} s)"
        rows.append((check.__name__, verdict, words))
        print(f"  {check.__name__:<20} {verdict:<8} {words}", flush=True)
        if verdict == "FAILED" and poisoned(device):
            rows.append(("the rest", "not run", "the CUDA context is poisoned; run again without that check"))
            break
    return rows


def print_table(where, rows, measured):
    print(f"\n{where}")
    for name, verdict, words in rows:
        print(f"  {name:<22}{verdict:<9}{words}")
    if measured:
        print(f"\n  {'AdamW':<34}{'':<14}{'ms':>9}{'CPU ms':>9}{'GB/s':>8}{'of copy':>9}{'x fused':>9}")
    for case, name, *numbers in measured:
        formats = ("{:9.3f}", "{:9.3f}", "{:8.0f}", "{:9.2f}", "{:9.2f}")
        cells = [f.format(x) if x is not None else " " * len(f.format(0)) for f, x in zip(formats, numbers)]
        print(f"  {case:<34}{name:<14}{''.join(cells)}")


def run(options):
    why = why_not(options.device)
    bundles = {path.stem: path for path in sorted(BUNDLES.glob("*.so"))}
    if not why and not bundles:
        why = f"no bundles in {BUNDLES}: tools/device_check.sh pack"
    if why:
        print(f"not run on a GPU: {why}")
        return NOT_RUN
    os.environ.setdefault("ALTGRAD_LIBRARY", str(LIBRARY))
    deadline = time.monotonic() + options.minutes * 60
    where = place(options.device)
    print(f"{where}, {len(bundles)} bundles", flush=True)
    rows = run_checks(bundles, options.device, deadline - 120)
    failed = any(verdict in ("FAILED", "not run") for _, verdict, _ in rows)
    measured = []
    if options.device.startswith("cuda") and not options.no_bench and not poisoned(options.device):
        import gpu_bench
        measured = gpu_bench.run(bundles, options.device, options.elements, deadline)
    print_table(where, rows, measured)
    if options.json:
        options.json.write_text(json.dumps({"device": where, "checks": rows, "bench": measured}, indent=1) + "\n")
    return 1 if failed else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pack", "run"])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--elements", type=float, default=1e9, help="of the large tensor of the benchmark, at most")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--no-bench", action="store_true")
    parser.add_argument("--json", type=pathlib.Path, help="write the table there as well")
    options = parser.parse_args()
    if options.what == "pack":
        pack()
        return 0
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
