"""A wheel of this build, installed in a bare folder: no checkout, no LLVM, nothing on PATH."""

import base64
import csv
import hashlib
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from altgrad import _library

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(_library.find_library()).resolve().parents[1]
NEED_TORCH = "libaltgrad_core.so"
TORCHS = {"libtorch.so", "libtorch_cpu.so", "libtorch_python.so", "libc10.so"}
pytestmark = pytest.mark.skipif(not (BUILD / "bundles" / "rest").exists(),
                                reason="ninja stock-bundles has not been run")


def has_setuptools():
    from importlib.metadata import PackageNotFoundError, version
    try:
        return int(version("setuptools").split(".")[0]) >= 77
    except PackageNotFoundError:
        return False


@pytest.fixture(scope="session")
def source(tmp_path_factory):
    """A copy of what pip reads of the checkout: it writes there."""
    source = tmp_path_factory.mktemp("source")
    (source / "tools" / "package").mkdir(parents=True)
    for name in ("pyproject.toml", "README.md", "LICENSE", "tools/package/ThirdParty.txt"):
        shutil.copy(ROOT / name, source / name)
    shutil.copytree(ROOT / "templates", source / "templates")
    shutil.copytree(ROOT / "runtime" / "python", source / "runtime" / "python",
                    ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    return source


def pip(source, *words, build=BUILD):
    done = subprocess.run([sys.executable, "-m", "pip", *words, *["--no-build-isolation"] * has_setuptools()],
                          cwd=source, env={**os.environ, "ALTGRAD_BUILD": str(build)},
                          capture_output=True, text=True)
    if re.search("No matching distribution found for setuptools|No module named pip", done.stderr):
        pytest.skip(f"pip has no setuptools 77 to build with: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="session")
def wheel(source, tmp_path_factory):
    """What `pip wheel .` makes."""
    out = tmp_path_factory.mktemp("dist")
    pip(source, "wheel", ".", "--no-deps", "-w", str(out))
    made, = out.iterdir()
    return made


@pytest.fixture(scope="session")
def bare(wheel, tmp_path_factory):
    """A fresh virtual environment with the wheel, and the torch of this Python."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "pip", "-q", "--disable-pip-version-check", "--python", python,
                    "install", "--no-index", "--no-deps", wheel], check=True,
                   env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"})
    site, = (folder / "venv" / "lib").glob("python3*/site-packages")
    import torch
    (site / "torch.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    return folder


def run(folder, *arguments, status=0):
    """What the environment's Python prints in the bare folder, with no variables and no PATH."""
    done = subprocess.run([folder / "venv" / "bin" / "python", *arguments], cwd=folder,
                          env={"HOME": str(folder), "PATH": "/nowhere"}, capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def installed(bare):
    """The environment and the installed package; what a test takes away comes back."""
    package, = bare.glob("venv/lib/python3*/site-packages/altgrad")
    taken = bare / "taken"
    taken.mkdir(exist_ok=True)
    yield bare, package, lambda path: shutil.move(path, taken / path.name)
    for path in taken.iterdir():
        shutil.move(path, package / ("bin" if path.name == "altgrad-opt" else "lib") / path.name)


def has_symbols(elf):
    """Whether one of its sections is a table of symbols that only debuggers read."""
    start, = struct.unpack_from("<Q", elf, 40)
    size, count = struct.unpack_from("<HH", elf, 58)
    return any(struct.unpack_from("<I", elf, start + size * i + 4)[0] == 2 for i in range(count))


def test_it_is_for_any_python_and_glibc_2_34(wheel):
    assert re.fullmatch(r"altgrad-[\d.]+-py3-none-manylinux_2_34_x86_64\.whl", wheel.name), wheel.name
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        programs = {name: archive.read(name) for name in names
                    if name.startswith("altgrad/bin/") or re.fullmatch(r"altgrad/lib/[^/]+\.so", name)}
    expected = {"altgrad/bin/altgrad-opt", "altgrad/lib/libaltgrad.so", "altgrad/__main__.py",
                "altgrad/amp/__init__.py", "altgrad/optim/__init__.py", "altgrad/templates/adamw.mlir",
                "altgrad/py.typed", "altgrad/include/altgrad/altgrad.h", "altgrad/lib/cmake/altgrad/altgradConfig.cmake"}
    assert expected <= names
    assert all(name.split("/")[0] in ("altgrad", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info")
               for name in names)
    assert sum(name.endswith(".bundle") for name in names) == len(list(BUILD.glob("bundles/*.bundle")))
    for name, data in programs.items():
        assert not has_symbols(data), f"{name} is not stripped"
        newer = set(re.findall(rb"\0(GLIBC_2\.(?:3[5-9]|[4-9]\d))\0", data))
        assert not newer, (name, newer)


def without_torch(wheel, folder):
    """The same wheel with only what needs no torch."""
    other = folder / wheel.name
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(other, "w") as out:
        for name in archive.namelist():
            data = archive.read(name)
            if name.endswith("/RECORD"):
                data = b"".join(line for line in data.splitlines(keepends=True)
                                if NEED_TORCH.encode() not in line)
            if NEED_TORCH not in name:
                out.writestr(archive.getinfo(name), data, zipfile.ZIP_STORED)
    return other


def test_auditwheel_agrees(wheel, tmp_path):
    """torch's own libraries, which what looks at tensors finds loaded, are the only ones outside."""
    program = shutil.which("auditwheel", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if not program:
        pytest.skip("auditwheel is not installed: pip install auditwheel")

    def show(path):
        done = subprocess.run([program, "show", "--json", path], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    said = show(wheel)
    assert said["sym_tag"] == "manylinux_2_34_x86_64" and not said["pure"]
    assert set(said["external_libs"]) <= TORCHS
    said = show(without_torch(wheel, tmp_path))
    assert said["overall_tag"] == "manylinux_2_34_x86_64" and not said["external_libs"]


def test_every_file_is_as_recorded(wheel):
    with zipfile.ZipFile(wheel) as archive:
        record, = [name for name in archive.namelist() if name.endswith("/RECORD")]
        rows = list(csv.reader(io.StringIO(archive.read(record).decode())))
        assert len(rows) == len(archive.namelist())
        for name, digest, _ in rows:
            if digest:
                made = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest())
                assert digest == "sha256=" + made.decode().rstrip("=")
        modes = {i.filename: i.external_attr >> 16 for i in archive.infolist()}
    assert modes["altgrad/bin/altgrad-opt"] & 0o111


def test_an_editable_install_needs_nothing_built(source, tmp_path):
    pip(source, "install", "-e", ".", "--no-deps", "--target", str(tmp_path), build="/nowhere")
    assert list(tmp_path.glob("__editable__*"))


TRAIN = """
import torch, altgrad, altgrad.optim
assert altgrad.__file__.startswith({venv!r}), altgrad.__file__
torch.manual_seed(0)
target = torch.randn(64, 8)

def loss_after(make):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 8))
    data, optimizer = torch.randn(64, 16), make(model.parameters())
    for _ in range(20):
        optimizer.zero_grad()
        loss = (model(data) - target).square().mean()
        loss.backward()
        optimizer.step()
    return loss.item()

ours, theirs = (loss_after(lambda p: o.AdamW(p, lr=1e-2)) for o in (altgrad.optim, torch.optim))
assert abs(ours - theirs) < 1e-4 * theirs, (ours, theirs)
print("trained")
"""

OWN = """
rule = '''altgrad.rule @halve(param %w: f32, grad %g: f32) {
  %half = constant 0.5 : f32
  %v = mulf %w, %half : f32
  altgrad.yield param(%v) state()
}'''
p = torch.nn.Parameter(torch.full((10,), 8.0))
p.grad = torch.ones(10)
try:
    altgrad.optim.FromRule(rule)([p]).step()
    print("halved", p.tolist()[0])
except altgrad.Error as error:
    print("refused", error)
"""


def test_the_command_is_the_package_s_compiler(installed):
    folder, package, take = installed
    words = "altgrad-opt", "--rule=adamw", "--emit=report"
    alone = {"HOME": str(folder), "PATH": "/nowhere"}
    done = subprocess.run([folder / "venv" / "bin" / words[0], *words[1:]], capture_output=True, text=True, env=alone)
    assert done.stdout.startswith("step adamw_step: 1 sweep"), done.stderr
    take(package / "bin" / "altgrad-opt")
    done = subprocess.run([folder / "venv" / "bin" / words[0], *words[1:]], capture_output=True, text=True, env=alone)
    assert done.returncode == 1 and "this package has no compiler: install altgrad's wheel" in done.stderr


def test_it_trains_and_compiles_a_rule(installed):
    folder, _, _ = installed
    code = TRAIN.format(venv=str(folder)) + OWN
    assert run(folder, "-c", code).split() == ["trained", "halved", "4.0"]
    kept = list((folder / ".cache" / "altgrad").glob("*.bundle"))
    assert len(kept) == 1, "the stock rule was there, the other one is kept"


def test_its_doctor_is_content(installed):
    folder, package, _ = installed
    text = run(folder, "-m", "altgrad", "doctor")
    assert text.endswith("altgrad works here\n"), text
    for words in (f" in {package}\n", f"{package}/lib/libaltgrad.so", f"{package}/bin/altgrad-opt", "bundles of them"):
        assert words in text, text


def test_without_the_compiler_stock_rules_go_on(installed):
    folder, package, take = installed
    take(package / "bin" / "altgrad-opt")
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    said = run(folder, "-c", TRAIN.format(venv=str(folder)) + OWN)
    assert said.startswith("trained\nrefused no compiler: altgrad-opt is neither")
