"""Finds libaltgrad.so and declares the C ABI of altgrad.h to ctypes."""

import ctypes
import os
import signal
import threading
from collections import namedtuple
from ctypes import POINTER, c_char_p, c_float, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
# runtime/python/altgrad in a checkout; meaningless, and harmless, in a wheel.
_CHECKOUT = _PACKAGE.parents[2]


class Error(RuntimeError):
    """The runtime or the compiler has refused something; the text is its own words.

    Attributes:
        status: Why, by the names of altgrad_status in altgrad.h: "INVALID" (an argument), "NOT_FOUND" (a file,
            a rule), "BROKEN" (a damaged bundle), "UNAVAILABLE" (a library, a driver), "COMPILE" (the compiler's
            words), "SYSTEM" or "CUDA".
    """

    NAMES = ("OK", "INVALID", "NOT_FOUND", "BROKEN", "UNAVAILABLE", "COMPILE", "SYSTEM", "CUDA", "INTERRUPTED")

    def __init__(self, words: str, status: str = "INVALID") -> None:
        super().__init__(words)
        self.status: str = status


Error.__module__ = "altgrad"


class TensorWords(ctypes.Structure):
    """altgrad_tensor: words of 64 bits, of which `size` is the first."""

    _fields_ = [("size", c_uint64)] + [
        (name, c_int64)
        for name in ("numel", "offset", "rows", "columns", "group", "set", "tag", "units",
                                 "whole", "absent")]


def struct(name, /, **fields):
    """A struct of C, which `of` makes of members. Its `read(entry)` is a tuple of its numbers, words as str; a name as bytes."""
    native = type(name, (ctypes.Structure,), {"_fields_": list(fields.items())})
    native.value = namedtuple(name, fields)
    native.read = lambda of: native.value(*[_read(of, field) for field in fields])
    native.of = lambda **given: native(**{field: value.encode() if isinstance(value, str) else value
                                          for field, value in given.items()})
    return native


def _read(of, field):
    value = getattr(of, field)
    if isinstance(value, bytes) and field != "name":
        return value.decode()
    if isinstance(value, ctypes._Pointer):
        return value.contents.read() if value else None
    return value.read() if isinstance(value, ctypes.Structure) else value


def texts_of(words):
    """An array of texts of C."""
    return (c_char_p * len(words))(*[word.encode() for word in words])


def list_of(of):
    """A pointer to structs and their number."""
    native = type(f"{of.__name__}s", (ctypes.Structure,), {"_fields_": [("at", POINTER(of)), ("count", c_int64)]})
    native.read = lambda self: tuple([entry.read() for entry in self.at[:self.count]])
    return native


# altgrad_status (*)(...): the arguments after the name, in order.
_STATUS_FUNCTIONS = {
    "altgrad_load": (c_char_p, POINTER(c_void_p)),
    "altgrad_compile": (c_char_p, c_uint64, c_char_p, c_char_p, POINTER(c_void_p)),
    "altgrad_plan_create": (c_void_p, c_char_p, POINTER(c_void_p)),
    "altgrad_bind_tensors": (c_void_p, c_void_p, c_int64, c_int64),
    "altgrad_bind_stream": (c_void_p, c_char_p, c_void_p, c_int64),
    "altgrad_bind_scalar": (c_void_p, c_char_p, c_void_p, c_int64),
    "altgrad_bind_present": (c_void_p, c_char_p, c_int64),
    "altgrad_workspace": (c_void_p, POINTER(c_uint64)),
    "altgrad_set_parallel_for": (c_void_p, c_void_p),
    "altgrad_set_threads": (c_void_p, c_int32),
    "altgrad_set_gemm": (c_void_p, c_void_p, c_void_p),
    "altgrad_set_symmetric_gemm": (c_void_p, c_void_p, c_char_p),
    "altgrad_set_factorize": (c_void_p, c_void_p, c_void_p),
    "altgrad_set_owner": (c_void_p, c_void_p, c_void_p, c_void_p),
    "altgrad_set_cuda_memory": (c_void_p, c_void_p, c_void_p),
    "altgrad_run": (c_void_p, c_void_p, c_uint64, c_int64, c_int64, c_void_p),
    "altgrad_format_encode": (c_char_p, c_int32, c_void_p, c_void_p, c_int64),
    "altgrad_format_decode": (c_char_p, c_void_p, c_void_p, c_int64),
    "altgrad_take_edits": (c_char_p, c_void_p, c_void_p, c_int64),
    "altgrad_partials": (c_void_p, POINTER(c_uint64), POINTER(c_int64), POINTER(c_int64)),
    "altgrad_partial_at": (c_void_p, c_int64, c_int64, POINTER(c_int64), POINTER(c_int32), POINTER(c_uint64)),
}

