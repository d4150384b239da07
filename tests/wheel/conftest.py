"""The package of this checkout when no other was chosen."""

import importlib.util
import sys
from pathlib import Path

if importlib.util.find_spec("altgrad") is None:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "runtime" / "python"))
