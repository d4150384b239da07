"""Rules as text, and the bundles compiled from them, one per process and content."""

import ctypes
import json
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from ._library import Error, find_compiler, find_templates, library

# CPU tensors only: the machine code of both levels, no PTX.
_TARGETS = "--target=x86-64-v3,x86-64-v4"
_COMMENT = re.compile(r"//[^\n]*")
_RULE = re.compile(r"\baltgrad\.rule\s+(?:private\s+)?@([A-Za-z_][\w.$-]*)")


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule: the MLIR text that holds it, its name there, and where the text came from."""

    text: str
    name: str
    origin: str


def find_rule(source, name=None):
    """The Rule in `source`: the path of a file, the text itself, or the name of a template.

    `name` chooses among several rules of one text. Raises Error.
    """
    source = str(source)
    if "altgrad.rule" in source:
        text, origin = source, "<rule>"
    elif re.fullmatch(r"[\w-]+", source) and not Path(source).exists():
        path = find_templates() / f"{source}.mlir"
        if not path.is_file():
            known = ", ".join(sorted(p.stem for p in path.parent.glob("*.mlir")))
            raise Error(f"no template is called {source!r}; there are {known}", "NOT_FOUND")
        text, origin = path.read_text(), str(path)
    else:
        try:
            text, origin = Path(source).read_text(), source
        except (OSError, UnicodeDecodeError) as error:
            raise Error(f"cannot read the rule {source!r}: {error}", "NOT_FOUND") from None
    names = _RULE.findall(_COMMENT.sub("", text))
    if name is None and len(names) == 1:
        name = names[0]
    if name not in names:
        asked = f"no rule @{name}" if name else "not exactly one rule"
        held = ", ".join("@" + n for n in names) or "none"
        raise Error(f"{origin} holds {asked} (rules there: {held})", "NOT_FOUND")
    return Rule(text, name, origin)


@dataclass(frozen=True)
class Hyper:
    """A hyper-parameter of a rule; `default` is None where the rule gives none."""

    name: str
    default: float | None


class Bundle:
    """A compiled step and what its manifest says of its streams and scalars.

    `param`, `grad` and `states` are names of streams, `extras` those of the
    master copy and of a further copy of the parameter. `step` is the name of
    the step count or None, `singles` the scalars of the whole step.
    `norm_phases` is the number of phases after which the global norm of a
    clipped step is known.
    """

    def __init__(self, handle):
        self.handle = handle
        manifest = json.loads(library().altgrad_manifest(handle).decode())
        streams, scalars = manifest["streams"], manifest["scalars"]
        self.formats = {s["name"]: s["format"] for s in streams}
        self.written = {s["name"] for s in streams if s["access"] != "in"}
        by_role = lambda role: [s["name"] for s in streams if s["role"] == role]
        self.grad, = by_role("grad")
        self.param, = by_role("param")
        self.master = next(iter(by_role("master")), None)
        self.states = by_role("state")
        self.hypers = [Hyper(s["name"], s["default"]) for s in scalars if s["role"] == "hyper"]
        self.step = next((s["name"] for s in scalars if s["role"] == "step"), None)
        self.singles = [s["name"] for s in scalars if s["scope"] == "step"]
        self.extras = [n for n in self.formats
                       if n not in (self.grad, self.param, *self.states)]
        domains = [phase["domain"] for phase in manifest["phases"]]
        self.norm_phases = (
            domains.index("once", domains.index("chunks")) + 1
            if any(s["name"] == "norm" for s in scalars) else 0)


_compiled = {}
_lock = threading.Lock()


def compile_rule(rule, options=(), storage="", clip=False, scaler=False):
    """The Bundle of one rule in one storage, compiled at most once per process.

    `options` are the names of the rule's options that are on; `storage` is
    altgrad-opt's, for example "param=bf16 m=f32". Raises Error with the
    compiler's diagnostics.
    """
    chosen = "{" + ",".join(options) + "}" if options else ""
    lines = [f"--rule={rule.name}{chosen}", _TARGETS]
    lines += [f"--storage={storage}"] if storage else []
    lines += ["--clip"] * clip + ["--scaler"] * scaler
    key = rule.text, tuple(lines)
    with _lock:
        if key not in _compiled:
            _compiled[key] = _compile(rule, lines)
        return _compiled[key]


def _compile(rule, lines):
    text, compiler = rule.text.encode(), find_compiler()
    handle = ctypes.c_void_p()
    try:
        library().altgrad_compile(
            text, len(text), "\n".join(lines).encode(),
            str(compiler).encode() if compiler else None, ctypes.byref(handle))
    except Error as error:
        # The compiler reads the rule from stdin and calls it "-".
        words = re.sub(r"^-:(?=\d+:\d+:)", rule.origin + ":", str(error), flags=re.MULTILINE)
        raise Error(words, error.status) from None
    return Bundle(handle)
