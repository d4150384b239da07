"""What the gate looks at: every stock bundle, and every template in the storages and modes that other tests name."""

import itertools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ("sm_80", "sm_90")
WAYS = ([], ["--clip"], ["--scaler"], ["--clip", "--scaler"])
SCALED = (["--loss-scaler=torch"], ["--clip", "--loss-scaler=torch"])
# tests/codegen/assemble-narrow.test and the README's own
STORAGES = (("param=bf16 master=f32 grad=bf16 copy=ocp.e4m3fn", ["--clip"]),
            ("grad=bf16 copy=ocp.e5m2", ["--unscale"]), ("param=bf16 grad=bf16 master=f32", []),
            ("param=bf16 grad=bf16 master=f32", ["--clip"]), ("param=bf16 grad=bf16", ["--clip", "--unscale"]),
            ("param=f16 grad=f16", ["--clip", "--scaler"]))


def lines():
    """(formats, what is behind the colon) of each line of the stock bundles."""
    for line in (ROOT / "tools" / "stock-bundles.txt").read_text().splitlines():
        storages, colon, rest = line.partition(":")
        if colon and not line.startswith("#"):
            yield storages.split(), rest


def stock(ways=WAYS):
    """As tools/stock-bundles.cpp reads its requests; states with scales, behind a slash, are not looked at yet."""
    for storages, rules in lines():
        if not rules.startswith(":"):
            for rule, formats, way in itertools.product(rules.split(), storages, ways):
                if "/" in rule:
                    continue
                sets = [f"--set=rule={rule} param={f} grad={f} states=param step=f32" for f in sorted(formats.split("+"))]
                yield (*sets, *way)


def gradients():
    """Gradients alone: behind two colons, ways between bars."""
    for storages, ways in lines():
        if ways.startswith(":"):
            for way, formats in itertools.product(ways[1:].split("|"), storages):
                sets = sorted("--set=grad=" + f.replace(">", " copy=") for f in formats.split("+"))
                yield (*sets, *way.split())


def narrow():
    rules = sorted(path.stem for path in (ROOT / "templates").glob("*.mlir"))
    for (storage, flags), rule in itertools.product(STORAGES, rules):
        yield (f"--rule={rule}", f"--storage={storage}", *flags)


def lists():
    """Lists of cases, and of each how rarely it is looked at."""
    with_targets = lambda requests: [(request, target) for request in requests for target in TARGETS]
    return ((with_targets((*stock(), *narrow())), 1), (with_targets(gradients()), 1),
            (with_targets(stock(SCALED)), 3))


def every():
    return some(1)


def some(step):
    """Every so manieth of each list, and of both targets where the number is odd; 1: all of them."""
    return [case for cases, rarely in lists() for case in cases[::step * rarely if step > 1 else 1]]
