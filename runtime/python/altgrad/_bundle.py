"""Bundles compiled from sets of rules, and what their manifests say."""

import ctypes
import json
import re
import weakref
from dataclasses import dataclass

from torch import distributed

from ._core import core
from ._library import (Error, ExchangeInfo, ExchangeWord, PhaseInfo, ScalarInfo, StreamInfo,
                       WarningInfo, find_compiler, interruptibly, library)

# CPU tensors only: the machine code of both levels, no PTX.
# By whether the tensors lie in the host's memory.
_TARGETS = {True: "--target=x86-64-v3,x86-64-v4", False: "--target=sm_80,sm_90"}

# ALTGRAD_ROLES of bundle.h, in its order.
ROLES = ("none", "param", "grad", "state", "master", "copy", "block_scale", "remainder",
         "input", "hyper", "step", "max_norm", "norm", "scale", "inv_scale", "flag", "scaler", "statistic", "random",
         "history", "tensor_scale")
# float32 behind a history: the place of the next number and the last 100.
HISTORY = 101
IN, OUT, INOUT = range(3)
# Reductions of altgrad.h; MAX and the sums are of float32, ALL of int32.
ADD, SUMSQ, MAX, ALL = range(4)
_REDUCTIONS = {"add": ADD, "sumsq": SUMSQ, "max": MAX, "and": ALL}
_PER_STEP = 0
# Kinds of phases.
_FOLD, _MATRIX = 1, 4
# Roles of what lies beside the parameter, in torch's optimizer.state.
_KEPT = "state", "master", "copy", "block_scale", "remainder", "input"


@dataclass(frozen=True)
class Stream:
    """A list of tensors of one set: `key` is the rule's name for it, `format` how it is stored.

    `block` elements share one value; the values of a `block_scale` belong to the list of the
    same key. A `tensor_scale` has one float32 for each tensor, a state without a block one for each unit. `packed`: codes of
    two neighbours share a byte. `columns`: those of a block over `block` rows, 1 or 128; else 0.
    """

    name: bytes
    key: str
    role: str
    format: str
    set: int
    block: int
    packed: bool = False
    columns: int = 0

    @property
    def of_units(self):
        """Whether it is a state with one value for each unit of a parameter."""
        return self.role == "state" and not self.block


@dataclass(frozen=True)
class Scalar:
    """A value of a step: `type` and `bytes` of altgrad.h; `default` is None where there is none."""

    name: bytes
    key: str
    role: str
    access: int
    type: int
    scope: int
    set: int
    default: float | None


@dataclass(frozen=True)
class Set:
    """What one kind of tensors is bound to; `states` holds master, further copies and scales, too.

    `statistics` are what the step says of each tensor, in float32.

    Without a rule there is no `param`; `norm` is that of each tensor, where it was asked for.
    """

    param: Stream | None
    grad: Stream
    states: tuple
    hypers: tuple
    step: Scalar | None
    statistics: tuple
    norm: Scalar | None = None


@dataclass(frozen=True)
class Exchange:
    """Before `phase`, the words at these offsets of the workspace may be combined."""

    phase: int
    words: tuple  # (offset, reduction)


@dataclass(frozen=True)
class Limit:
    """What the format of `stream`, a key, loses in a set where `hyper` lies between two numbers.

    With `hyper` "" it does so always.
    """

    set: int
    stream: str
    hyper: str
    above: float
    below: float
    text: str


class Bundle:
    """A compiled step: `sets` in the order of the request, `singles` of the step as a whole.

    A step of scalars alone has no sets. `partials`
    has (phase, set, reduction) of each sum over a tensor that other parts of the tensor join, if it was asked for;
    `folds`: whether there are any sums; `matrices` are the sets whose matrices are multiplied.
    """

    def __init__(self, handle):
        self.handle = handle
        weakref.finalize(self, library().altgrad_bundle_free, handle).atexit = False
        streams = [Stream(s.name, s.key.decode(), ROLES[s.role], s.format.decode(), s.set,
                          s.block, s.even != 0, s.columns)
                   for s in self._all("stream", StreamInfo)]
        scalars = [Scalar(s.name, s.key.decode(), ROLES[s.role], s.access, s.type, s.scope, s.set,
                          s.value if s.has_default else None)
                   for s in self._all("scalar", ScalarInfo)]
        self.singles = tuple(s for s in scalars if s.scope == _PER_STEP)
        rest = [s for s in scalars if s.scope != _PER_STEP]
        self.sets = tuple(_set(streams, rest, index)
                          for index in range(library().altgrad_set_count(handle)))
        self.exchanges = tuple(Exchange(e.phase, tuple(self._words(index, e.words)))
                               for index, e in enumerate(self._all("exchange", ExchangeInfo)))
        said = json.loads(library().altgrad_manifest(handle))["partials"]
        self.partials = tuple([(of["phase"], of["set"], _REDUCTIONS[of["reduction"]]) for of in said])
        self.limits = tuple(Limit(w.set, w.stream.decode(), w.hyper.decode(), w.above, w.below,
                                  w.text.decode()) for w in self._all("warning", WarningInfo))
        phases = list(self._all("phase", PhaseInfo))
        self.folds = any([phase.kind == _FOLD for phase in phases])
        self.matrices = {phase.set for phase in phases if phase.kind == _MATRIX}

    def kinds(self):
        """The kinds of its phases, by altgrad.h."""
        return [phase.kind for phase in self._all("phase", PhaseInfo)]

    def unit_multiple(self, index):
        """Of how many elements each unit of a tensor of this set is a multiple, where it has several; 0: it has none."""
        return library().altgrad_unit_multiple(self.handle, index)

    def has_places(self, index):
        """Whether it matters in this set where in its tensor an element is: rows are then in the order of the index."""
        return bool(library().altgrad_has_places(self.handle, index))

    def _all(self, kind, info):
        native = library()
        for index in range(getattr(native, f"altgrad_{kind}_count")(self.handle)):
            entry = info()
            getattr(native, f"altgrad_{kind}_at")(self.handle, index, ctypes.byref(entry))
            yield entry

    def _words(self, exchange, count):
        for index in range(count):
            word = ExchangeWord()
            library().altgrad_exchange_word_at(self.handle, exchange, index, ctypes.byref(word))
            yield word.offset, word.reduction


