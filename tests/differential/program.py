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
    done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=120, **more)
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

    def rows(self, parts, groups=1):
        """Rows with the sizes given for each set of tensors that the step has."""
        if len(parts) != self.manifest["sets"]:
            raise ValueError(f"sizes for {len(parts)} sets, the step has {self.manifest['sets']}")
        numel = [n for sizes in parts for n in sizes]
        which = [k for k, sizes in enumerate(parts) for _ in sizes]
        group = [i % groups for i in range(len(numel))]
        if any(s["scope"] == "group" and s["set"] for s in self.manifest["scalars"]):
            group = [k * groups + g for k, g in zip(which, group)]  # a group is of one set
        return Rows(numel, group, which,
                              {s["name"]: s["set"] for s in self.manifest["streams"]},
                              {s["name"]: s["block"] for s in self.manifest["streams"]},
                              columns={s["name"]: s["columns"] for s in self.manifest["streams"]})

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
