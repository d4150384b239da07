"""libaltgrad_core.so: one library beside every torch and every Python."""

import gc
import re
import shutil
import subprocess
import weakref

import pytest
import torch
import twins
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode

import altgrad
from altgrad import _core, _library, _objects
from altgrad._binding import entries, groups, table

LIBRARY = _library.find_library().parent / "libaltgrad_core.so"


def step(times=1):
    """An AdamW that has made a step."""
    params, = twins.make([(3,), (4, 5)] * times, count=1)
    twins.give_grads(params)
    optimizer = altgrad.optim.AdamW(params)
    optimizer.step()
    return optimizer


@pytest.mark.skipif(not shutil.which("nm"), reason="no nm")
def test_it_needs_no_symbol_of_cpp_or_of_python():
    said = subprocess.run(["nm", "-D", "--undefined-only", LIBRARY], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1].split("@")[0] for line in said.splitlines()]
    assert any(name.startswith("aoti_torch_") for name in names)
    assert not [name for name in names if re.match("_?Py|THP|_ZN?K?(3c10|2at|5torch)", name)]


@pytest.fixture
def fresh(monkeypatch):
    """The search for the library, as in a new process."""
    monkeypatch.setattr(_core, "core", _core.core.__wrapped__)


def test_one_that_is_not_there_is_named(fresh, monkeypatch, tmp_path):
    monkeypatch.setattr(_core, "find_library", lambda: tmp_path / "libaltgrad.so")
    with pytest.raises(altgrad.Error, match="libaltgrad_core.so is not in") as caught:
        _core.core()
    assert caught.value.status == "NOT_FOUND"


def test_a_broken_one_is_told(fresh, monkeypatch, tmp_path):
    (tmp_path / LIBRARY.name).write_bytes(b"no shared object")
    monkeypatch.setattr(_core, "find_library", lambda: tmp_path / "libaltgrad.so")
    with pytest.raises(altgrad.Error, match="does not load beside torch .* 2.10 and newer") as caught:
        _core.core()
    assert caught.value.status == "BROKEN"


def test_one_that_uses_another_runtime_is_refused(fresh, monkeypatch):
    monkeypatch.setattr(_core.ctypes, "cast", lambda *given: _core.ctypes.c_void_p(1))
    with pytest.raises(altgrad.Error, match="found another libaltgrad.so"):
        _core.core()


def test_a_torch_with_other_objects_is_told(monkeypatch):
    class Other:
        _cdata = 1
    monkeypatch.setattr(_objects, "_samples", lambda: (Other(), Other()))
    with pytest.raises(altgrad.Error, match="keeps its tensors elsewhere"):
        _objects.inside.__wrapped__()


UNKNOWN = {"keys": (-1, 0), "version": (-1, 0), "gradient": (-1, 0, 0), "dims": -1}


def test_all_of_this_torchs_objects_is_known():
    assert _core.knows().keys > 0 and _core.knows().counter > 0 and _core.knows().gradient > 0
    assert _core.knows().dims == 5


@pytest.mark.parametrize("mode", [FakeTensorMode, FunctionalTensorMode])
def test_what_is_known_does_not_depend_on_the_mode_of_the_first_call(mode):
    with mode():
        _core.tell(_core.core())
    assert _core.knows().keys > 0 and _core.knows().counter > 0 and _core.knows().gradient > 0


@pytest.mark.parametrize("lacks", UNKNOWN)
def test_where_objects_are_not_understood_torch_is_asked(lacks):
    """The same numbers and versions."""
    twins = []
    for known in ({}, {lacks: UNKNOWN[lacks]}):
        _core.tell(_core.core(), **known)
        try:
            torch.manual_seed(0)
            optimizer = step()
            optimizer.step()
        finally:
            _core.tell(_core.core())
        twins.append([tensor for p in optimizer._kernel_params for tensor in (p, *optimizer.state[p].values())])
    for one, other in zip(*twins):
        assert torch.equal(one, other) and one._version == other._version


