"""What transcode refuses, with the place and the value, and what copies and messages of narrow states say."""

import copy
import io
import pickle

import pytest
import torch
import twins

import altgrad
import altgrad.optim

SHAPES = [(64, 96), (7,)]


def stepped(make, dtype=torch.float32):
    params, = twins.make(SHAPES, dtype, count=1)
    optimizer = make(params)
    twins.give_grads(params)
    optimizer.step()
    return optimizer, params


@pytest.mark.parametrize("given", [
    5, [], {}, {"state": {}}, {"state": 5, "param_groups": []}, {"state": {}, "param_groups": 5},
    {"state": {}, "param_groups": [3]}, {"state": {}, "param_groups": [{}]},
    {"state": {}, "param_groups": [{"params": 0}]}])
def test_what_is_no_state_dict(given):
    with pytest.raises(ValueError, match="altgrad.transcode takes what optimizer.state_dict"):
        altgrad.transcode(given, to="torch")


def test_a_storage_that_is_no_line():
    optimizer, _ = stepped(altgrad.optim.AdamW8bit)
    with pytest.raises(TypeError, match="storage is 5, not a line such as"):
        altgrad.transcode(optimizer.state_dict(), to="torch", storage=5)


@pytest.mark.parametrize("change, words", [
    (lambda s: s.update(exp_avg=s["exp_avg"].float()), "holds torch.float32, and storage says bnb8:256, whose codes lie in torch.uint8"),
    (lambda s: s.update(exp_avg=s["exp_avg"].short()), "holds torch.int16, and storage says bnb8:256"),
    (lambda s: s.update(exp_avg=s["exp_avg"][:3]), r"has 288 elements and scales of shape \(24,\)"),
    (lambda s: s.update(exp_avg=s["exp_avg"].to("meta")), "is on the meta device"),
    (lambda s: s.update(exp_avg_scale=s["exp_avg_scale"].half()), r"has 6144 elements and scales of shape \(24,\) in torch.float16; there has to be one of torch.float32 for each block of 256"),
    (lambda s: s.update(exp_avg_scale="x"), "has a 'exp_avg_scale' that is str"),
    (lambda s: s.pop("exp_avg_scale"), r"has no 'exp_avg_scale', which the storage \(bnb8:256\) needs"),
    (lambda s: s.pop("exp_avg"), "has a state 'exp_avg_scale' without its 'exp_avg'")])
def test_codes_that_do_not_go_with_their_storage(change, words):
    optimizer, _ = stepped(altgrad.optim.AdamW8bit)
    given = copy.deepcopy(optimizer.state_dict())
    given["state"][0] = twins.opened(given["state"][0])  # as in a file of before
    change(given["state"][0])
    with pytest.raises((TypeError, ValueError), match=f"parameter 0 {words}"):
        altgrad.transcode(given, to="torch")


def test_codes_are_not_read_beyond_their_end():
    """A format of 16 bits, said of bytes."""
    optimizer, _ = stepped(lambda p: altgrad.optim.AdamW(p, storage="m=altgrad.e4m3"))
    given = optimizer.state_dict()
    given["param_groups"][0]["storage"] = "exp_avg=altgrad.e6m9"
    with pytest.raises(TypeError, match="holds torch.uint8, and storage says altgrad.e6m9, whose codes lie in torch.int16"):
        altgrad.transcode(given, to="torch")


@pytest.mark.parametrize("storage, dtype", [
    ("m=mxfp8", torch.float32), ("m=ocp.e4m3fn:32:ocp.e8m0,floor", torch.float32), ("rungs=ocp.e4m3fn", torch.float32),
    ("copy=ocp.e4m3fn,delayed", torch.bfloat16), ("states=f32 copy=mxfp8", torch.float32)])
def test_there_and_back_and_on(storage, dtype):
    narrow, params = stepped(lambda p: altgrad.optim.AdamW(p, storage=storage), dtype)
    wide = altgrad.transcode(narrow.state_dict(), to="torch", report=None)
    again = altgrad.transcode(wide, to=narrow, report=None)
    # Numbers, not codes: a block whose largest was rounded down to a power of two may get the scale below.
    for key, value in altgrad.transcode(again, to="torch", report=None)["state"][0].items():
        assert torch.equal(value, wide["state"][0][key]), key
    assert {key: value.dtype for key, value in twins.opened(again["state"][0]).items()} == {
        key: value.dtype for key, value in narrow.state[params[0]].items() if not key.startswith("copy")}
    narrow.load_state_dict(again)
    twins.give_grads(params)
    narrow.step()


def through_pickle(optimizer):
    return pickle.loads(pickle.dumps(optimizer))


def through_torch(optimizer):
    file = io.BytesIO()
    torch.save(optimizer, file)
    return torch.load(io.BytesIO(file.getvalue()), weights_only=False)


@pytest.mark.parametrize("how", [through_pickle, through_torch, copy.deepcopy])
@pytest.mark.parametrize("storage", ["m=ocp.e4m3fn:256 v=ocp.e5m2:256", "m=mxfp8", "copy=mxfp8", "copy=ocp.e4m3fn,delayed"])
def test_copies_of_an_optimizer_with_float8_states(storage, how):
    """torch's own float8 tensors do not come back from pickle (2.11)."""
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.AdamW(params, storage=storage)
    twins.give_grads(params)
    optimizer.step()
    other = how(optimizer)
    for _ in range(2):
        for p, q in zip(params, other.param_groups[0]["params"]):
            p.grad = torch.randn(p.shape)
            q.grad = p.grad.clone()
        optimizer.step(), other.step()
    for p, q in zip(params, other.param_groups[0]["params"]):
        assert torch.equal(p, q)
        for key, value in optimizer.state[p].items():
            assert value.dtype == other.state[q][key].dtype and torch.equal(value.float(), other.state[q][key].float())
    assert other.state[torch.zeros(1)] == {}  # a defaultdict, as torch's


@pytest.mark.parametrize("names", [False, True])
@pytest.mark.parametrize("storage, change, words", [
    ("copy=mxfp8", lambda p, s: (s.clear(), setattr(p, "data", torch.randn(64, 33))), "rows of 33 elements"),
    ("m=bnb8:256", lambda p, s: s.pop("exp_avg"), "'exp_avg_scale' without its 'exp_avg'"),
    ("m=bf16", lambda p, s: s.update(exp_avg=s["exp_avg"].int()), "state 'exp_avg' is torch.int32"),
    ("m=bf16", lambda p, s: s.update(exp_avg=s["exp_avg"][1:]), r"state 'exp_avg' of shape \(63, 64\)"),
    ("m=bf16", lambda p, s: s.update(step="x"), "a step count is 'x'")])
def test_a_message_says_of_which_parameter(storage, change, words, names):
    params, = twins.make([(7,), (64, 64)], count=1)
    groups = [{"params": params[:1]}, {"params": [("weight", params[1])] if names else params[1:]}]
    if names:
        groups[0]["params"] = [("bias", params[0])]
    optimizer = altgrad.optim.AdamW(groups, storage=storage)
    twins.give_grads(params)
    optimizer.step()
    change(params[1], optimizer.state[params[1]])
    twins.give_grads(params)
    with pytest.raises((TypeError, ValueError),
                       match=f"altgrad.optim.AdamW: {repr('weight') if names else 'parameter 0 of group 1'}: .*{words}"):
        optimizer.step()
