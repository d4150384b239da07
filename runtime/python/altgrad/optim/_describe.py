"""Docstrings of classes whose arguments are described where they are declared: here they are put together."""

import inspect
import re

_SECTIONS = "Args", "Raises", "Example"
_HEAD = re.compile(rf"^({'|'.join(_SECTIONS)}):$", re.MULTILINE)
_ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)
_SHARED = "Further keywords are those that all classes share; help(altgrad.optim.Optimizer) describes them:\n"


def describe(cls, names, sources, common=()):
    """Gives a class, which has a docstring, one that describes these arguments, in this order.

    An argument is described by the class itself, the nearest of its bases, or one of `sources`. Those in `common` are
    described by altgrad.optim.Optimizer, and the class only names them unless it says something of its own. The
    sections "Raises" and "Example" are those of the nearest class that has them.
    """
    bases = [base for base in cls.__mro__ if base.__dict__.get("__doc__") and base is not object]
    parts = [(base.__name__, sections(base.__doc__)) for base in bases]
    known = {}
    for found in [sections(source.__doc__) for source in sources] + [found for _, found in reversed(parts)]:
        known |= arguments(found.get("Args", ""))
    own = arguments(parts[0][1].get("Args", ""))  # a base describes arguments of its subclasses, too
    shared = [name for name in names if name in common and name not in own]
    names = [name for name in names if name not in shared]
    text = [parts[0][1][""]] + [_SHARED + ", ".join(shared) + "."] * bool(shared)
    described = [known[name] for name in dict.fromkeys([*names, *own]) if name in known]
    text += ["Args:\n" + "\n".join(described)] * bool(described)
    for title in _SECTIONS[1:]:
        owner, words = next(((owner, found[title]) for owner, found in parts if title in found), ("", ""))
        text += [f"{title}:\n" + words.replace(f"optim.{owner}(", f"optim.{cls.__name__}(")] * bool(words)
    cls.__doc__ = "\n\n".join(text) + "\n"


def sections(doc):
    """{title: text}, with what comes before the first title under ""."""
    first, *rest = _HEAD.split(inspect.cleandoc(doc))
    return {"": first.strip(), **{title: words.strip("\n") for title, words in zip(rest[::2], rest[1::2])}}


def arguments(words):
    """{name: its lines} of a section "Args"."""
    starts = [*_ARGUMENT.finditer(words)]
    ends = [*[match.start() for match in starts[1:]], len(words)]
    return {match[1]: words[match.start():end].rstrip() for match, end in zip(starts, ends)}
