"""The same spec gives the same bytes: another run, folder, locale, time zone, number of processors or of compilers
at work; the same results without canonicalisation."""

import os
import pathlib
import shutil
import subprocess
import sys

import numpy as np
import pytest

import compare
import program
import ptxrun
import randomcase
import randomstep
import templatecases

CASES = list(templatecases.all_cases())[3::61]
OUTPUTS = ("ptx", "manifest", "mlir", "asm", "bundle")


@pytest.fixture(scope="session")
def locales(tmp_path_factory):
    """Environments of locales that write 0,5 for 0.5 and lower I to a dotless i, installed or not."""
    folder = tmp_path_factory.mktemp("locales")
    if not shutil.which("localedef"):
        pytest.skip("no localedef: other locales were not tried")
    for name in ("de_DE", "tr_TR"):
        subprocess.run(["localedef", "-i", name, "-f", "UTF-8", folder / f"{name}.UTF-8"], check=True)
    found = [{"LOCPATH": str(folder), "LC_ALL": f"{name}.UTF-8"} for name in ("de_DE", "tr_TR")]
    probe = "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.str(0.5))"
    for environment in found:
        said = subprocess.run([sys.executable, "-c", probe], env=environment, capture_output=True, text=True)
        assert said.stdout == "0,5\n", said.stderr
    return found


def _command(what, out):
    target = {"ptx": "sm_90", "asm": "x86-64-v4"}.get(what, "x86-64-v3,x86-64-v4,sm_80,sm_90")
    command = [program.COMPILER, "-", f"--rule-path={program.TEMPLATES}", f"--emit={what}", "-o", str(out)]
    return command if what == "mlir" else [*command, f"--target={target}"]


def _emit(text, what, cwd, environment=None):
    out = pathlib.Path(cwd) / f"out.{what}"
    environment = {**os.environ, "TZ": "Asia/Kathmandu", "LC_ALL": "C", **(environment or {})}
    done = subprocess.run(_command(what, out), input=text.encode(), cwd=cwd, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr[:1000]
    return out.read_bytes()


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_same_bytes(case, tmp_path, locales):
    text = templatecases.text_of(*case)
    for what in OUTPUTS:
        first, other = tmp_path / "a", tmp_path / "b with space"
        first.mkdir(exist_ok=True)
        other.mkdir(exist_ok=True)
        expected = _emit(text, what, first)
        for environment in locales:
            assert expected == _emit(text, what, other, environment), (what, environment)


def test_same_bytes_of_eight_compilers_at_once(tmp_path):
    """Also with one processor, and each has one thread: there is no number of threads to set."""
    text = program.generated("lamb", "param=bf16 master=f32", "--clip")
    expected = _emit(text, "bundle", tmp_path)
    first = [min(os.sched_getaffinity(0))]
    crowd = [subprocess.Popen(_command("bundle", tmp_path / f"{i}"), stdin=subprocess.PIPE,
                              preexec_fn=(lambda: os.sched_setaffinity(0, first)) if i % 2 else None)
             for i in range(8)]
    for one in crowd:
        one.stdin.write(text.encode())
        one.stdin.close()
    threads = set()
    while crowd[0].poll() is None:
        threads.add(len(os.listdir(f"/proc/{crowd[0].pid}/task")))
    assert max(threads) == 1
    assert [one.wait() for one in crowd] == [0] * 8
    assert all((tmp_path / f"{i}").read_bytes() == expected for i in range(8))


def test_same_passes_with_and_without_threads():
    """As mlir-opt, where MLIR has its threads."""
    text = program.generated("lamb", "param=bf16 master=f32", "--clip")
    run = ["-", f"--altgrad-sweeps=rule-path={program.TEMPLATES}"]
    assert program.call(*run, text=text) == program.call(*run, "--mlir-disable-threading", text=text)


def test_same_bytes_for_random_specs(tmp_path, locales):
    for seed in range(8):
        text = randomstep.text(randomstep.generate(seed))
        assert _emit(text, "bundle", tmp_path) == _emit(text, "bundle", tmp_path, locales[1])


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
