"""libaltgrad_torch.so: one library beside every torch and every Python."""

import gc
import re
import shutil
import subprocess

import pytest
import torch
import twins

import altgrad
from altgrad import _core, _library, _objects
from altgrad._binding import table

LIBRARY = _library.find_library().parent / "libaltgrad_torch.so"


@pytest.fixture
def step(monkeypatch):
    """Makes an AdamW and its first step, by the library."""
    monkeypatch.setenv("ALTGRAD_BINDER", "python")

    def call(times=1):
        params, = twins.make([(3,), (4, 5)] * times, count=1)
        twins.give_grads(params)
        optimizer = altgrad.optim.AdamW(params)
        optimizer.step()
        return optimizer
    return call


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
    with pytest.raises(altgrad.Error, match="libaltgrad_torch.so is not in") as caught:
        _core.core()
    assert caught.value.status == "NOT_FOUND"


def test_a_broken_one_is_told(fresh, monkeypatch, tmp_path):
    (tmp_path / LIBRARY.name).write_bytes(b"no shared object")
    monkeypatch.setattr(_core, "find_library", lambda: tmp_path / "libaltgrad.so")
    with pytest.raises(altgrad.Error, match="does not load beside torch .* 2.10 and newer") as caught:
        _core.core()
    assert caught.value.status == "BROKEN"


def test_a_torch_with_other_objects_is_told(monkeypatch):
    class Other:
        _cdata = 1
    monkeypatch.setattr(_objects, "_samples", lambda: (Other(), Other()))
    with pytest.raises(altgrad.Error, match="keeps its tensors elsewhere"):
        _objects.inside.__wrapped__()


UNKNOWN = {"keys": (-1, 0), "version": (-1, 0), "gradient": (-1, 0, 0)}


def test_all_of_this_torchs_objects_is_known():
    assert _core.knows().keys > 0 and _core.knows().counter > 0 and _core.knows().gradient > 0


@pytest.mark.parametrize("lacks", UNKNOWN)
def test_where_objects_are_not_understood_torch_is_asked(step, lacks):
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
        twins.append([tensor for p in optimizer._ours for tensor in (p, *optimizer.state[p].values())])
    for one, other in zip(*twins):
        assert torch.equal(one, other) and one._version == other._version


@pytest.mark.parametrize("change", ["resize", "data", "swap", "dtype"])
def test_what_a_state_has_become_is_seen(step, change):
    optimizer = step()
    bound, = optimizer._built.tables
    state = optimizer.state[optimizer._ours[1]]["exp_avg"]
    assert optimizer._fit() == table.FRESH
    if change == "resize":
        state.resize_(5, 4)
    elif change == "data":
        state.data = state.data.clone()
    elif change == "dtype":
        state.data = state.data.view(torch.int32)
    else:
        torch.utils.swap_tensors(state, torch.zeros(4, 5))
    gc.collect()
    assert bound.fresh(optimizer._ours, optimizer.state) == table.STALE


def test_many_parameters_make_no_more_work_for_the_collector(step):
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
