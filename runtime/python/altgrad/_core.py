"""Finds libaltgrad_core.so, which knows torch's tensors, beside libaltgrad.so."""

import ctypes
import sys
from concurrent.futures import ThreadPoolExecutor
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache

import torch

from . import _objects
from ._library import Error, find_library, library, struct
from ._quack import offer_quack

_NAME = "libaltgrad_core.so"

# altgrad_status (*)(...): the arguments after the name, in order.
_STATUS_FUNCTIONS = {
    "altgrad_table_create": (c_void_p, c_void_p, c_void_p, c_int64, c_int64, POINTER(c_void_p)),
    "altgrad_table_use": (c_void_p, c_void_p, c_uint64, c_int32),
    "altgrad_table_run": (c_void_p, c_int64, c_void_p),
    "altgrad_core_use_products": (c_void_p,),
    "altgrad_table_run_rows": (c_void_p, c_int64, c_int64, c_void_p),
    "altgrad_core_entries_create": (c_void_p, c_void_p, c_int64, POINTER(c_void_p)),
    "altgrad_table_validate": (c_void_p, c_void_p, c_int32, POINTER(c_int32)),
    "altgrad_core_list": (c_void_p, c_int64, c_int32, c_void_p, c_void_p, c_void_p, POINTER(c_int32)),
    "altgrad_core_run_one": (c_void_p, c_void_p, c_void_p, POINTER(c_int32)),
    "altgrad_core_values_create": (c_void_p, c_void_p, c_int64, POINTER(c_void_p)),
    "altgrad_core_values_use": (c_void_p, c_void_p),
    "altgrad_core_values_set": (c_void_p, c_void_p, c_int64, c_void_p),
    "altgrad_core_values_give": (c_void_p, c_int64, c_double),
    "altgrad_core_values_take": (c_void_p, c_int64, c_int64, c_void_p),
    "altgrad_core_values_bind": (c_void_p, c_int64, c_void_p),
    "altgrad_core_values_send": (c_void_p, c_void_p),
    "altgrad_core_scaler": (c_void_p, c_void_p, POINTER(c_int64)),
    "altgrad_core_state_layout": (c_int32, c_int32, c_int32, c_int32, POINTER(c_int64), c_void_p, c_void_p),
    "altgrad_core_check_fit": (c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p),
    "altgrad_core_check_matrices": (c_void_p, c_int64, c_int64, c_void_p, c_void_p),
    "altgrad_core_find_matrices": (c_void_p, c_int64, c_void_p, c_void_p),
    "altgrad_core_find_preset": (c_char_p, c_void_p),
    "altgrad_table_sum": (c_void_p, c_int64, c_void_p),
    "altgrad_core_check_extent": (c_void_p,),
    "altgrad_core_check_addresses": (c_void_p,),
    "altgrad_core_overlap": (c_void_p, c_int64, c_int64, c_void_p, c_void_p),
    "altgrad_core_compile": (c_void_p, c_void_p),
    "altgrad_core_word_of": (c_char_p, c_void_p),
    "altgrad_core_new_state": (c_void_p, c_int64, c_int64, c_int64, c_void_p, c_void_p, c_void_p, c_void_p),
    "altgrad_core_check_state": (c_void_p, c_int64, c_int64, c_void_p, c_int32, c_void_p, c_void_p, c_void_p),
    "altgrad_core_check_storage": (c_char_p,),
    "altgrad_core_line_by_names": (c_char_p, c_char_p, POINTER(c_char_p)),
    "altgrad_core_set_line": (c_void_p, POINTER(c_char_p)),
    "altgrad_core_find_stretches": (c_int64, c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_void_p),
}

# These functions hold Python's lock while they run.
_LOCKED = ("altgrad_core_entries_create", "altgrad_core_entries_same", "altgrad_table_validate",
           "altgrad_core_same_lists", "altgrad_core_list", "altgrad_core_run_one")

