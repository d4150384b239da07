"""What a wheel carries beside the Python files: the runtime, the compiler without its symbols,
the templates, the bundles that were compiled from them, and what C and C++ programs are built with.

Used by setuptools alone (pyproject.toml). $ALTGRAD_BUILD names another CMake
build folder than build/, and $ALTGRAD_REPOSITORY the address of the repository for
the metadata.
"""

import os
import re
import shutil
import struct
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.egg_info import egg_info
from setuptools.command.sdist import sdist
from setuptools.errors import SetupError

# The glibc of Ubuntu 22.04, RHEL 9 and all that came later.
_GLIBC = 34
_STRIP = ("strip", "llvm-strip-22", "llvm-strip")


def native_files():
    """(file in the checkout, its place in the package) of everything that is not Python."""
    build = Path(os.environ.get("ALTGRAD_BUILD", "build"))
    files = [(build / "lib" / "libaltgrad.so", Path("lib/libaltgrad.so")),
             (build / "lib" / "libaltgrad_core.so", Path("lib/libaltgrad_core.so")),
             (build / "bin" / "altgrad-opt", Path("bin/altgrad-opt"))]
    files += [(path, path) for path in sorted(Path("templates").glob("*.mlir"))]
    bundles = sorted((build / "bundles").glob("*.bundle")) or [build / "bundles"]
    files += [(path, Path("bundles") / path.name) for path in bundles]
    for source, _ in files:
        if not source.is_file():
            raise SetupError(f"{source} is not built: run tools/quickstart.sh first")
    return files


def check_home(build):
    """Raises SetupError for a build folder that came here with a copy of its checkout: ninja would build in that one."""
    cache = build / "CMakeCache.txt"
    found = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", cache.read_text(), re.M) if cache.is_file() else None
    if found and Path(found[1]).resolve() != Path.cwd().resolve():
        raise SetupError(f"{build}/ was made for the checkout in {found[1]}, of which this one is a copy: remove {build}/ "
                         "and run tools/quickstart.sh")


def make_programs():
    """Builds where there is no build folder, as in an unpacked source distribution."""
    build = Path(os.environ.get("ALTGRAD_BUILD", "build"))
    if "ALTGRAD_BUILD" not in os.environ:
        check_home(build)
    script = Path("tools/build.sh")
    if (build / "CMakeCache.txt").exists() or not script.exists():
        return
    if "ALTGRAD_PYTHON" not in os.environ and not find_spec("torch"):
        raise SetupError("there is no torch to build with: pip install torch 'setuptools>=77,<82', and then pip wheel with "
                         "--no-build-isolation")
    if subprocess.run([script, "product"], env={"ALTGRAD_PYTHON": sys.executable, **os.environ}).returncode:
        raise SetupError("the build failed: run tools/packages.sh, which installs LLVM 22 and the other tools, first")


def make_bundles():
    """Compiles the stock rules that the build folder lacks: a checkout has only those that are used most."""
    build = os.environ.get("ALTGRAD_BUILD", "build")
    if not shutil.which("cmake"):
        raise SetupError("cmake is not on PATH: run tools/quickstart.sh first")
    if subprocess.run(["cmake", "--build", build, "--target", "stock-bundles"]).returncode:
        raise SetupError(f"{build} has no stock bundles, and building them failed: run tools/quickstart.sh first")


def install_development(package):
    """Puts headers, LibTorch's library and the CMake package where `package` is the prefix to find them by."""
    build = os.environ.get("ALTGRAD_BUILD", "build")
    command = ["cmake", "--install", build, "--prefix", str(Path(package).resolve()), "--component", "development"]
    if subprocess.run(command).returncode:
        raise SetupError(f"{' '.join(command)} failed: run tools/quickstart.sh first")


