"""Runs one block of a page. The conventions are in pages.py."""
import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import traceback
from pathlib import Path

import torch

import altgrad
from pages import ROOT

OPT = Path(os.environ.get("ALTGRAD_OPT", ROOT / "build/bin/altgrad-opt")).resolve()
LIBRARY = Path(os.environ.get("ALTGRAD_LIBRARY", ROOT / "build/lib/libaltgrad.so")).resolve()
PACKAGE = Path(altgrad.__file__).resolve().parents[1]
RULE = """altgrad.rule @example(param %w: f32, grad %g: f32, state %m: f32, state %v: f32, hyper %lr: f64 = 1.0e-3,
                      hyper %beta: f64 = 0.9, hyper %eps: f64 = 1.0e-8, step %t: i64) {
"""
SHORT = """rule example(param w, grad g, state m v, lr = 1e-3, beta = 0.9, eps = 1e-8, step t)
{}  w = w - lr * g
  m = m + g
  v = v + g
"""
YIELD = "altgrad.yield param(%w) state(%m, %v)\n"


def same(printed, expected):
    """Whether a text is the expected one, in which ... stands for anything."""
    def tidy(text):
        return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n"
    return doctest.OutputChecker().check_output(tidy(expected), tidy(printed), doctest.ELLIPSIS)


def check(printed, expected, where):
    if expected is not None:
        assert same(printed, expected), f"{where}: expected\n{expected}\nbut it printed\n{printed}"


