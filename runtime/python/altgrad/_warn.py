"""Warnings that point at a line of the user's."""

import sys
import warnings
from importlib import import_module

# This package, and what calls it in the user's name.
_BETWEEN = ("altgrad", "torch", "copy", "pickle")


def warn(words, category=UserWarning):
    """Warns at the nearest caller that is in none of those packages."""
    level, frame = 1, sys._getframe()
    while frame.f_back and (frame.f_globals.get("__name__") or "").partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    warnings.warn(words, category, stacklevel=level)


def warn_renamed(old, new):
    """Warns that what a user wrote has another name now. It is a FutureWarning, as torch's are, so that users see it."""
    warn(f"{old} is {new} now; the old spelling works for one more release", FutureWarning)


def renamed(owner, given, names, more=""):
    """Keywords with the new name for each old one in `names`; warns of those, and raises TypeError where both are
    given.

    `more`: what the old one has become besides.
    """
    given = dict(given)
    for old, new in names.items():
        if old in given:
            if new in given:
                raise TypeError(f"{owner}: {old}= is the old spelling of {new}=, and both are given: leave {old} out")
            warn_renamed(f"{owner}({old}=...)", f"{new}={more}")
            given[new] = given.pop(old)
    return given


def moved(module, name, homes):
    """What a module had as `name`, where `homes` says in which module it is now; warns. Else raises AttributeError."""
    home, _, new = homes.get(name, "").partition(":")
    if not home:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warn_renamed(f"{module}.{name}", f"{home}.{new or name}")
    return getattr(import_module(home), new or name)
