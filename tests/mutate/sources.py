"""Faults in sources: a copy of the tree of its own, patched, rebuilt, and the tests that should notice."""

import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Short names of tests; `lit:WORD` is lit on the files whose path has the word.
TESTS = {"kept": "test_kept_values.py", "random": "test_random_specs.py", "order": "test_write_order.py",
         "sets": "test_row_sets.py", "sums": "test_reductions.py", "formats": "test_formats_in_steps.py",
         "functions": "test_functions.py", "steps": "test_generated_steps.py", "huge": "test_huge_tensors.py",
         "placement": "test_placement.py", "lint": "test_lint.py", "agree": "test_templates_agree.py",
         "clips": "test_adaptive_clips.py", "given-scales": "test_given_scales.py"}
WIDE = ["lit:", "order", "kept", "steps", "sets", "sums", "formats", "functions", "placement", "random", "agree", "huge",
        "rule"]


@dataclasses.dataclass(frozen=True)
class Fault:
    kind: str
    name: str
    file: str
    old: str
    new: str
    tests: str
    equivalent: str = ""


def read(kind):
    """The faults of KIND.txt."""
    text = re.sub(r"^#.*\n", "", (pathlib.Path(__file__).parent / f"{kind}.txt").read_text(), flags=re.M)
    for block in text.strip("\n").split("\n\n"):
        name, where, *rest = block.split("\n")
        file, _, tests = where.partition(": ")
        part = {mark: "\n".join(line[1:] for line in rest if line[0] == mark) for mark in "=-+"}
        yield Fault(kind, name, file, part["-"], part["+"], tests, part["="].strip())


FAULTS = [fault for kind in ("passes", "codegen", "templates") for fault in read(kind)]


def patched(fault, root=ROOT):
    """The file's text with the fault in it."""
    return (root / fault.file).read_text().replace(fault.old, fault.new)


def strangers():
    """The faults whose pattern is not exactly once in its file, in words: the sources have moved on."""
    for fault in FAULTS:
        path = ROOT / fault.file
        count = path.read_text().count(fault.old) if path.exists() else 0
        if count != 1:
            yield f"fault '{fault.name}': its pattern is {count} times in {fault.file}, not once"


class Tree:
    """A copy of the checkout under `folder`, with a build of its own: nobody's files change."""

    def __init__(self, folder):
        self.source = folder / "source"
        self.build = self.source / "build"  # as in other checkouts: ccache knows the paths
        self.log = folder / "last.log"
        if unknown := list(strangers()):
            sys.exit("\n".join(unknown))
        names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True,
                               text=True, check=True).stdout.split("\n")
        for name in filter(None, names):
            self._copy(name)
        if self._ninja():
            sys.exit(f"the tree does not build: {self.log}")

    def _copy(self, name):
        """Only where it differs: ninja looks at times."""
        here, there = ROOT / name, self.source / name
        if here.is_file() and not (there.exists() and there.read_bytes() == here.read_bytes()):
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, there)

    def _run(self, command, limit=900, **environment):
        with open(self.log, "w") as log:
            try:
                return subprocess.run(command, stdout=log, stderr=log, cwd=self.source, timeout=limit,
                                      env={**os.environ, **environment}).returncode
            except subprocess.TimeoutExpired:
                return 124

    def _ninja(self):
        """-j2 while the whole tree is built; then it is one file and a link."""
        return self._run(["tools/build.sh", "-j2", "altgrad-opt", "altgrad_rt", "ptxinterp"], 3600,
                         ALTGRAD_BUILD=str(self.build), ALTGRAD_PYTHON=sys.executable)

    def test(self, word):
        """The exit code of one of a fault's tests."""
        name, _, rest = word.partition(":")
        if name == "lit":
            lit = re.search(r"^ALTGRAD_LIT:\w+=(.*)$", (self.build / "CMakeCache.txt").read_text(), re.M)[1]
            return self._run([lit, "-q", "-j1", str(self.build / "tests"), *([f"--filter={rest}"] if rest else [])])
        file = f"tests/differential/{TESTS[name]}" if name in TESTS else "tests/templates"
        return self._run([sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", file,
                          *(["-k", rest] if rest else [])],
                         ALTGRAD_BUILD=str(self.build), ALTGRAD_OPT=str(self.build / "bin/altgrad-opt"),
                         ALTGRAD_LIBRARY=str(self.build / "lib/libaltgrad.so"),
                         ALTGRAD_PTXINTERP=str(self.build / "tests/ptx/libptxinterp.so"),
                         PYTHONPATH=str(self.source / "runtime/python"))

    def judge(self, fault, wide):
        """("caught", by) or ("survived", ""): by its own tests, or by all others."""
        target = self.source / fault.file
        clean = target.read_text()
        target.write_text(patched(fault, self.source))
        try:
            if not fault.file.endswith(".mlir") and self._ninja():
                raise SystemExit(f"fault '{fault.name}' does not compile: {self.log}")
            own = fault.tests.split()
            for word in (w for w in WIDE if w not in own) if wide else own:
                if self.test(word):
                    return "caught", word + " (not listed)" * wide
            return "survived", ""
        finally:
            target.write_text(clean)
