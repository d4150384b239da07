"""The same spec gives the same bytes: another run, another folder, another locale, without canonicalisation."""

import os
import pathlib
import subprocess

import numpy as np
import pytest

import compare
import program
import ptxrun
import randomcase
import randomstep
import templatecases

CASES = list(templatecases.all_cases())[3::31]
OUTPUTS = ("ptx", "manifest", "mlir", "asm", "bundle")


def _emit(text, what, cwd, locale="C"):
    target = {"ptx": "sm_90", "asm": "x86-64-v4"}.get(what, "x86-64-v3,x86-64-v4,sm_80,sm_90")
    arguments = [program.COMPILER, "-", f"--rule-path={program.TEMPLATES}", f"--emit={what}"]
    if what != "mlir":
        arguments.append(f"--target={target}")
    environment = {**os.environ, "LC_ALL": locale, "LANG": locale, "TZ": "Asia/Kathmandu"}
    out = pathlib.Path(cwd) / f"out.{what}"
    done = subprocess.run([*arguments, "-o", str(out)], input=text.encode(), cwd=cwd,
                          env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr[:1000]
    return out.read_bytes()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_same_bytes(case, tmp_path):
    text = templatecases.text_of(*case)
    for what in OUTPUTS:
        first, other = tmp_path / "a", tmp_path / "b with space"
        first.mkdir(exist_ok=True)
        other.mkdir(exist_ok=True)
        assert _emit(text, what, first) == _emit(text, what, other, "de_DE.UTF-8"), what


def test_same_bytes_for_random_specs(tmp_path):
    for seed in range(8):
        text = randomstep.text(randomstep.generate(seed))
        assert _emit(text, "bundle", tmp_path) == _emit(text, "bundle", tmp_path, "tr_TR.UTF-8")


def test_rule_option_and_its_text_give_the_same_ptx():
    """--rule compiles what --print-step prints."""
    for rule in templatecases.OPTIONS:
        words = ["--storage=param=bf16 master=f32", "--clip"]
        direct = program.call(f"--rule={rule}", f"--rule-path={program.TEMPLATES}", *words,
                              "--target=sm_80", "--emit=ptx")
        text = program.generated(rule, "param=bf16 master=f32", "--clip")
        assert direct == program.call("-", f"--rule-path={program.TEMPLATES}", "--target=sm_80",
                                      "--emit=ptx", text=text)


def test_results_without_canonicalisation():
    """The simplifications between passes change no bit of any result."""
    ptx = {"races": False} if ptxrun.available() else None
    for seed in range(1000, 1012):
        spec = randomstep.generate(seed)
        assert randomcase.words_of(spec, ptx=ptx, flags=("--canonicalize=false",)) is None, seed


@pytest.mark.parametrize("case", CASES[::2], ids="-".join)
def test_templates_without_canonicalisation(case):
    rng = np.random.default_rng(1)
    templatecases.use_rule(case[0])
    ptx = {"races": False} if ptxrun.available() else None
    targets = ("x86-64-v3", "x86-64-v4", *(program.PTX if ptx else ()))
    compiled = program.Program(templatecases.text_of(*case), targets, ("--canonicalize=false",))
    rows = compare.make_rows([0, 3, 33, 257, 4100], 2, rng)
    values = templatecases.start_values(compiled, rows, rng)
    compare.run_steps(compiled, rows, [0, 3, 0, 1, 0], values,
                      templatecases.schedule_for(compiled), rng, ptx)