def needed_glibc(path):
    """The n of the newest glibc 2.n whose symbols an x86-64 program or library needs, or 0."""
    data = Path(path).read_bytes()
    start, = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQ", data, start + size * i) for i in range(count)]
    dynamic = {}
    for kind, _, offset, _, _, length in segments:
        if kind == 2:
            dynamic.update(struct.iter_unpack("<QQ", data[offset:offset + length]))
    for kind, _, offset, address, _, length in segments:
        # The names of versions are strings (5) among those of symbols, so many bytes (10).
        if kind == 1 and address <= dynamic.get(5, -1) < address + length:
            names = data[offset + dynamic[5] - address:][:dynamic[10]]
            return max(map(int, re.findall(rb"\0GLIBC_2\.(\d+)[.\0]", names)), default=0)
    return 0


def absolute_links(text, address, tag):
    """A page of Markdown at the top of the repository, whose links and pictures lead to `tag` at its address."""
    def absolute(found):
        return f"{found[1]}{address}/{'raw' if found[1].startswith('!') else 'blob'}/{tag}/{found[2]}"

    return re.sub(r"(!?\[[^]]*\]\()(?![a-z]+:|#)([^)\s]+)", absolute, text)


def _strip(path):
    tool = next(filter(None, map(shutil.which, _STRIP)), None)
    if not tool:
        raise SetupError(f"none of {', '.join(_STRIP)} is on PATH: install binutils or llvm-22")
    subprocess.run([tool, str(path)], check=True)


class EggInfo(egg_info):
    """Gives the metadata the addresses of a release. Without $ALTGRAD_REPOSITORY there are none, and links stay relative."""

    def finalize_options(self):
        super().finalize_options()
        address, metadata = os.environ.get("ALTGRAD_REPOSITORY", "").rstrip("/"), self.distribution.metadata
        if address:
            tag = f"v{metadata.get_version()}"
            metadata.project_urls = {"Source": address, "Issues": f"{address}/issues",
                                     "Documentation": f"{address}/blob/{tag}/runtime/python/Guide.md",
                                     "Changelog": f"{address}/blob/{tag}/tools/Changelog.md"}
            metadata.long_description = absolute_links(metadata.long_description, address, tag)


class BuildPy(build_py):
    """Copies the native files beside the Python ones; an editable install finds them in place."""

    def run(self):
        if self.editable_mode:
            super().run()
            return
        # What an earlier build left there, bundles of another compiler, is not this wheel's.
        package = Path(self.build_lib) / "altgrad"
        shutil.rmtree(package, ignore_errors=True)
        super().run()
        make_programs()
        make_bundles()
        for source, place in native_files():
            self.mkpath(str((package / place).parent))
            self.copy_file(str(source), str(package / place))
            if place.parts[0] in ("bin", "lib"):
                _strip(package / place)
        install_development(package)


class BdistWheel(bdist_wheel):
    """A wheel for Linux on x86-64 and any Python 3, whose symbols no library needs."""

    def finalize_options(self):
        # Else all of it would lie among the files that are for every platform.
        self.distribution.has_ext_modules = lambda: True
        super().finalize_options()

    def get_tag(self):
        platform = super().get_tag()[2]
        if platform == "linux_x86_64" and "bdist_wheel" in self.distribution.commands:
            # torch's libraries are not looked at: they are the user's.
            newest = max(needed_glibc(source) for source, place in native_files()
                         if place.parts[0] in ("bin", "lib"))
            platform = f"manylinux_2_{max(newest, _GLIBC)}_x86_64"
        return "py3", "none", platform


class Sdist(sdist):
    """What git tracks: the whole checkout, from which a wheel can be built."""

    def make_release_tree(self, base_dir, files):
        done = subprocess.run(["git", "ls-files", "-z"], capture_output=True, text=True)
        tracked = [name for name in done.stdout.split("\0") if Path(name).is_file()]
        if "CMakeLists.txt" not in tracked:
            raise SetupError("a source distribution is made in a git checkout, and this is none")
        super().make_release_tree(base_dir, sorted({*files, *tracked}))
