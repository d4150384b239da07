"""A file says how its states are stored: codes of another format are refused, and transcoded without a word."""

import copy
import pickle

import pytest
import torch
import twins

import altgrad
import altgrad.optim

SHAPES = [(70, 70), (5, 3)]


def stepped(storage, params, cls=altgrad.optim.AdamW, **more):
    optimizer = cls(params, storage=storage, **more) if storage is not None else cls(params, **more)
    twins.give_grads(params)
    optimizer.step()
    return optimizer


def pair(dtype=torch.float32):
    return twins.make(SHAPES, dtype, count=2)


@pytest.mark.parametrize("one, two", [
    ("m=altgrad.e4m3", "m=altgrad.e3m4"), ("m=altgrad.e4m3", None), ("m=int8:32", "m=altgrad.e4m3:32"),
    ("m=bnb8:256", "m=bnb8u:256"), ("m=ocp.e4m3fn:256", "m=ocp.e4m3fn:128"), ("m=ocp.e4m3fn:256", None),
    ("states=bnb8u:256 m=bnb8:256", "states=bnb8u:256"), ("master=f32", "master=bf16+i16"),
    ("states=f32 master=bf16+i16", "states=f32"), ("master=bf16+i16", "master=bf16+i8")])
def test_codes_of_another_storage_are_refused_before_anything_changes(one, two):
    params, others = pair(torch.bfloat16)
    given, next = stepped(one, params).state_dict(), stepped(two, others)
    before = copy.deepcopy(next.state_dict())
    with pytest.raises(ValueError, match="the file's states are stored as ") as caught:
        next.load_state_dict(given)
    said = str(caught.value)
    for word in (one, *([two] if two else ["without a storage"])):
        assert word.split("=")[-1] in said, said
    assert "altgrad.transcode(state_dict, to=optimizer)" in said and "altgrad.optim.AdamW" in said
    after = next.state_dict()
    assert after["param_groups"] == before["param_groups"]
    for place, held in before["state"].items():
        now = twins.opened(after["state"][place])
        assert all(torch.equal(now[key], value) for key, value in twins.opened(held).items())
    twins.give_grads(others)
    next.step()


@pytest.mark.parametrize("one, two", [
    ("m=bnb8:256 v=bnb8u:256", "states=bnb8u:256 m=bnb8:256"), ("m=bf16", None), (None, "m=bf16"),
    ("m=bf16,stochastic", "m=bf16"), ("states=f32", "states=f32 copy=ocp.e4m3fn"),
    ("copy=ocp.e4m3fn", None), ("states=f32", "states=f32 master=f32")])
def test_what_is_stored_alike_is_loaded(one, two):
    params, others = pair()
    next = stepped(two, others)
    next.load_state_dict(stepped(one, params).state_dict())
    own = {"storage"} & next.defaults.keys()
    assert {"storage"} & next.param_groups[0].keys() == own
    assert not own or next.param_groups[0]["storage"] == next.defaults["storage"]
    twins.give_grads(others)
    next.step()


def test_small_tensors_are_float32_in_every_storage_of_blocks():
    params, others = twins.make([(5, 3), (60, 60)], count=2)
    next = stepped("m=ocp.e4m3fn:128", others)
    next.load_state_dict(stepped("states=bnb8u:256 m=bnb8:256", params).state_dict())
    twins.give_grads(others)
    next.step()


@pytest.mark.parametrize("cls", [altgrad.optim.AdamW8bit, altgrad.optim.AdamWFp8])
def test_a_file_of_torch_is_transcoded_for_codes(cls):
    params, others = pair()
    plain, next = torch.optim.AdamW(params), cls(others)
    twins.give_grads(params)
    plain.step()
    with pytest.raises(ValueError, match=r"the file's states are torch.float32 without scales \('exp_avg'\), and "
                       "this optimizer's stored as .*altgrad.transcode"):
        next.load_state_dict(plain.state_dict())
    assert not next.state
    next.load_state_dict(altgrad.transcode(plain.state_dict(), to=next, report=None))
    twins.give_grads(others)
    next.step()


def test_a_storage_of_none_says_nothing():
    params, = twins.make(SHAPES, count=1)
    optimizer = stepped("m=altgrad.e4m3", params)
    given = optimizer.state_dict()
    given["param_groups"][0]["storage"] = None
    optimizer.load_state_dict(given)
    assert optimizer.param_groups[0]["storage"] == "exp_avg=altgrad.e4m3"