@pytest.mark.parametrize("known", [{}, {"dims": -1}], ids=["by words", "by torch"])
@pytest.mark.parametrize("change", ["resize", "data", "swap", "dtype", "as_strided"])
def test_what_a_state_has_become_is_seen(change, known, request):
    request.addfinalizer(lambda: _core.tell(_core.core()))
    _core.tell(_core.core(), **known)
    optimizer = step()
    bound, = optimizer._built.tables
    state = optimizer.state[optimizer._kernel_params[1]]["exp_avg"]
    assert optimizer._fit() == table.FRESH
    if change == "resize":
        state.resize_(5, 4)
    elif change == "data":
        state.data = state.data.clone()
    elif change == "as_strided":
        state.as_strided_((5, 4), (1, 5))
    elif change == "dtype":
        state.data = state.data.view(torch.int32)
    else:
        torch.utils.swap_tensors(state, torch.zeros(4, 5))
    gc.collect()
    assert bound.validate(optimizer._kernel_params, optimizer.state) == table.STALE


def test_many_parameters_make_no_more_work_for_the_collector():
    counted = []
    for times in (1, 40):
        optimizer = step(times)
        gc.collect()
        gc.disable()
        try:
            optimizer.step()
            counted.append(gc.get_count()[0])
        finally:
            gc.enable()
    assert counted[1] < counted[0] + 10


def test_an_optimizer_that_its_parameter_leads_to_is_collected():
    optimizer = step()
    optimizer.param_groups[0]["params"][0].optimizer = optimizer
    gone = weakref.ref(optimizer)
    del optimizer
    gc.collect()
    assert gone() is None


def test_swapped_tensors_are_seen():
    optimizer = step()
    param = optimizer._kernel_params[0]
    other = torch.nn.Parameter(torch.full((3,), 5.0))
    param.grad = other.grad = None
    torch.utils.swap_tensors(param, other)
    gc.collect()
    del other
    param.grad = torch.ones(3)
    optimizer.step()
    assert (param != 5.0).all() and (param > 4.9).all()
    assert optimizer.state[param]["step"] == 2


def test_a_refusal_of_the_runtime_has_its_status():
    optimizer = step()
    bound, = optimizer._built.tables
    bound.rows[0].cell = 7
    with pytest.raises(altgrad.Error, match=r"group is 7, not in") as caught:
        table.TensorTable(bound.bundle, bound.rows, [0], optimizer._kernel_params, [], optimizer.state)
    assert caught.value.status == "INVALID"


def test_without_pythons_lock_no_dict_list_or_gradient_is_read_by_c(monkeypatch):
    """Other threads may change them meanwhile. The same numbers; what is changed is seen."""
    torch.manual_seed(0)
    expected = step()
    for name in ("altgrad_core_entries_create", "altgrad_core_entries_same", "altgrad_core_same_lists"):
        monkeypatch.setattr(_core.core(), name, None)
    for module in (_core, entries, groups):
        monkeypatch.setattr(module, "has_lock", lambda: False)
    _core.tell(_core.core())
    try:
        assert _core.knows().autograd == -1
        torch.manual_seed(0)
        optimizer = step()
        for one, other in zip(optimizer._kernel_params, expected._kernel_params):
            assert torch.equal(one, other)
        bound, = optimizer._built.tables
        state = optimizer.state[optimizer._kernel_params[0]]
        assert bound.validate(optimizer._kernel_params, optimizer.state) == table.FRESH
        state["exp_avg"] = state["exp_avg"].clone()
        assert bound.validate(optimizer._kernel_params, optimizer.state) == table.STALE
    finally:
        monkeypatch.undo()
        _core.tell(_core.core())


def test_what_needs_more_memory_than_there_is_ends_no_process():
    optimizer = step()
    bound, = optimizer._built.tables
    core, many = _core.core(), 1 << 60
    core.altgrad_table_watch(bound._handle, 8, many)
    assert bound.validate(optimizer._kernel_params, optimizer.state) == table.STALE
    with pytest.raises(altgrad.Error) as caught:
        core.altgrad_core_matrix_layout(None, many, None, None, None)
    assert caught.value.status == "SYSTEM"
    optimizer.step()
