"""What a wheel carries beside the Python files: the runtime, the compiler, the templates and
the bundles that were compiled from them.

Used by setuptools alone (pyproject.toml). $ALTGRAD_BUILD names another CMake
build folder than build/.
"""

import os
from pathlib import Path

from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.errors import SetupError


def native_files():
    """(file in the checkout, its place in the package) of everything that is not Python."""
    build = Path(os.environ.get("ALTGRAD_BUILD", "build"))
    files = [(build / "lib" / "libaltgrad.so", Path("lib/libaltgrad.so")),
             (build / "bin" / "altgrad-opt", Path("bin/altgrad-opt"))]
    # One for the torch and the Python at hand; others do without.
    files += [(path, Path("lib") / path.name)
              for path in sorted((build / "lib").glob("altgrad_native.*"))]
    files += [(path, path) for path in sorted(Path("templates").glob("*.mlir"))]
    bundles = sorted((build / "bundles").glob("*.bundle")) or [build / "bundles"]
    files += [(path, Path("bundles") / path.name) for path in bundles]
    for source, _ in files:
        if not source.is_file():
            raise SetupError(f"{source} is not built: run tools/quickstart.sh first")
    return files


class BuildPy(build_py):
    """Copies the native files beside the Python ones; an editable install finds them in place."""

    def run(self):
        super().run()
        if self.editable_mode:
            return
        for source, place in native_files():
            target = Path(self.build_lib) / "altgrad" / place
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target))


class BdistWheel(bdist_wheel):
    """A wheel for this platform and any Python 3: what knows Python, the package does without."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]
