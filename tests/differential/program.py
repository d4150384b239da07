"""A compiled step: how altgrad-opt is called, and what its bundle says."""

import ctypes
import json
import os
import pathlib
import subprocess
import tempfile

import evaluator
import optext
from values import Rows

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILER = os.environ.get("ALTGRAD_OPT", str(ROOT / "build/bin/altgrad-opt"))
LIBRARY = os.environ.get("ALTGRAD_LIBRARY", str(ROOT / "build/lib/libaltgrad.so"))
TEMPLATES = ROOT / "templates"
HOST = ("v3", "v4")
PTX = ("sm_80", "sm_90")


class Refused(Exception):
    """The compiler said no; the words are its own."""


def call(*arguments, text=None, **more):
    command = [COMPILER, *map(str, arguments)]
    done = subprocess.run(command, input=text, capture_output=True, text=True, **{"timeout": 120, **more})
    if done.returncode:
        raise Refused(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr[:3000]}")
    return done.stdout


def generated(rule, storage, *flags):
    """The text of the step that --rule makes."""
    return call(f"--rule={rule}", f"--rule-path={TEMPLATES}", f"--storage={storage}", *flags,
                "--print-step")


_rules = {}


def template_rule(name):
    if name not in _rules:
        text = call(TEMPLATES / f"{name}.mlir", "--mlir-print-op-generic")
        _rules[name] = next(op for op in optext.parse(text) if op.name == "altgrad.rule")
    return _rules[name]


class Program:
    """One step, compiled for the hosts and GPUs named, with its evaluator."""

    def __init__(self, text, targets=("x86-64-v3", "x86-64-v4", *PTX), flags=()):
        self.text = text
        self.evaluator = evaluator.Evaluator(
            optext.parse(call("-", "--mlir-print-op-generic", text=text)), template_rule)
        self.folder = tempfile.TemporaryDirectory(prefix="altgrad-differential-")
        self.path = os.path.join(self.folder.name, "bundle.so")
        call("-", f"--rule-path={TEMPLATES}", f"--target={','.join(targets)}", "--emit=bundle",
             "-o", self.path, *flags, text=text)
        self.targets = targets
        self._object = ctypes.CDLL(self.path)
        self.manifest = json.loads(self._string("altgrad_manifest"))

    def _string(self, symbol):
        return ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(self._object, symbol)))

    def ptx(self, target):
        return self._string(f"altgrad_ptx_{target}").decode()

    def rows(self, parts, groups=1, apart=0):
        """Rows of the tensors given for each set that the step has: a size, or rows and columns of a matrix.

        Where rows are units a matrix has as many. `apart`: elements from a tensor's offset to that of the next, or a
        little fewer, so that as many rows of a matrix as any block has are whole.
        """
        if len(parts) != self.manifest["sets"]:
            raise ValueError(f"sizes for {len(parts)} sets, the step has {self.manifest['sets']}")
        shapes = [(k, *([1, shape] if isinstance(shape, int) else shape)) for k, part in enumerate(parts) for shape in part]
        has_units = [kind != "none" for kind in self.manifest["units"]]
        units = [a if has_units[k] and a * b else 1 for k, a, b in shapes]
        one = 0 if any(has_units) else apart  # of which a slice cuts none
        before = [i * (one if a == 1 else apart // b // 256 * 256 * b if b else 0) for i, (_, a, b) in enumerate(shapes)]
        index = [i for i, count in enumerate(units) for _ in range(count)]
        number = [n for count in units for n in range(count)]
        numel = [shapes[i][1] * shapes[i][2] // units[i] for i in index]
        which, group = [shapes[i][0] for i in index], [i % groups for i in index]
        if any(s["scope"] == "group" and s["set"] for s in self.manifest["scalars"]):
            group = [k * groups + g for k, g in zip(which, group)]  # a group is of one set
        return Rows(numel, group, which,
                              {s["name"]: s["set"] for s in self.manifest["streams"]},
                              {s["name"]: s["block"] for s in self.manifest["streams"]},
                              columns={s["name"]: s["columns"] for s in self.manifest["streams"]},
                              squares={s["name"]: s["per"] for s in self.manifest["streams"] if s.get("per") in ("rows", "columns")},
                              offset=[before[i] + n * length for i, n, length in zip(index, number, numel)],
                              tag=index, shape=[(*shapes[i][1:], 1) for i in index],
                              tensor=[row - n for row, n in enumerate(number)])

    @property
    def signature(self):
        return self.evaluator.signature

    @property
    def keeps_old(self):
        """Whether tensors are written both always and on condition: then one sweep may do both
        and write old bytes back, so it reads `out` streams too."""
        _, _, always, _, allowed = self.evaluator.step.body.ops[-1].segments()
        lists = [any(kind.startswith("!altgrad.tensors") for _, kind in part)
                 for part in (always, allowed)]
        return all(lists)
