"""The installed tree serves projects outside the checkout: those of the guides, word for word.

`cmake --install` comes first; then each project is made with `cmake -S` and `cmake --build`, and `build/train` or
`build/step` runs.
"""
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ["ALTGRAD_LIBRARY"]).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "docs"))
import pages  # noqa: E402


def blocks(page, title):
    return next(section.blocks for section in pages.sections(ROOT / page) if section.title == title)


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A home directory in which altgrad is installed as the guide for C++ says."""
    home = tmp_path_factory.mktemp("home")
    command, = blocks("runtime/torch/Guide.md", "Install")
    run(command.text.replace("build", str(BUILD), 1), ROOT, home)
    return home


def run(command, folder, home):
    """What a command of a guide prints, with nothing of this checkout in its environment."""
    env = {"HOME": str(home), "PATH": os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"],
           "CXX": os.environ.get("CXX", "c++"), "XDG_CACHE_HOME": str(home / ".cache")}
    done = subprocess.run(["bash", "-euc", command], cwd=folder, env=env, text=True, timeout=900,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout


def project(page, title, folder):
    """Writes the files of a section into a folder. Returns the commands behind them."""
    for block in (found := blocks(page, title)):
        if name := block.value("title"):
            (folder / name).write_text(block.text)
    return "".join(block.text for block in found if block.tag == "sh")


def test_a_project_in_cpp_trains(home, tmp_path):
    printed = run(project("runtime/torch/Guide.md", "Twenty lines", tmp_path), tmp_path, home)
    losses = [float(line.split()[3]) for line in printed.splitlines() if line.startswith("step ")]
    assert len(losses) == 4 and losses[-1] < 0.1 * losses[0]


def test_a_project_in_c_runs(home, tmp_path):
    printed = run(project("runtime/Guide.md", "A complete program", tmp_path), tmp_path, home)
    assert "w[0] = " in printed


def test_the_folder_of_a_wheel_is_a_prefix(home, tmp_path):
    for place in ("lib/libaltgrad.so", "lib/libaltgrad_core.so", "bin/altgrad-opt"):
        (home / "wheel" / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(home / "altgrad" / place, home / "wheel" / place)
    shutil.copytree(ROOT / "templates", home / "wheel" / "templates")
    run(f"cmake --install {BUILD} --prefix ~/wheel --component development", ROOT, home)
    commands = project("runtime/Guide.md", "A complete program", tmp_path).replace("~/altgrad", "~/wheel")
    assert "w[0] = " in run(commands, tmp_path, home)


def test_a_component_that_there_is_not(home, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.24)
project(other CXX)
find_package(altgrad REQUIRED COMPONENTS libtorch)
""")
    with pytest.raises(AssertionError, match=r"altgrad has no component 'libtorch'; there are runtime, for C, and torch"):
        run("cmake -S . -B build -DCMAKE_PREFIX_PATH=~/altgrad", tmp_path, home)


def test_another_torch_is_refused_in_words(home, tmp_path):
    (tmp_path / "CMakeLists.txt").write_text("""cmake_minimum_required(VERSION 3.24)
project(other CXX)
add_library(torch INTERFACE)
set(Torch_VERSION 1.13.1)
find_package(altgrad REQUIRED COMPONENTS torch)
""")
    with pytest.raises(AssertionError, match=r"built with torch [0-9.+a-z]+, and torch 1\.13\.1 was found"):
        run("cmake -S . -B build -DCMAKE_PREFIX_PATH=~/altgrad", tmp_path, home)
