"""What the gate looks at: every stock bundle, and every template in the storages and modes that other tests name."""

import itertools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ("sm_80", "sm_90")
WAYS = ([], ["--clip"], ["--scaler"], ["--clip", "--scaler"])
# tests/codegen/assemble-narrow.test and the README's own
STORAGES = (("param=bf16 master=f32 grad=bf16 copy=ocp.e4m3fn", ["--clip"]),
            ("grad=bf16 copy=ocp.e5m2", ["--unscale"]), ("param=bf16 grad=bf16 master=f32", []),
            ("param=bf16 grad=bf16 master=f32", ["--clip"]), ("param=bf16 grad=bf16", ["--clip", "--unscale"]),
            ("param=f16 grad=f16", ["--clip", "--scaler"]))


def stock():
    """As tools/stock-bundles.cpp reads its requests; gradients alone, behind two colons, and states with scales, behind a
    slash, are not looked at yet."""
    for line in (ROOT / "tools" / "stock-bundles.txt").read_text().splitlines():
        storages, colon, rules = line.partition(":")
        if colon and not rules.startswith(":") and not line.startswith("#"):
            for rule, formats, way in itertools.product(rules.split(), storages.split(), WAYS):
                if "/" in rule:
                    continue
                sets = [f"--set=rule={rule} param={f} grad={f} states=param step=f32" for f in sorted(formats.split("+"))]
                yield (*sets, *way)


def narrow():
    rules = sorted(path.stem for path in (ROOT / "templates").glob("*.mlir"))
    for (storage, flags), rule in itertools.product(STORAGES, rules):
        yield (f"--rule={rule}", f"--storage={storage}", *flags)


def every():
    return [(request, target) for request in (*stock(), *narrow()) for target in TARGETS]


def some(step):
    """Every so manieth, and of both targets: the numbers of the two lists have no common divisor with it."""
    return every()[::step]
