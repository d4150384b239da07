"""Warnings that point at a line of the user's."""

import sys
import warnings

# This package, and what calls it in the user's name.
_BETWEEN = ("altgrad", "torch", "copy", "pickle")


def warn(words):
    """Warns at the nearest caller that is in none of those packages."""
    level, frame = 1, sys._getframe()
    while frame.f_back and (frame.f_globals.get("__name__") or "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(words, stacklevel=level)
