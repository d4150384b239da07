"""Step-wide scalars are written and read by the type that the compiler says, at its width."""

import ctypes
from types import SimpleNamespace

import pytest

from altgrad import _bundle
from altgrad.optim import _table

TYPES = [ctypes.c_double, ctypes.c_int64, ctypes.c_float, ctypes.c_int32, ctypes.c_bool]


class Memory:
    """In the place of a plan: remembers where the scalars lie."""

    def bind_scalar(self, name, pointers):
        self.__dict__[name.decode()], = pointers


def table(*scalars):
    made = object.__new__(_table.TensorTable)
    made.plan = Memory()
    made.bundle = SimpleNamespace(singles=[
        _bundle.Scalar(name.encode(), name, name, access, kind, 0, -1, None)
        for name, access, kind in scalars])
    made._bind_singles()
    return made


@pytest.mark.parametrize("kind", range(5))
def test_written_by_type(kind):
    made = table(("scale", _bundle.IN, kind), ("flag", _bundle.IN, kind))
    made._write({"scale": 1.0, "flag": 0.0, "max_norm": 3.0})
    assert TYPES[kind].from_address(made.plan.scale).value == 1
    assert TYPES[kind].from_address(made.plan.flag).value == 0


@pytest.mark.parametrize("kind", range(5))
def test_read_by_type(kind):
    made = table(("norm", _bundle.OUT, kind), ("scale", _bundle.IN, kind))
    TYPES[kind].from_address(made.plan.norm).value = 1
    assert made._read() == {"norm": 1}


def test_a_value_that_nobody_has_is_no_zero():
    with pytest.raises(KeyError, match="inv_scale"):
        table(("inv_scale", _bundle.IN, 2))._write({"scale": 1.0})
