"""Step-wide scalars are written and read by the type that the compiler says, at its width."""

import ctypes
from types import SimpleNamespace

import pytest

from altgrad import _bundle
from altgrad._binding.values import Values

TYPES = [ctypes.c_double, ctypes.c_int64, ctypes.c_float, ctypes.c_int32, ctypes.c_bool]


class Memory:
    """In the place of a plan: remembers where the scalars lie."""

    def mirror(self, values, size):
        self.mirrored = range(values, values + size)

    def bind_scalar(self, name, pointers):
        self.__dict__[name.decode()], = pointers


def bound(*scalars):
    """(Values of one set without hyper-parameters, the Memory they are bound to)."""
    bundle = SimpleNamespace(sets=[SimpleNamespace(hypers=())], singles=[
        _bundle.Scalar(name.encode(), name, name, access, kind, 0, -1, None)
        for name, access, kind in scalars])
    made, memory = Values(bundle, [0], SimpleNamespace(on_host=True)), Memory()
    made.send(memory)
    return made, memory


@pytest.mark.parametrize("kind", range(5))
def test_written_by_type(kind):
    made, memory = bound(("scale", _bundle.IN, kind), ("flag", _bundle.IN, kind))
    made.give({"scale": 1.0, "flag": 0.0, "max_norm": 3.0})
    assert TYPES[kind].from_address(memory.scale).value == 1
    assert TYPES[kind].from_address(memory.flag).value == 0
    assert memory.scale in memory.mirrored and memory.flag + 8 in memory.mirrored


@pytest.mark.parametrize("kind", range(5))
def test_read_by_type(kind):
    made, memory = bound(("norm", _bundle.OUT, kind), ("scale", _bundle.IN, kind))
    TYPES[kind].from_address(memory.norm).value = 1
    assert made.results() == {"norm": 1}


def test_a_value_that_nobody_has_is_no_zero():
    with pytest.raises(KeyError, match="inv_scale"):
        bound(("inv_scale", _bundle.IN, 2))[0].give({"scale": 1.0})