# The other functions: the result, then the arguments.
_FUNCTIONS = {
    "altgrad_core_error": (c_char_p,),
    "altgrad_core_runtime": (c_void_p,),
    "altgrad_core_dtype": (c_int32, c_char_p),
    "altgrad_table_free": (None, c_void_p),
    "altgrad_table_declared": (c_void_p, c_void_p),
    "altgrad_core_program_free": (None, c_void_p),
    "altgrad_core_class_of": (c_void_p, c_char_p),
    "altgrad_core_in_full": (c_char_p, c_char_p),
    "altgrad_core_blocks_word": (c_char_p, c_char_p),
    "altgrad_core_first_word": (c_char_p, c_char_p),
    "altgrad_core_matrix_layout": (c_int32, c_void_p, c_int64, c_void_p, c_void_p, c_void_p),
    "altgrad_table_rows_from": (c_int64, c_void_p),
    "altgrad_table_unsummed": (c_char_p, c_void_p),
    "altgrad_core_hook_bytes": (c_int64,),
    "altgrad_core_chunk": (c_int64,),
    "altgrad_core_blocked_numel": (c_int64,),
    "altgrad_core_is_rule_file": (c_int32, c_char_p),
    "altgrad_core_state_format": (c_char_p, c_char_p, c_char_p),
    "altgrad_core_formats_differ": (c_int32, c_char_p, c_char_p, c_char_p, c_int32),
    "altgrad_core_values_free": (None, c_void_p),
    "altgrad_core_values_cell": (c_int64, c_void_p, c_int64, c_int64),
    "altgrad_core_values_get": (c_double, c_void_p, c_int64, c_int64),
    "altgrad_table_present": (c_void_p, c_void_p),
    "altgrad_core_fallen_back": (c_int64,),
    "altgrad_core_set_python": (None, c_void_p),
    "altgrad_core_set_objects": (None, c_void_p),
    "altgrad_table_watch": (None, c_void_p, c_void_p, c_int64),
    "altgrad_core_same_lists": (c_int32, c_void_p, c_void_p, c_int64, c_void_p),
    "altgrad_table_counts": (None, c_void_p, c_void_p),
    "altgrad_core_entries_free": (None, c_void_p),
    "altgrad_core_entries_same": (c_int32, c_void_p, c_void_p),
}


# Of these an answer below 0, or None, is none: altgrad_core_error() says why.
_ANSWERS = ("altgrad_core_matrix_layout", "altgrad_core_state_format", "altgrad_core_formats_differ", "altgrad_core_blocks_word")


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
        if name in _ANSWERS:
            function.errcheck = _answer
    if loaded.altgrad_core_runtime() != runtime:
        raise Error(f"{path} found another libaltgrad.so than {find_library()}", "BROKEN")
    for name, arguments in _STATUS_FUNCTIONS.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes, function.errcheck = c_int32, arguments, _check
    tell(loaded)
    library().altgrad_set_gemm(None, ctypes.cast(loaded.altgrad_core_multiply, c_void_p), None)
    library().altgrad_set_factorize(None, ctypes.cast(loaded.altgrad_core_factorize, c_void_p), None)
    offer_quack()
    return loaded


def tell(loaded, **known):
    """Tells the library where torch's objects keep what it reads; `known` stands for what _objects.py finds."""
    # In a thread of its own, where none of the caller's modes is on: while torch compiles, or in inference mode, a
    # tensor is not what it is elsewhere.
    with ThreadPoolExecutor(1) as pool:
        of = {name: known.get(name) or pool.submit(getattr(_objects, name)).result()
              for name in ("inside", "keys", "version", "gradient")}
    if not has_lock():
        of["gradient"] = _objects.UNKNOWN_GRADIENT
    functions = ctypes.pythonapi.PyDict_Next, ctypes.pythonapi.PyList_GetItem
    python = _Python(*[ctypes.cast(function, c_void_p) for function in functions], id(None), of["inside"])
    loaded.altgrad_core_set_python(ctypes.byref(python))
    loaded.told = _Objects(*of["keys"], *of["version"], *of["gradient"], known.get("dims", sys.maxsize))
    loaded.altgrad_core_set_objects(ctypes.byref(loaded.told))


# Whether Python has its lock. Without it other threads may change a dict, a list or a gradient that C reads.
has_lock = getattr(sys, "_is_gil_enabled", lambda: True)