def _set(streams, scalars, index):
    streams = [s for s in streams if s.set == index]
    scalars = [s for s in scalars if s.set in (-1, index)]
    by_role = lambda entries, *roles: tuple(e for e in entries if e.role in roles)
    known = by_role(streams, "param", "grad", *_KEPT)
    known += by_role(scalars, "hyper", "step", "norm", "statistic", "tensor_scale", "state")
    for entry in (*streams, *scalars):
        if entry not in known:
            raise Error(f"the step needs a {entry.role} {entry.key!r}, which altgrad.optim cannot give it")
    param, = by_role(streams, "param") or [None]
    grad, = by_role(streams, "grad")
    step, = by_role(scalars, "step") or [None]
    norm, = by_role(scalars, "norm") or [None]
    units = tuple(Stream(s.name, s.key, s.role, "f32", index, 0) for s in by_role(scalars, "tensor_scale", "state"))
    return Set(param, grad, by_role(streams, *_KEPT) + units, by_role(scalars, "hyper"),
               step, by_role(scalars, "statistic"), norm)


def compile_sets(lines, rules, clip=None, scaler=False, exchange=False, on_host=True,
                 statistics=False, profile=None, multiplied=False):
    """The Bundle of a step over several sets of tensors. The library compiles each once and keeps it.

    `lines` are those of `set_line`, `rules` the Rule of each; `clip` is None or a word of
    _binding.kinds.KINDS, `profile` None or "torch". `scaler` is True where torch's
    GradScaler says scale and verdict, or the variant of a loss scaler of ours; `on_host`
    asks for the CPU's code, otherwise that of GPUs; with `multiplied` and `exchange` all devices hear of products that
    are wrong on one of them. Raises Error with the compiler's
    diagnostics.
    """
    texts = {rule.text: rule.origin for rule in rules if rule.text is not None}
    if len(texts) > 1:
        raise Error("the rules of one optimizer have to come from one text, and these come from several: "
                    + " and ".join(texts.values()))
    (text, origin), = texts.items() or [(None, "")]
    options = [f"--set={line}" for line in lines] + [_TARGETS[on_host]]
    options += _clip_words(clip) + [f"--profile={profile}"] * bool(profile) + _scaler_words(scaler) + ["--exchange"] * exchange
    options += ["--expect-remote-products"] * (exchange and multiplied)
    options += ["--statistics"] * statistics
    alone = not (distributed.is_available() and distributed.is_initialized())
    bundle = _compile(text, origin, options)
    if not on_host and core().altgrad_table_own_products(bundle.handle, alone):
        bundle = _compile(text, origin, [*options, "--own-products"])
    return bundle


def compile_gradients(lines, flags, on_host=True):
    """The Bundle of a step over gradients alone: `lines` are sets without a rule, `flags`
    what is done to them."""
    return _compile(None, "", [*[f"--set={line}" for line in lines], _TARGETS[on_host], *flags])


def _clip_words(clip):
    return [] if clip is None else ["--clip" if clip == "norm" else f"--clip={clip}"]


def _scaler_words(scaler):
    return [f"--loss-scaler={scaler}"] if isinstance(scaler, str) else ["--scaler"] * scaler


def _compile(text, origin, options):
    spec, compiler = text.encode() if text is not None else None, find_compiler()
    handle = ctypes.c_void_p()
    try:
        interruptibly("altgrad_compile", spec, len(spec or b""), "\n".join(options).encode(),
                      str(compiler).encode() if compiler else None, ctypes.byref(handle))
    except Error as error:
        # The compiler reads the text from stdin.
        words = re.sub(r"^(?:-|<stdin>):(?=\d+:\d+:)", lambda _: origin + ":", str(error),
                       flags=re.MULTILINE)
        raise Error(words, error.status) from None
    return Bundle(handle)
