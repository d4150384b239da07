"""Bundles compiled from sets of rules, and what the library says of them."""

import ctypes
import weakref
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p

from torch import distributed

from ._core import core
from ._library import Error, find_compiler, interruptibly, list_of, struct, texts_of

# float32 behind a history: the place of the next number and the last 100.
HISTORY = 101
IN, OUT, INOUT = range(3)
# Reductions of altgrad.h; MAX and the sums are of float32, ALL of int32.
ADD, SUMSQ, MAX, ALL = range(4)
# A kind of phases.
_FOLD = 1

# The structs of core/altgrad_program.h and altgrad_request.h.
_Stream = struct("Stream", name=c_char_p, key=c_char_p, role=c_char_p, format=c_char_p, number=c_int32, set=c_int32,
                  dtype=c_int32, block=c_int32, columns=c_int32, packed=c_int32, scaled=c_int32, of_units=c_int32, geometry=c_int32, first=c_double, state=c_char_p)
_Scalar = struct("Scalar", name=c_char_p, key=c_char_p, role=c_char_p, number=c_int32, set=c_int32, access=c_int32,
                  type=c_int32, has_default=c_int32, default=c_double)
_Set = struct("Set", param=POINTER(_Stream), grad=POINTER(_Stream), step=POINTER(_Scalar), norm=POINTER(_Scalar),
               states=list_of(_Stream), hypers=list_of(_Scalar), statistics=list_of(_Scalar), unit_multiple=c_int64,
               places=c_int32, multiplies=c_int32, columns=c_int32, count=c_char_p)
_Word = struct("Word", size=c_uint64, offset=c_uint64, reduction=c_int32, sum=c_char_p)
_Exchange = struct("Exchange", phase=c_int64, words=list_of(_Word))
_Partial = struct("Partial", size=c_uint64, phase=c_int64, set=c_int64, reduction=c_int32)
_Limit = struct("Limit", size=c_uint64, stream=c_char_p, hyper=c_char_p, text=c_char_p, above=c_double, below=c_double,
                 set=c_int32)
_Program = struct("Program", bundle=c_void_p, sets=list_of(_Set), singles=list_of(_Scalar), exchanges=list_of(_Exchange),
                   partials=list_of(_Partial), limits=list_of(_Limit), kinds=POINTER(c_int32), phases=c_int64)

_Request = struct("Request", sets=POINTER(c_char_p), count=c_int64, text=c_char_p, size=c_uint64, origin=c_char_p,
                  rule_path=c_char_p, clip=c_char_p, numerics=c_char_p, loss_scaler=c_char_p, flags=c_char_p,
                  compiler=c_char_p, keys=c_char_p, scaler=c_int32, statistics=c_int32, exchange=c_int32,
                  products=c_int32, host=c_int32, alone=c_int32, entry=c_char_p)


class Bundle:
    """A compiled step, as core/altgrad_program.h describes it: `sets` in the order of the request, `singles` of the
    step as a whole, `exchanges`, `partials`, `limits`, and `kinds` of its phases. `folds`: whether there are sums."""

    def __init__(self, native):
        self.native, program = native, native.contents
        weakref.finalize(self, core().altgrad_core_program_free, native).atexit = False
        self.handle = program.bundle
        self.sets, self.singles, self.exchanges, self.partials, self.limits = [
            getattr(program, name).read() for name in ("sets", "singles", "exchanges", "partials", "limits")]
        self.kinds = program.kinds[:program.phases]
        self.folds = _FOLD in self.kinds


def compile_sets(lines, rules=(), flags=(), on_host=True, scaler=False, multiplied=False, **members):
    """The Bundle of a step over several sets of tensors. The library compiles each once and keeps it.

    `lines` are those of `set_line`, `rules` the Rule of each, and of sets of gradients alone `flags` say what is done
    to them. `members` are the other members of altgrad_core_request. `scaler` is True where torch's GradScaler says
    scale and verdict, or the variant of a loss scaler of ours; `on_host` asks for the CPU's code, otherwise that of
    GPUs; with `multiplied` and `exchange` all devices hear of products that are wrong on one of them. Raises Error with
    the compiler's diagnostics.
    """
    texts = {rule.text: rule.origin for rule in rules if rule.text is not None}
    if len(texts) > 1:
        raise Error("the rules of one optimizer have to come from one text, and these come from several: "
                    + " and ".join(texts.values()))
    (text, origin), = texts.items() or [("", "")]
    alone, program = not (distributed.is_available() and distributed.is_initialized()), POINTER(_Program)()
    request = _Request.of(sets=texts_of(lines), count=len(lines), text=text, size=len(text.encode()), origin=origin,
                          flags="\n".join(flags), compiler=str(find_compiler() or ""), scaler=scaler is True,
                          loss_scaler=scaler if isinstance(scaler, str) else None, products=multiplied,
                          host=on_host, alone=alone, **members)
    interruptibly(core().altgrad_core_compile, ctypes.byref(request), ctypes.byref(program))
    return Bundle(program)
