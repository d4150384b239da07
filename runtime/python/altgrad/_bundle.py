"""Bundles compiled from sets of rules, and what the library says of them."""

import ctypes
import re
import weakref
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_uint64

from torch import distributed

from ._core import core
from ._library import Error, find_compiler, interruptibly, library, list_of, struct

# CPU tensors only: the machine code of both levels, no PTX.
# By whether the tensors lie in the host's memory.
_TARGETS = {True: "--target=x86-64-v3,x86-64-v4", False: "--target=sm_80,sm_90"}

# float32 behind a history: the place of the next number and the last 100.
HISTORY = 101
IN, OUT, INOUT = range(3)
# Reductions of altgrad.h; MAX and the sums are of float32, ALL of int32.
ADD, SUMSQ, MAX, ALL = range(4)
# A kind of phases.
_FOLD = 1

# The structs of core/altgrad_program.h.
_Stream = struct("Stream", name=c_char_p, key=c_char_p, role=c_char_p, format=c_char_p, number=c_int32, set=c_int32,
                  dtype=c_int32, block=c_int32, columns=c_int32, packed=c_int32, scaled=c_int32, of_units=c_int32)
_Scalar = struct("Scalar", name=c_char_p, key=c_char_p, role=c_char_p, number=c_int32, set=c_int32, access=c_int32,
                  type=c_int32, has_default=c_int32, default=c_double)
_Set = struct("Set", param=POINTER(_Stream), grad=POINTER(_Stream), step=POINTER(_Scalar), norm=POINTER(_Scalar),
               states=list_of(_Stream), hypers=list_of(_Scalar), statistics=list_of(_Scalar), unit_multiple=c_int64,
               places=c_int32, multiplies=c_int32)
_Word = struct("Word", size=c_uint64, offset=c_uint64, reduction=c_int32)
_Exchange = struct("Exchange", phase=c_int64, words=list_of(_Word))
_Partial = struct("Partial", size=c_uint64, phase=c_int64, set=c_int64, reduction=c_int32)
_Limit = struct("Limit", size=c_uint64, stream=c_char_p, hyper=c_char_p, text=c_char_p, above=c_double, below=c_double,
                 set=c_int32)
_Program = struct("Program", sets=list_of(_Set), singles=list_of(_Scalar), exchanges=list_of(_Exchange),
                   partials=list_of(_Partial), limits=list_of(_Limit), kinds=POINTER(c_int32), phases=c_int64)


class Bundle:
    """A compiled step, as core/altgrad_program.h describes it: `sets` in the order of the request, `singles` of the step
    as a whole, `exchanges`, `partials`, `limits`, and `kinds` of its phases. `folds`: whether there are sums."""

    def __init__(self, handle):
        self.handle = handle
        weakref.finalize(self, library().altgrad_bundle_free, handle).atexit = False
        said = POINTER(_Program)()
        core().altgrad_core_describe(handle, ctypes.byref(said))
        try:
            program = said.contents
            self.sets, self.singles, self.exchanges, self.partials, self.limits = [
                getattr(program, name).read() for name in ("sets", "singles", "exchanges", "partials", "limits")]
            self.kinds = program.kinds[:program.phases]
        finally:
            core().altgrad_core_program_free(said)
        self.folds = _FOLD in self.kinds


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