def test_files_of_torch_and_older_ones_say_nothing():
    params, others = pair()
    old = stepped("m=altgrad.e4m3", params).state_dict()
    for group in old["param_groups"]:
        del group["storage"]
    next = altgrad.optim.AdamW(others, storage="m=altgrad.e4m3")
    next.load_state_dict(old)
    assert next.param_groups[0]["storage"] == "exp_avg=altgrad.e4m3"
    with pytest.raises(TypeError, match="nothing says which format these codes have"):
        altgrad.transcode(old, to="torch")
    plain = torch.optim.AdamW(others)
    twins.give_grads(others)
    plain.step()
    wide = altgrad.optim.AdamW(others, storage="states=f32")
    wide.load_state_dict(plain.state_dict())
    wide.step()
    plain.load_state_dict(wide.state_dict())


@pytest.mark.parametrize("to", ["torch", "m=ocp.e4m3fn:256 v=ocp.e5m2:256", altgrad.optim.AdamW8bit])
@pytest.mark.parametrize("storage", ["m=altgrad.e4m3 v=altgrad.e6m9", "states=bnb8u:256 m=bnb8:256"])
def test_transcode_needs_no_word(storage, to):
    params, = twins.make(SHAPES, count=1)
    given = stepped(storage, params).state_dict()
    made = altgrad.transcode(given, to=to, report=None)
    said = altgrad.transcode(given, to=to, storage=storage, report=None)
    for place, held in made["state"].items():
        other = twins.opened(said["state"][place])
        assert all(torch.equal(value.float(), other[key].float()) for key, value in twins.opened(held).items())
    assert made["param_groups"][0].get("storage") == {
        "torch": None, "m=ocp.e4m3fn:256 v=ocp.e5m2:256": "exp_avg=ocp.e4m3fn:256 exp_avg_sq=ocp.e5m2:256"}.get(
        to, "states=bnb8u:256,keep_positive exp_avg=bnb8:256")
    assert given["param_groups"][0]["storage"] != made["param_groups"][0].get("storage") or to is altgrad.optim.AdamW8bit
    with pytest.raises(ValueError, match="leave storage out"):
        altgrad.transcode(given, to=to, storage="m=altgrad.e3m4", report=None)


def test_transcoded_states_are_loaded_by_whom_they_are_for():
    params, others = pair()
    run = altgrad.optim.AdamW8bit(params)
    twins.give_grads(params)
    run.step()
    next = altgrad.optim.AdamWFp8(others)
    next.load_state_dict(altgrad.transcode(run.state_dict(), to=next, report=None))
    back = altgrad.transcode(next.state_dict(), to=run, report=None)
    run.load_state_dict(back)
    twins.give_grads(params), twins.give_grads(others)
    run.step(), next.step()


def test_copies_pickles_and_new_groups_have_the_line():
    params, others = pair()
    optimizer = stepped("m=altgrad.e4m3", params)
    for of in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        assert of.param_groups[0]["storage"] == "exp_avg=altgrad.e4m3"
        of.load_state_dict(optimizer.state_dict())
    optimizer.add_param_group({"params": others})
    assert optimizer.param_groups[1]["storage"] == "exp_avg=altgrad.e4m3"
    more, = twins.make(SHAPES, count=1)
    with pytest.raises(ValueError, match="names no stream of altgrad.optim.AdamW, group 2"):
        optimizer.add_param_group({"params": more, "storage": "momentum=bf16"})
    assert len(optimizer.param_groups) == 2


@pytest.mark.parametrize("line", [5, "of no words", "m=bf16 m=f32"])
def test_a_line_that_is_none_is_refused(line):
    params, = twins.make(SHAPES, count=1)
    optimizer = stepped("m=altgrad.e4m3", params)
    given = optimizer.state_dict()
    given["param_groups"][0]["storage"] = line
    with pytest.raises(ValueError, match="storage of param_group 0 of the file is "):
        optimizer.load_state_dict(given)
    with pytest.raises(ValueError, match="storage of param_group 0 of the file is "):
        altgrad.transcode(given, to="torch")


def test_other_rules_name_their_states_in_their_own_words():
    params, others = pair()
    mine = altgrad.optim.FromRule("ademamix", storage="fast=altgrad.e4m3")
    given = stepped(None, params, mine).state_dict()
    assert given["param_groups"][0]["storage"] == "fast=altgrad.e4m3"
    named = stepped("fast=altgrad.e4m3", others, altgrad.optim.AdEMAMix)
    assert named.param_groups[0]["storage"] == "exp_avg_fast=altgrad.e4m3"
