"""The bundles that were built with the library, and who runs only where there are some."""

from pathlib import Path

import pytest

from altgrad import _library

LIBRARY = Path(_library.find_library()).resolve()
BUNDLES = LIBRARY.parent.parent / "bundles"
needs_bundles = pytest.mark.skipif(not (BUNDLES / "rest").exists(),
                                   reason="ninja stock-bundles has not been run")