# altgrad_core_python, altgrad_core_objects and altgrad_core_row.
_Python = struct("Python", next=c_void_p, item=c_void_p, none=c_void_p, inside=c_int64)
_Objects = struct("Objects", keys=c_int64, negative=c_uint64, counter=c_int64, version=c_int64, autograd=c_int64,
                  gradient=c_int64, nothing=c_void_p, dims=c_int64)
CoreRow = struct("CoreRow", tensors=c_void_p, dense=c_void_p, shape=c_void_p, dims=c_int64, offset=c_int64,
                 matrices=c_void_p, piece=c_int64, place=c_int64, more=c_int64, set=c_int64, group=c_int64)


def knows():
    """What the library was told: where `counter` and `autograd` are -1, Python asks torch. It does itself where `dims` is."""
    return core().told


def torch_parallel_for():
    """The address of torch's own pool of threads, an altgrad_parallel_for, as the library calls it."""
    return ctypes.cast(core().torch_parallel_for, c_void_p).value


def _check(status, function, arguments):
    if status:
        name = Error.NAMES[status] if 0 <= status < len(Error.NAMES) else str(status)
        raise Error(core().altgrad_core_error().decode(errors="replace"), name)


def _answer(answer, function, arguments):
    if answer is None or (isinstance(answer, int) and answer < 0):
        raise Error(core().altgrad_core_error().decode(errors="replace"), "SYSTEM")
    return answer


@cache
def chunk():
    """The elements in which a step sums: those of a chunk of a tensor."""
    return core().altgrad_core_chunk()


@cache
def blocked_numel():
    """From how many elements on a tensor has states whose blocks share a scale; smaller ones keep float32."""
    return core().altgrad_core_blocked_numel()


def hook_bytes():
    """The bytes of a gradient from which on a hook costs less than it saves."""
    return core().altgrad_core_hook_bytes()


def handle_of(tensor):
    """The address of torch's tensor in an object of Python, which is valid as long as the object."""
    return id(tensor) + _objects.inside()


# torch's numbers of the dtypes that a step's tensors have: c10::ScalarType.
TYPES = {torch.uint8: 0, torch.int8: 1, torch.int16: 2, torch.float16: 5, torch.int64: 4, torch.float32: 6,
         torch.float64: 7, torch.bfloat16: 15,
         torch.float8_e5m2: 23, torch.float8_e4m3fn: 24, torch.float8_e8m0fnu: 44}
DTYPES = {number: dtype for dtype, number in TYPES.items()}


@cache
def dtype_of(word):
    """The dtype of the tensor that holds numbers of a format, or their codes: integers where torch has no dtype."""
    return DTYPES[core().altgrad_core_dtype(word.encode())]


def state_layout(shape, strides, block=1, columns=0, pairs=False, copy=False):
    """(shape, strides) of what a step keeps beside a tensor that lies so, as altgrad_core_state_layout says it.

    Raises ValueError where two codes in a byte would not say how the tensor lies.
    """
    dims, sizes, steps = c_int64(len(shape)), int64s([*shape, 0, 0]), int64s([*strides, 0, 0])
    _ask("a parameter", core().altgrad_core_state_layout, copy, block, columns, pairs, ctypes.byref(dims), sizes, steps)
    return tuple(sizes[:dims.value]), tuple(steps[:dims.value])


def check_matrices(bundle, index, shape, strides, what):
    """Raises ValueError where the step of a set of a Bundle multiplies matrices, and `what`, which lies so, has none."""
    _ask(what, core().altgrad_core_check_matrices, bundle.handle, index, len(shape), int64s(shape), int64s(strides))


def check_fit(bundle, index, shape, strides, matrices=None):
    """Raises ValueError where the step of a set of a Bundle takes no parameter that lies so."""
    _ask("a parameter", core().altgrad_core_check_fit, bundle.handle, index, matrices and ctypes.byref(matrices),
         len(shape), int64s(shape), int64s(strides))


def int64s(given):
    """An array of C."""
    return (c_int64 * len(given))(*given)


def _ask(what, function, *arguments):
    try:
        function(*arguments)
    except Error as error:
        raise ValueError(f"{what} {error}") from None
