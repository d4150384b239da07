"""The bundles that were built with the library, who runs only where there are some, and the compiler."""

import os
from pathlib import Path

import pytest

from altgrad import _library

LIBRARY = Path(_library.find_library()).resolve()
COMPILER = os.environ.get("ALTGRAD_OPT") or _library.own_compiler()
BUNDLES = LIBRARY.parent.parent / "bundles"
needs_bundles = pytest.mark.skipif(not (BUNDLES / "rest").exists(),
                                   reason="ninja stock-bundles has not been run")
