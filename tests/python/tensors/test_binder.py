"""Who looks at the tensors in every step: altgrad._native, and Python where it is not there."""

import gc
import weakref

import pytest
import torch
import twins

import altgrad
from altgrad import _library, _native
from altgrad._binding import binder, table

try:
    _native.native()
except altgrad.Error as error:
    MISSING = str(error)
else:
    MISSING = ""
needs_native = pytest.mark.skipif(bool(MISSING), reason=MISSING)


@pytest.fixture
def step(monkeypatch):
    """Makes an AdamW and its first step, with the binder that is asked for."""
    def call(asked):
        monkeypatch.setenv("ALTGRAD_BINDER", asked)
        params, = twins.make([(3,)], count=1)
        twins.give_grads(params)
        optimizer = altgrad.optim.AdamW(params)
        optimizer.step()
        return optimizer
    return call


def test_python_can_be_asked_for(step):
    assert type(step("python")._built.tables[0]) is table.TensorTable


@needs_native
def test_native_is_what_there_is(step):
    for asked in ("auto", "native"):
        assert type(step(asked)._built.tables[0]) is binder.NativeTable


def test_another_word_is_refused(step):
    with pytest.raises(ValueError, match="ALTGRAD_BINDER is 'fast', not python, native or auto"):
        step("fast")


@pytest.fixture
def fresh(monkeypatch):
    """The search for the module, as in a new process."""
    monkeypatch.setattr(binder, "native", _native.native.__wrapped__)
    monkeypatch.setattr(binder, "_there_is", binder._there_is.__wrapped__)


@needs_native
def test_one_built_for_another_torch_is_not_there(step, fresh, monkeypatch):
    monkeypatch.setattr(torch, "__version__", "2.99.0+cpu")
    with pytest.raises(altgrad.Error, match=r"for torch 2\.99 .* which has .*torch2\.\d+") as caught:
        step("native")
    assert caught.value.status == "NOT_FOUND"
    assert type(step("auto")._built.tables[0]) is table.TensorTable


@needs_native
def test_a_broken_one_is_told_and_done_without(step, fresh, monkeypatch, tmp_path):
    library = _library.find_library()
    for found in library.parent.glob("altgrad_native*"):
        (tmp_path / found.name).write_bytes(b"no shared object")
    monkeypatch.setattr(_native, "find_library", lambda: tmp_path / library.name)
    with pytest.raises(altgrad.Error, match="does not load beside torch"):
        step("native")
    with pytest.warns(UserWarning, match="more slowly: .*does not load"):
        assert type(step("auto")._built.tables[0]) is table.TensorTable


@needs_native
def test_one_that_uses_another_runtime_is_refused(step, fresh, monkeypatch):
    monkeypatch.setattr(_native.ctypes, "cast", lambda *given: _native.ctypes.c_void_p(1))
    with pytest.raises(altgrad.Error, match="found another libaltgrad.so"):
        step("native")


@pytest.mark.parametrize("asked", ["python", pytest.param("native", marks=needs_native)])
def test_an_optimizer_that_its_parameter_leads_to_is_collected(step, asked):
    optimizer = step(asked)
    optimizer.param_groups[0]["params"][0].optimizer = optimizer
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("asked", ["python", pytest.param("native", marks=needs_native)])
def test_swapped_tensors_are_seen(step, asked):
    optimizer = step(asked)
    param, = optimizer.param_groups[0]["params"]
    other = torch.nn.Parameter(torch.full((3,), 5.0))
    param.grad = other.grad = None
    torch.utils.swap_tensors(param, other)
    gc.collect()
    del other
    param.grad = torch.ones(3)
    optimizer.step()
    assert (param != 5.0).all() and (param > 4.9).all()
    assert optimizer.state[param]["step"] == 2


@pytest.mark.parametrize("asked", ["python", pytest.param("native", marks=needs_native)])
def test_a_refusal_of_the_runtime_has_its_status(step, asked):
    optimizer = step(asked)
    table = optimizer._built.tables[0]
    table.rows[0].cell = 7
    with pytest.raises(altgrad.Error, match=r"group is 7, not in") as caught:
        binder.make_table(table.bundle, table.rows, [0], optimizer._ours, [], optimizer.state)
    assert caught.value.status == "INVALID"
