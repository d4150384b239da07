"""A file that is none, or is stored otherwise, changes nothing; a default device or dtype of the user changes no file."""

import copy

import pytest
import torch
import twins

import altgrad
import altgrad.optim

SHAPES = [(64, 128), (5,)]


def stepped(storage, dtype=torch.float32, cls=altgrad.optim.AdamW):
    params, = twins.make(SHAPES, dtype, count=1)
    optimizer = cls(params, storage=storage)
    twins.give_grads(params)
    optimizer.step()
    return optimizer, params


def same(one, two):
    if isinstance(one, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one.float(), two.float())
    if isinstance(one, dict):
        return one.keys() == two.keys() and all(same(one[key], two[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two


def refuse(optimizer, given, error, words):
    before = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(error, match=words):
        optimizer.load_state_dict(given)
    assert same(optimizer.state_dict(), before)


@pytest.mark.parametrize("one, two", [
    ("m=int8:32:f16,softsign", "m=int8:32:f16"), ("m=int8:32:f16", "m=int8:32:f16,softsign"),
    ("v=uint8:32:f16,sqrt", "v=uint8:32:f16"), ("states=f32 master=f32", "states=f32")])
def test_bent_codes_are_no_plain_ones_and_a_master_is_not_left(one, two):
    (run, _), (next, _) = (stepped(line, torch.bfloat16) for line in (one, two))
    refuse(next, run.state_dict(), ValueError, "the file's states are stored as ")


@pytest.mark.parametrize("value", [None, "x", [1, 2], 3])
def test_an_entry_that_is_no_dict(value):
    optimizer, _ = stepped("m=bf16")
    given = copy.deepcopy(optimizer.state_dict())
    given["state"][1] = value
    refuse(optimizer, given, TypeError, r"AdamW: the state of parameter 1 of the file is .*, not a dict")


@pytest.mark.parametrize("value", [None, "x", [1]])
def test_a_count_that_is_no_number(value):
    optimizer, _ = stepped("m=bf16")
    given = copy.deepcopy(optimizer.state_dict())
    given["state"][0]["step"] = value
    refuse(optimizer, given, TypeError, "parameter 0 of the file has the step count .*, not a number")


@pytest.mark.parametrize("given", [[], {"state": {}}, {"state": [], "param_groups": []},
                                   {"state": {}, "param_groups": [3]}, {"state": {}, "param_groups": [{"params": 3}]}])
def test_what_is_no_state_dict(given):
    optimizer, _ = stepped("m=bf16")
    refuse(optimizer, given, (ValueError, KeyError), "load_state_dict takes what optimizer.state_dict|param_groups")


@pytest.mark.parametrize("word", ["nvfp4", "ocp.e4m3fn,delayed:4", "ocp.e4m3fn,bounded", "mxfp8,both", "mxfp4"])
def test_files_with_every_copy_are_transcoded(word):
    optimizer, params = stepped(f"copy={word} states=f32")
    made = altgrad.transcode(optimizer.state_dict(), to="torch", params=params, report=None)
    for place, param in enumerate(params):
        held = optimizer.state[param]
        assert made["state"][place].keys() == {"step", "exp_avg", "exp_avg_sq"}
        assert torch.equal(made["state"][place]["exp_avg"], held["exp_avg"].float())
        assert torch.equal(made["state"][place]["exp_avg_sq"], held["exp_avg_sq"])


@pytest.mark.parametrize("to", ["torch", "bitsandbytes", "m=ocp.e4m3fn:256 v=mxfp8", altgrad.optim.AdamW4bit])
def test_defaults_of_the_user_change_no_file(to):
    from altgrad._storage.codes import dynamic_map
    optimizer, params = stepped("m=bnb8:256 v=uint8:32:f16,sqrt")
    given, wanted = optimizer.state_dict(), altgrad.transcode(optimizer.state_dict(), to=to, report=None)
    dynamic_map.cache_clear()
    with torch.device("meta"):
        placed = altgrad.transcode(given, to=to, report=None)
    dynamic_map.cache_clear()
    torch.set_default_dtype(torch.float64)
    try:
        wide = altgrad.transcode(given, to=to, report=None)
    finally:
        torch.set_default_dtype(torch.float32)
    assert same(placed, wanted) and same(wide, wanted)


@pytest.mark.parametrize("copy", ["mxfp8,both", "ocp.e4m3fn:128x128", "mxfp8:32x32"])
def test_rows_that_are_no_whole_blocks_of_states_beside_copies_over_rows(copy):
    param = torch.nn.Parameter(torch.randn(64, 192))
    param.grad = torch.randn(64, 192)
    optimizer = altgrad.optim.AdamW([param], storage=f"states=ocp.e4m3fn:128 copy={copy}")
    kept = param.detach().clone()
    with pytest.raises(ValueError, match=r"parameter 0 of group 0: a parameter of shape \(64, 192\) and strides \(192, 1\) has "
                       "rows of 192 elements, which is no multiple of the 128 in a block of its states"):
        optimizer.step()
    assert not optimizer.state and torch.equal(param, kept)
