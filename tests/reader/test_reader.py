"""Every recipe of the README and of the guides works, one after the other, for somebody who begins with a clean clone.

The clone has a build folder, an environment for Python and a home of its own: nothing that was built for the tests helps.
What is shared: ccache's objects, and the packages of this Python, which a reader would download (4.7 GB).
"""
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import recipes
from recipes import pages

# Runs this test, and so is not run by it.
AROUND = "tools/check.sh"


def git(*words):
    return subprocess.run(["git", "-C", pages.ROOT, *words], check=True, capture_output=True, text=True).stdout


def clone(folder):
    """A clone of this checkout, with what is not committed yet."""
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", pages.ROOT, folder], check=True)
    changed = set(git("diff", "--name-only", "-z", "HEAD").split("\0")
                  + git("ls-files", "--others", "--exclude-standard", "-z").split("\0")) - {""}
    for name in changed:
        source, copy = pages.ROOT / name, folder / name
        if source.is_symlink():
            continue
        copy.unlink(missing_ok=True)
        if source.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(source.read_bytes())
            copy.chmod(source.stat().st_mode)


def environment(folder):
    """.venv with torch in it, as tools/packages.sh leaves one. Where torch is belongs to a compiler's command line, so
    it is in the same place here as in every checkout: ccache would compile all of LibTorch's files once more."""
    subprocess.run([sys.executable, "-m", "venv", folder / ".venv"], check=True)
    site, = folder.glob(".venv/lib/python3*/site-packages")
    packages = Path(sysconfig.get_path("purelib"))
    (site / "torch").symlink_to(packages / "torch")
    (site / "packages.pth").write_text(f"{packages}\n")
    torchrun = folder / ".venv" / "bin" / "torchrun"
    torchrun.write_text(f"#!{folder}/.venv/bin/python\nfrom torch.distributed.run import main\nmain()\n")
    torchrun.chmod(0o755)


def asked(*words):
    """A line that a program prints, or "" where it does not know."""
    try:
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()
    except OSError:
        return ""


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """A function that runs commands in the clone, or in another folder, and returns what they print."""
    checkout, home = tmp_path_factory.mktemp("reader") / "altgrad", tmp_path_factory.mktemp("home")
    clone(checkout)
    environment(checkout)
    ours = {name for name in os.environ if name.startswith(("ALTGRAD_", "PYTHON", "FAKE_", "VIRTUAL_ENV", "XDG_", "LD_"))}
    path = [folder for folder in os.environ["PATH"].split(os.pathsep) if folder != os.path.dirname(sys.executable)]
    shared = {"CCACHE_DIR": asked("ccache", "--get-config", "cache_dir"), "PIP_CACHE_DIR": asked(sys.executable, "-m", "pip", "cache", "dir"),
              "CCACHE_MAXSIZE": asked("ccache", "--get-config", "max_size")}
    env = {**{name: value for name, value in os.environ.items() if name not in ours | {"CXX"}},
           **{name: value for name, value in shared.items() if value}, "HOME": str(home), "PATH": os.pathsep.join(path)}

    offline = []

    def run(commands, folder=checkout):
        if offline:
            pytest.skip(offline[0])
        text = "\n".join([f". {checkout}/.venv/bin/activate", *commands])
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=1800)
        if lost := re.search(".*(No matching distribution found|Temporary failure in name resolution).*", done.stdout):
            offline.append(f"pip has no package index here: {lost[0]}")
            pytest.skip(offline[0])
        assert done.returncode == 0, done.stdout
        return done.stdout

    return run


@pytest.mark.parametrize("recipe", recipes.recipes(), ids=lambda recipe: recipe.where)
def test_a_recipe_works_after_those_before_it(reader, recipe, tmp_path):
    for name, text in recipe.files.items():
        (tmp_path / name).write_text(text)
    commands = [line for line in recipe.commands if line.split()[0] != AROUND]
    printed = reader(commands, **({"folder": tmp_path} if recipe.files else {}))
    if losses := re.findall(r"^step .* loss (\S+)", printed, flags=re.M):
        assert float(losses[-1]) < 0.1 * float(losses[0])


def test_commands_that_leave_nothing_behind_work_with_what_was_installed(reader):
    names = [f"tests/docs/test_blocks.py::test_the_blocks_of_a_section_run[{name}]" for name in recipes.others()]
    quoted = " ".join(f"'{name}'" for name in names)
    printed = reader([f"python -m pytest -q -p no:cacheprovider {quoted}"])
    assert f"{len(names)} passed" in printed


def test_a_recipe_that_a_page_gains_is_run(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "README.md").write_text("[b](runtime/Storage.md) [a](runtime/Language.md)\n```sh reader\none\n```\n```sh\nplain\n```\n")
    (tmp_path / "runtime").mkdir()
    (tmp_path / "runtime" / "Language.md").write_text("```sh reader\nthree\n```\n")
    (tmp_path / "runtime" / "Storage.md").write_text('```c title="b.c"\nint b;\n```\n```sh reader\ntwo # b.c\n```\n')
    found = recipes.recipes()
    assert [recipe.commands for recipe in found] == [["one"], ["two # b.c"], ["three"]]
    assert [recipe.files for recipe in found] == [{}, {"b.c": "int b;\n"}, {}]
    assert recipes.others() == ["README.md:README"]
