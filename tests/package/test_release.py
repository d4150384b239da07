"""What a release is made of: one version, a source distribution with everything, workflows whose scripts exist."""
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked(*patterns):
    done = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("this is no git checkout")
    return [name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_one_file_has_the_version():
    version, = re.findall(r'^__version__ = "(.+)"$', (ROOT / "runtime/python/altgrad/__init__.py").read_text(), re.M)
    code = tracked("*CMakeLists.txt", "*.cmake", "*.toml", "*.cpp", "runtime/*.py", "tools/*.py", "*.sh", "*.yml")
    own = re.compile(rf"(?<![\d.=]){re.escape(version)}(?![\d.])")
    # A docstring may have it as an example.
    found = {name for name in code for line in (ROOT / name).read_text().splitlines()
             if own.search(line) and "example" not in line}
    assert found == {"runtime/python/altgrad/__init__.py"}


def test_a_source_distribution_has_every_file(tmp_path):
    names = tracked()
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "clone"], check=True)
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", tmp_path / "tools", "build"],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot get build: {done.stderr.splitlines()[-1]}")
    subprocess.run([sys.executable, "-m", "build", "-q", "--sdist", "-o", tmp_path / "dist", tmp_path / "clone"],
                   env={"PYTHONPATH": str(tmp_path / "tools"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, check=True)
    made, = (tmp_path / "dist").iterdir()
    with tarfile.open(made) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    committed = subprocess.run(["git", "ls-files"], cwd=tmp_path / "clone", capture_output=True, text=True).stdout.split("\n")
    assert set(filter(None, committed)) <= packed and len(packed) > 0.9 * len(names)


def test_workflows_run_scripts_that_exist():
    workflows = tracked(".github/workflows/*.yml")
    scripts = {script for name in workflows for script in re.findall(r"- run: (tools/\S+)", (ROOT / name).read_text())}
    assert len(workflows) == 3 and scripts
    for script in scripts:
        assert (ROOT / script).stat().st_mode & 0o111, script


def test_licences_of_what_is_linked_in():
    text = (ROOT / "tools/package/ThirdParty.txt").read_text()
    for project in ("LLVM, MLIR and LLD", "Zstandard", "zlib", "nlohmann/json", "libstdc++", "GCC RUNTIME LIBRARY EXCEPTION"):
        assert project in text
