"""What a release is made of: one version, a source distribution with everything, workflows whose scripts exist."""
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


YAML = "{extends: default, rules: {line-length: {max: 120}, document-start: disable, truthy: {check-keys: false}, " \
       "comments: {min-spaces-from-content: 1}}}"


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


@pytest.fixture(scope="module")
def packaging(tmp_path_factory):
    """A folder with a new setuptools and its front end."""
    folder = tmp_path_factory.mktemp("packaging")
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", folder, "build", "setuptools"],
                          capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot get build: {done.stderr.splitlines()[-1]}")
    return folder


def test_a_source_distribution_has_every_file(packaging, tmp_path):
    names = tracked()
    subprocess.run(["git", "clone", "-q", ROOT, tmp_path / "clone"], check=True)
    subprocess.run([sys.executable, "-m", "build", "-q", "--sdist", "-o", tmp_path / "dist", tmp_path / "clone"],
                   env={"PYTHONPATH": str(packaging), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, check=True)
    made, = (tmp_path / "dist").iterdir()
    with tarfile.open(made) as archive:
        packed = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    committed = subprocess.run(["git", "ls-files"], cwd=tmp_path / "clone", capture_output=True, text=True).stdout.split("\n")
    assert set(filter(None, committed)) <= packed and len(packed) > 0.9 * len(names)


@pytest.mark.parametrize("address", ["https://git.example/someone/altgrad", ""])
def test_the_metadata_have_the_addresses_of_the_repository(packaging, tmp_path, address):
    """Those of $ALTGRAD_REPOSITORY, and a description whose links are absolute; without it neither is made up."""
    write = "import sys, setuptools; sys.path.insert(0, 'runtime/python'); setuptools.setup()"
    subprocess.run([sys.executable, "-c", write, "-q", "egg_info", "-e", tmp_path], cwd=ROOT, check=True,
                   env={"PYTHONPATH": str(packaging), "HOME": str(tmp_path), "ALTGRAD_REPOSITORY": address})
    text = (tmp_path / "altgrad.egg-info/PKG-INFO").read_text()
    links = re.findall(r"\]\(([^)\s]+)", text) + re.findall(r"^\[\d+\]: (\S+)", text, re.M)
    relative = [link for link in links if not link.startswith(("https:", "http:"))]
    assert len(links) > 20 and bool(relative) == (not address)
    assert re.findall(r"^Project-URL: Source, (\S+)", text, re.M) == [address][:bool(address)]
    version, = re.findall(r"^Version: (.+)", text, re.M)
    for link in links if address else []:
        if found := re.match(rf"{address}/(blob|raw)/v{version}/([^#]+)", link):
            assert (ROOT / found[2]).exists() and (found[1] == "raw") == found[2].endswith(".svg")


def test_a_copied_checkout_says_so(tmp_path):
    """Its build folder is the other one's: ninja would write there."""
    for name in ("tools/build.sh", "pyproject.toml", "README.md", "LICENSE", "tools/package/ThirdParty.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "runtime/python", tmp_path / "runtime/python", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    (tmp_path / "build").mkdir()
    (tmp_path / "build/CMakeCache.txt").write_text("CMAKE_HOME_DIRECTORY:INTERNAL=/elsewhere/altgrad\n")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ALTGRAD_")}
    pip = [sys.executable, "-m", "pip", "wheel", ".", "--no-deps", "-w", "dist"]
    for command in (["tools/build.sh"], pip):
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        if "No matching distribution found for setuptools" in done.stderr:
            pytest.skip("pip cannot get setuptools")
        assert done.returncode and "made for the checkout in /elsewhere/altgrad, of which " in done.stderr, done.stderr


def test_workflows_run_scripts_that_exist():
    workflows = tracked(".github/workflows/*.yml")
    scripts = {script for name in workflows for script in re.findall(r"- run: (tools/\S+)", (ROOT / name).read_text())}
    assert len(workflows) == 3 and scripts
    for script in scripts:
        assert (ROOT / script).stat().st_mode & 0o111, script


def test_workflows_pass_their_linters(tmp_path):
    """The schema of a workflow, what makes one unsafe (an action that is not pinned to a commit), and its layout."""
    subprocess.run([sys.executable, "-m", "venv", tmp_path], check=True)
    done = subprocess.run([tmp_path / "bin/pip", "install", "-q", "zizmor", "yamllint", "check-jsonschema"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"pip cannot get the linters: {done.stderr.splitlines()[-1]}")
    for words in (["check-jsonschema", "--builtin-schema", "vendor.github-workflows"], ["zizmor", "--offline"], ["yamllint", "-d", YAML]):
        done = subprocess.run([tmp_path / "bin" / words[0], *words[1:], *tracked(".github/workflows/*.yml")], cwd=ROOT,
                              capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_licences_of_what_is_linked_in():
    text = (ROOT / "tools/package/ThirdParty.txt").read_text()
    for project in ("LLVM, MLIR and LLD", "Zstandard", "zlib", "nlohmann/json", "libstdc++", "GCC RUNTIME LIBRARY EXCEPTION"):
        assert project in text