class Runner:
    """One section's folder, namespace and program."""

    def __init__(self, page, folder):
        self.page, self.folder, self.program = page, folder, []
        for entry in ROOT.iterdir():
            if not entry.name.startswith(".git") or entry.name == ".github":
                (folder / entry.name).symlink_to(entry)
        self.env = {**os.environ, "PATH": os.pathsep.join([str(OPT.parent), os.path.dirname(sys.executable), os.environ["PATH"]]),
                    "PYTHONPATH": str(PACKAGE), "ALTGRAD_OPT": str(OPT), "ALTGRAD_LIBRARY": str(LIBRARY),
                    "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        object.__setattr__(model, "blocks", model[:-1])  # as a transformer has them, beside its head
        self.names = {"__name__": "__main__", "torch": torch, "altgrad": altgrad, "model": model,
                      "inputs": torch.randn(32, 64), "targets": torch.randint(10, (32,))}
        self.make_loss()

    def make_loss(self):
        names = self.names
        names["loss"] = torch.nn.functional.cross_entropy(names["model"](names["inputs"]), names["targets"])

    def run(self, block, expected):
        """Runs a block; `expected` is the text of the output block behind it, or None."""
        if "reader" in block.words.split() or not block.runs_here():
            return None
        where = f"{self.page.relative_to(ROOT)}:{block.line}"
        if title := block.value("title"):
            (self.folder / title).unlink(missing_ok=True)
            (self.folder / title).write_text(block.text)
            if block.tag not in ("mlir", "rule"):
                return None
        return getattr(self, f"run_{block.tag}")(block, expected, where)

    def python(self, text, line, fails):
        """What Python code prints; its line numbers are the page's."""
        out = io.StringIO()
        code = compile("\n" * (line - 1) + text, str(self.page), "exec")
        with contextlib.redirect_stdout(out), contextlib.chdir(self.folder):
            try:
                exec(code, self.names)
            except Exception as error:
                if not fails:
                    raise
                return "".join(traceback.format_exception_only(error))
        assert not fails, f"{self.page}:{line}: does not fail"
        return out.getvalue()

    def run_python(self, block, expected, where):
        check(self.python(block.text, block.line, "fails" in block.words), expected, where)

    def run_diff(self, block, expected, where):
        for sign in "+-":
            self.make_loss()
            kept = ["" if line.startswith(sign) else line[1:] for line in block.lines]
            self.python("\n".join(kept), block.line, False)

    def command(self, command, fails, where):
        # gloo of torch 2.11 aborts in about one of eight runs when a process ends, without altgrad, too.
        for _ in range(5 if "torchrun" in command and not fails else 1):
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", command], cwd=self.folder, env=self.env, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300)
            if done.returncode == 0:
                break
        assert (done.returncode != 0) == fails, f"{where}: ends with {done.returncode}\n{done.stdout}"
        return done.stdout

    def run_sh(self, block, expected, where):
        check(self.command(block.text, "fails" in block.words, where), expected, where)

    def run_console(self, block, expected, where):
        for part in re.split(r"^\$ ", block.text.replace("\\\n", "\0"), flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            fails = "fails" in block.words
            check(self.command(command.replace("\0", "\\\n"), fails, where), printed.replace("\0", "\\\n") or None, where)

    def run_mlir(self, block, expected, where):
        text = block.text
        if "in-rule" in block.words:
            text = RULE + text + ("" if "altgrad.yield" in text else YIELD) + "}\n"
        self.take(text, block, expected, where)

    def run_rule(self, block, expected, where):
        lines = "".join(f"  {line}\n" for line in block.lines)
        self.take(SHORT.format(lines) if "in-rule" in block.words else block.text, block, expected, where)

    def take(self, text, block, expected, where):
        """Gives a text to altgrad-opt, which says what is expected."""
        done = subprocess.run([OPT, "-"], input=text, text=True, capture_output=True, env=self.env, cwd=self.folder)
        assert (done.returncode != 0) == ("fails" in block.words), f"{where}: {done.stderr}"
        check(done.stderr, expected, where)

    def run_c(self, block, expected, where):
        self.program.append(block)

    def run_output(self, block, expected, where):
        """Compared with the block before it."""

    run_text = run_cpp = run_output  # those of a page are run_cpp_of

    def finish(self):
        """Compiles what the C blocks of the section make together, and runs it if it has a main."""
        if self.program:
            self.build("c", "".join(map(self.placed, self.program)), self.program[0].line)

    def placed(self, block):
        return f'#line {block.line} "{self.page}"\n{block.text}'

    def build(self, tag, text, line):
        source = self.folder / f"program.{tag}"
        source.write_text(text)
        words = [os.environ.get("CXX", "clang++-22"), *(["-x", "c"] if tag == "c" else ["-std=c++17"]),
                 str(source), "-Wall", "-Werror", f"-I{ROOT}/runtime/include"]
        libraries = [f"-L{LIBRARY.parent}", f"-Wl,-rpath,{LIBRARY.parent}"]
        if "#include <torch/" in text:
            from torch.utils.cpp_extension import include_paths
            words += [f"-I{ROOT}/runtime/torch", "-fclang-abi-compat=17", *(f"-isystem{path}" for path in include_paths())]
            place = Path(torch.__file__).parent / "lib"
            libraries += ["-l:libaltgrad_libtorch.a", "-l:libaltgrad_core.so", f"-L{place}", f"-Wl,-rpath,{place}", "-ltorch", "-ltorch_cpu", "-lc10"]
        last = [*libraries, "-laltgrad", "-o", "program"] if re.search(r"\bmain\s*\(", text) else ["-fsyntax-only"]
        self.command(shlex.join(words + last) + (" && ./program" if "program" in last else ""), False,
                     f"{self.page.relative_to(ROOT)}:{line}")


def run_cpp_of(sections, folder):
    """Compiles the C++ of a page once: torch's headers cost more than all the rest. Runs the main of each section."""
    runner, heads, bodies, mains = Runner(sections[0].page, folder), [], [], []
    for section in sections:
        blocks = [block for block in section.blocks if block.tag == "cpp" and not block.value("title")]
        text = "".join(map(runner.placed, blocks))
        heads += re.findall(r"^#include .*\n", text, flags=re.M)
        for block in section.blocks:
            if block.tag != "cpp" and block.value("title"):
                (folder / block.value("title")).write_text(block.text)
        name = f"section_{section.line}"
        bodies.append(f"namespace {name} {{\n{re.sub(r'^#include .*', '', text, flags=re.M)}\n}}\n")
        if re.search(r"\bint main\s*\(", text):
            mains.append(f"  {name}::main();\n")
    main = "int main() {\n" + "".join(mains) + "}\n" if mains else ""
    runner.build("cpp", "".join([*dict.fromkeys(heads), *bodies, main]), sections[0].line)
