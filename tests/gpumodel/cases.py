"""What the gate looks at: every stock bundle, and every template in the storages and modes that other tests name."""

import itertools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGETS = ("sm_80", "sm_90")
# The templates whose sweeps exceptions.py has bounds for.
MODELLED = ("adagrad", "adam", "adamw", "ademamix", "adopt", "gridoptim", "lamb", "lion", "manifoldadamw", "rmsprop", "sgd", "signsgd")
WAYS = ([], ["--clip"], ["--scaler"], ["--clip", "--scaler"])
SCALED = (["--loss-scaler=torch"], ["--clip", "--loss-scaler=torch"])
# tests/codegen/assemble-narrow.test and the README's own
STORAGES = (("param=bf16 master=f32 grad=bf16 copy=ocp.e4m3fn", ["--clip"]),
            ("grad=bf16 copy=ocp.e5m2", ["--unscale"]), ("param=bf16 grad=bf16 master=f32", []),
            ("param=bf16 grad=bf16 master=f32", ["--clip"]), ("param=bf16 grad=bf16", ["--clip", "--unscale"]),
            ("param=f16 grad=f16", ["--clip", "--scaler"]))

# States and copies with scales beside what makes them hardest, masters of two halves, and grids: a rule and its storage.
MIXED = "param=bf16 grad=bf16 master=f32 "
HALVES = "param=bf16 grad=bf16 master=bf16+i16 "
FP8, BOOKS = "m=ocp.e4m3fn:256 v=ocp.e5m2:256 step=f32", "m=bnb8:256 v=bnb8u:256 step=f32"
GRID = "grad=bf16 states=f32 rungs=ocp.e4m3fn"
SCALES = (("adamw", FP8), ("adamw", MIXED + FP8), ("adamw", HALVES + FP8), ("adamw", MIXED + BOOKS), ("adamw", HALVES + BOOKS),
          ("lion", "m=ocp.e4m3fn:256"), ("adamw", "copy=mxfp8"), ("adamw", MIXED + "copy=mxfp8"),
          ("adamw", "copy=ocp.e4m3fn,delayed"), ("sgd{momentum_on}", "copy=ocp.e4m3fn:128"))
GRIDS = (("gridoptim", "states=f32 rungs=ocp.e4m3fn"), ("gridoptim", "param=bf16 " + GRID), ("gridoptim", "param=ocp.e4m3fn " + GRID),
         ("gridoptim", "states=f32 rungs=ocp.e4m3fn,reference"), ("adamw", "rungs=ocp.e4m3fn"), ("lion", "rungs=ocp.e4m3fn"))


def lines():
    """(formats, what is behind the colon) of each line of the stock bundles."""
    for line in (ROOT / "tools" / "stock-bundles.txt").read_text().splitlines():
        storages, colon, rest = line.partition(":")
        if colon and not line.startswith("#"):
            yield storages.lstrip("*").split(), rest


def stock(ways=WAYS):
    """As tools/stock-bundles.cpp reads its requests; those with scales, behind a slash, are blocks()."""
    for storages, rules in lines():
        if not rules.startswith(":"):
            for rule, formats, way in itertools.product(rules.split(), storages, ways):
                if "/" in rule:
                    continue
                sets = [f"--set=rule={rule} param={f} grad={f} states=param step=f32" for f in sorted(formats.split("+"))]
                yield (*sets, *way)


def blocks():
    """Stock steps whose large tensors have states with scales: those alone, and beside small ones, whose states are f32."""
    for storages, rules in lines():
        for word, format, way in itertools.product(rules.split(), storages, ([], ["--clip"])):
            if "/" in word and not rules.startswith(":"):
                rule, states, *others = word.split("/")
                large, small = (f"--set=rule={rule} param={format} grad={format} " + " ".join([a, "step=f32", *b])
                                for a, b in ((states, others), ("states=f32", [o.partition("=")[0] + "=f32" for o in others])))
                yield (large, *way)
                yield (*sorted((large, small)), *way)


def scaled():
    for (rule, storage), way in itertools.product(SCALES, ([], ["--clip"])):
        yield (f"--rule={rule}", f"--storage={storage}", *way)
    for (rule, storage), way in itertools.product(GRIDS, (["--clip"], ["--statistics"])):
        yield (f"--rule={rule}", f"--storage={storage}", *way)
    for rule in MODELLED:
        yield (f"--rule={rule}", f"--storage={HALVES.strip()}", "--clip")


def gradients():
    """Gradients alone: behind two colons, ways between bars."""
    for storages, ways in lines():
        if ways.startswith(":"):
            for way, formats in itertools.product(ways[1:].split("|"), storages):
                sets = sorted("--set=grad=" + f.replace(">", " copy=") for f in formats.split("+"))
                yield (*sets, *way.split())


def narrow():
    for (storage, flags), rule in itertools.product(STORAGES, MODELLED):
        yield (f"--rule={rule}", f"--storage={storage}", *flags)


def lists():
    """Lists of cases, and of each how rarely it is looked at."""
    with_targets = lambda requests: [(request, target) for request in requests for target in TARGETS]
    return ((with_targets((*stock(), *narrow())), 1), (with_targets(gradients()), 1),
            (with_targets(stock(SCALED)), 3), (with_targets((*blocks(), *scaled())), 1))


def every():
    return some(1)


def some(step):
    """Every so manieth of each list, and of both targets where the number is odd; 1: all of them."""
    return [case for cases, rarely in lists() for case in cases[::step * rarely if step > 1 else 1]]
