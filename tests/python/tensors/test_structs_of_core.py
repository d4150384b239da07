"""The structs that Python reads are those of the core's headers, member by member."""

import ctypes
import re
from pathlib import Path

import pytest

from altgrad import _bundle, _core
from altgrad._storage import word
from altgrad.ops import _plan_cache
from altgrad.optim import _presets, _shapes, _states
from altgrad.quant import _stretches

CORE = Path(__file__).resolve().parents[3] / "runtime" / "core"
ABI = CORE.parent / "include" / "altgrad" / "altgrad.h"
NAMES = {"double": ctypes.c_double, "int32_t": ctypes.c_int32, "int64_t": ctypes.c_int64, "uint64_t": ctypes.c_uint64,
         "AtenTensorHandle": ctypes.c_void_p}
CASES = [(of, f"altgrad_core_{of.__name__.lower()}")
         for of in (_bundle._Stream, _bundle._Scalar, _bundle._Set, _bundle._Exchange, _bundle._Program, _bundle._Request,
                    word._Word, word._Line, word._Class, _states._State, _stretches._Stretches)] + [
    (_bundle._Word, "altgrad_exchange_word"), (_bundle._Partial, "altgrad_partial_info"),
    (_bundle._Limit, "altgrad_warning_info"), (_core.CoreRow, "altgrad_core_row"), (_core._Python, "altgrad_core_python"),
    (_core._Objects, "altgrad_core_objects"), (_plan_cache._One, "altgrad_core_one"), (_shapes._MatrixOptions, "altgrad_core_matrix_options"),
    (_shapes.Matrices, "altgrad_core_matrices"), (_presets._Numbers, "altgrad_core_preset_numbers"),
    (_presets.Preset, "altgrad_core_preset")]


def members(name):
    """The kind of each member that a header declares: a size in bytes, and whether it is text or an address."""
    text = "\n".join(re.sub(r"//.*", "", path.read_text()) for path in (*sorted(CORE.glob("*.h")), ABI))
    body = re.search(r"typedef struct " + name + r" \{([^}]*)\} " + name + ";", text)[1]
    body = re.sub(r"\(\*(\w+)\)\([^)]*\)", r"*\1", body)  # an address of a function
    for kind, names in re.findall(r"(const char \*const|const \w+|\w+)\s+([^;]+);", body):
        for member in names.split(","):
            if size := re.search(r"\[(\d+)\]", member):
                yield int(size[1]), True
            elif "*" in member:
                yield 8, kind == "const char" and member.count("*") == 1
            elif kind.startswith("altgrad_"):
                yield from members(kind)
            else:
                yield ctypes.sizeof(NAMES[kind]), False


def flat(struct):
    for _, kind in struct._fields_:
        if issubclass(kind, ctypes.Structure):
            yield from flat(kind)
        else:
            yield ctypes.sizeof(kind), kind is ctypes.c_char_p or issubclass(kind, ctypes.Array)


@pytest.mark.parametrize("struct, name", CASES, ids=[name for _, name in CASES])
def test_a_struct_has_the_members_of_the_header(struct, name):
    assert list(flat(struct)) == list(members(name))