# The other functions: the result, then the arguments.
_FUNCTIONS = {
    "altgrad_last_error": (c_char_p,),
    "altgrad_version": (c_char_p,),
    "altgrad_manifest": (c_char_p, c_void_p),
    "altgrad_format_bits": (c_int32, c_char_p),
    "altgrad_format_even": (c_int32, c_char_p),
    "altgrad_scaled_preset": (c_char_p, c_char_p),
    "altgrad_book_least_scale": (c_float, c_char_p),
    "altgrad_has_units": (c_int32, c_void_p),
    "altgrad_prefer_huge_pages": (None, c_void_p, c_uint64),
    "altgrad_plan_free": (None, c_void_p),
    "altgrad_bundle_free": (None, c_void_p),
    "altgrad_set_interrupt": (None, c_void_p),
}

# What this package was written for; runtime_version() ends with it.
_ABI = "ABI 5"


def find_library():
    """The path of libaltgrad.so: $ALTGRAD_LIBRARY, in the package, or in a checkout's build."""
    given = os.environ.get("ALTGRAD_LIBRARY")
    places = [Path(given)] if given else [
        _PACKAGE / "lib" / "libaltgrad.so",
        _CHECKOUT / "build" / "lib" / "libaltgrad.so",
    ]
    for place in places:
        if place.is_file():
            return place
    raise Error(
        "libaltgrad.so not found at " + " or ".join(map(str, places))
        + "; build it with tools/quickstart.sh or set ALTGRAD_LIBRARY", "NOT_FOUND")


def find_templates():
    """The folder of the library's templates."""
    for place in (_PACKAGE / "templates", _CHECKOUT / "templates"):
        if (place / "adamw.mlir").is_file():
            return place
    raise Error(f"templates not found in {_PACKAGE} nor in {_CHECKOUT}", "NOT_FOUND")


def find_compiler():
    """The altgrad-opt of the package or the checkout, else None: the runtime looks further."""
    return None if os.environ.get("ALTGRAD_OPT") else own_compiler()


def own_compiler():
    """The altgrad-opt of the package or the checkout, whatever the environment says, or None."""
    for place in (_PACKAGE / "bin" / "altgrad-opt", _CHECKOUT / "build" / "bin" / "altgrad-opt"):
        if place.is_file():
            return place
    return None


@cache
def library():
    """The loaded library, opened at the first call; every status is checked."""
    loaded = ctypes.CDLL(str(find_library()))
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name, None)
        if function is None:
            break
        function.restype, function.argtypes = result, arguments
    version = loaded.altgrad_version().decode()
    if not version.endswith(", " + _ABI):
        raise Error(f"{find_library()} is {version}; this package needs {_ABI}", "BROKEN")

    def check(status, function, arguments):
        if status:
            words = loaded.altgrad_last_error().decode(errors="replace").strip()
            name = Error.NAMES[status] if 0 <= status < len(Error.NAMES) else str(status)
            raise Error(words or f"{function.__name__}: {name}", name)

    for name, arguments in _STATUS_FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes, function.errcheck = c_int32, arguments, check
    return loaded


# Whether Ctrl-C was pressed, in the main thread. It is a function of C: a handler of Python's that ran inside could
# raise where nobody would catch it.
_pressed = ctypes.CFUNCTYPE(c_int32)(ctypes.pythonapi.PyOS_InterruptOccurred)


def interruptibly(function, *arguments):
    """Calls a function that may wait for the compiler; Ctrl-C ends that, and Python's handler says what comes then."""
    native = library()
    # Python ends another thread that asks it something while the interpreter exits, in the middle of the library.
    asks = threading.current_thread() is threading.main_thread()
    while True:
        native.altgrad_set_interrupt(_pressed if asks else None)
        try:
            return function(*arguments)
        except Error as error:
            if error.status != "INTERRUPTED":
                raise
        finally:
            native.altgrad_set_interrupt(None)
        signal.raise_signal(signal.SIGINT)


def runtime_version() -> str:
    """The version of the shared library, for example "altgrad 0.1.0, ABI 5".

    Raises:
        altgrad.Error: The library is not found, or is of another version than this package.
    """
    return library().altgrad_version().decode()
