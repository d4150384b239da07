"""Step-wide scalars are written by the type that the compiler says."""

import ctypes

import pytest
import torch

from altgrad._binding.values import Values
from altgrad._binding.device_context import DeviceContext
from altgrad._bundle import compile_sets
from altgrad._core import core

# By the types of altgrad.h that steps have: f64, i64, f32.
WRITTEN = {0: 3.7, 1: 3.0, 2: ctypes.c_float(3.7).value}


def of_loss_scale():
    context = DeviceContext(torch.device("cpu"))
    bundle = compile_sets([], [], scaler="torch", on_host=context.on_host)
    return bundle.singles, Values(bundle, [], context)


def test_written_by_type():
    singles, values = of_loss_scale()
    values.give({"scale": 3.7, "scaler": 3.7})
    read = [core().altgrad_core_values_get(values._handle, -1, index) for index in range(len(singles))]
    given = [(WRITTEN[single.type], number) for single, number in zip(singles, read) if single.access != 1]
    assert {single.type for single in singles} == {*WRITTEN}
    assert all(number == expected for expected, number in given), given


def test_a_value_that_nobody_has_is_no_zero():
    _, values = of_loss_scale()
    with pytest.raises(KeyError, match="scaler"):
        values.give({"scale": 1.0})


def test_a_place_of_another_type_is_refused():
    singles, values = of_loss_scale()
    of = next(index for index, single in enumerate(singles) if single.key == "growth_tracker")
    with pytest.raises(RuntimeError, match="no place for 'growth_tracker'"):
        values.bind([(of, torch.zeros(()))])
