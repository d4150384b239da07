"""Finds libaltgrad_torch.so, which knows torch's tensors, beside libaltgrad.so."""

import ctypes
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_uint64, c_void_p
from functools import cache

import torch

from ._library import Error, find_library, library

_NAME = "libaltgrad_torch.so"

# altgrad_status (*)(...): the arguments after the name, in order.
_STATUS_FUNCTIONS = {
    "altgrad_table_create": (c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, POINTER(c_void_p)),
    "altgrad_table_use": (c_void_p, c_void_p, c_uint64, c_int32),
    "altgrad_table_arrange": (c_void_p, c_int64, c_void_p),
    "altgrad_table_run": (c_void_p, c_char_p, c_int64, c_void_p),
    "altgrad_table_entries_create": (c_void_p, c_void_p, c_int64, POINTER(c_void_p)),
    "altgrad_table_look_at_list": (c_void_p, c_void_p, c_int32, POINTER(c_int32)),
    "altgrad_table_sum": (c_void_p, c_int64, c_void_p, POINTER(c_int32)),
}

# These functions hold Python's lock while they run.
_LOCKED = ("altgrad_table_entries_create", "altgrad_table_entries_same", "altgrad_table_look_at_list",
           "altgrad_table_fetch")

# The other functions: the result, then the arguments.
_FUNCTIONS = {
    "altgrad_table_error": (c_char_p,),
    "altgrad_table_runtime": (c_void_p,),
    "altgrad_table_free": (None, c_void_p),
    "altgrad_table_present": (c_void_p, c_void_p),
    "altgrad_table_set_python": (None, c_void_p),
    "altgrad_table_fetch": (None, c_void_p, c_int64, c_int64, c_int32),
    "altgrad_table_counts": (None, c_void_p, c_void_p),
    "altgrad_table_entries_free": (None, c_void_p),
    "altgrad_table_entries_same": (c_int32, c_void_p, c_void_p),
}


@cache
def core():
    """The loaded library; every status is checked. Raises Error where it does not fit this torch."""
    path = find_library().parent / _NAME
    if not path.is_file():
        raise Error(f"{_NAME} is not in {path.parent}: build it against a torch from 2.10 on with tools/build.sh",
                    "NOT_FOUND")
    runtime = ctypes.cast(library().altgrad_version, c_void_p).value
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(f"{path} does not load beside torch {torch.__version__}; altgrad works with torch 2.10 and "
                    f"newer ones: {error}", "BROKEN") from error
    locked = ctypes.PyDLL(str(path))
    for name in _LOCKED:
        setattr(loaded, name, getattr(locked, name))
    for name, (result, *arguments) in _FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    if loaded.altgrad_table_runtime() != runtime:
        raise Error(f"{path} found another libaltgrad.so than {find_library()}", "BROKEN")
    for name, arguments in _STATUS_FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes, function.errcheck = c_int32, arguments, _check
    tell(loaded)
    library().altgrad_set_gemm(None, ctypes.cast(loaded.altgrad_table_multiply, c_void_p), None)
    return loaded


def tell(loaded, keys=None):
    """Tells the library what Python knows of itself; `keys` stands for `_keys()`."""
    functions = ctypes.pythonapi.PyDict_Next, ctypes.pythonapi.PyList_GetItem
    loaded.altgrad_table_set_python(ctypes.byref(_Python(
        *[ctypes.cast(function, c_void_p) for function in functions], id(None), _inside(), *keys or _keys())))


class _Python(ctypes.Structure):
    """altgrad_table_python."""

    _fields_ = [("next", c_void_p), ("item", c_void_p), ("none", c_void_p), ("inside", c_int64), ("keys", c_int64),
                ("negative", c_uint64)]


def _check(status, function, arguments):
    if status:
        name = Error.NAMES[status] if 0 <= status < len(Error.NAMES) else str(status)
        raise Error(core().altgrad_table_error().decode(errors="replace"), name)


def handle_of(tensor):
    """The address of torch's tensor in an object of Python, which is valid as long as the object."""
    return id(tensor) + _inside()


@cache
def _inside():
    one, other = _samples()
    words = range(2 * 8, type(one).__basicsize__, 8)
    places = [[word for word in words if c_uint64.from_address(id(tensor) + word).value == tensor._cdata]
              for tensor in (one, other)]
    if len(places[0]) != 1 or places[0] != places[1]:
        raise Error(f"torch {torch.__version__} keeps its tensors elsewhere in Python's objects than altgrad knows: "
                    "install a newer altgrad, or an older torch", "BROKEN")
    return places[0][0]


def _keys():
    """(where torch's objects have their dispatch keys, the key of negative views); (-1, 0) where that is not clear."""
    one, other = _samples()
    words = [(c_uint64 * _WORDS).from_address(tensor._cdata)[:]
             for tensor in (one, other, torch._neg_view(one), torch._neg_view(other))]
    # In front are the type and the counts of who holds it.
    places = [place for place, (one, other, negative, too) in enumerate(zip(*words))
              if place > 1 and one == other and negative == too and (one ^ negative).bit_count() == 1]
    return (places[0] * 8, words[0][places[0]] ^ words[2][places[0]]) if len(places) == 1 else (-1, 0)


_WORDS = 23  # of torch's object, which has no less


@cache
def _samples():
    with torch.inference_mode(False), torch.no_grad():
        return torch.empty(1, device="cpu"), torch.nn.Parameter(torch.empty((2, 3), device="cpu"))


# torch's numbers of the dtypes that a gradient may have: c10::ScalarType.
TYPES = {torch.float32: 6, torch.float16: 5, torch.bfloat16: 15}
