"""State dicts from one storage to another: what kernels would have stored, and what peers' files hold."""

import copy
import hashlib

import numpy as np
import pytest
import torch
import twins

import altgrad
from altgrad._library import library

SHAPES = [(70, 70), (64, 64), (5, 3), (), (0,)]


def stepped(make, params, steps=1, seed=0):
    optimizer = make(params)
    for step in range(steps):
        torch.manual_seed(seed + step)
        for param in params:
            param.grad = torch.randn(param.shape).to(param.dtype)
        optimizer.step()
    return optimizer


def same(a, b):
    if not isinstance(a, torch.Tensor):
        return a == b
    return (a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
            and torch.equal(a.contiguous().view(-1).view(torch.uint8), b.contiguous().view(-1).view(torch.uint8)))


def equal_states(one, two):
    one, two = [{place: twins.opened(held) for place, held in of.items()} for of in (one, two)]
    return one.keys() == two.keys() and all(
        one[place].keys() == two[place].keys() and all(same(one[place][key], two[place][key]) for key in one[place])
        for place in one)


@pytest.mark.parametrize("storage", [
    "m=ocp.e4m3fn:256 v=ocp.e5m2:256", "m=altgrad.e4m3:128 v=altgrad.e5m2:128", "m=bf16 v=f16",
    "states=ocp.e5m2", "m=altgrad.e6m9:64 v=altgrad.e7m8", "m=int8:32 v=uint8:32", "m=bnb8:256 v=bnb8u:256", "m=torchao4:128 v=torchao4u:128",
    "m=ocp.e2m1:32 v=ocp.e5m2:32", "master=f32", "states=f32",
    "m=mxfp8 v=mxfp8e5m2", "m=ocp.e4m3fn:64:ocp.e8m0,even v=altgrad.e5m2:64:ocp.e8m0,floor",
    "m=bnb8:256 v=bnb8u:256,keep_positive", "m=int8:32:f16,softsign v=uint8:32:f16,sqrt,keep_positive",
    "m=mxfp8 v=mxfp8e5m2,keep_positive", "v=f16,keep_positive", "states=torchao4u:128,keep_positive m=bf16:32:f16,keep_positive"])
def test_what_is_written_is_what_a_kernel_stores(storage):
    """The first step makes both moments of the gradient alone: f32 ones, transcoded, are the narrow ones."""
    wide, narrow = twins.make(SHAPES, count=2)
    given = stepped(altgrad.optim.AdamW, wide).state_dict()
    wanted = stepped(lambda p: altgrad.optim.AdamW(p, storage=storage), narrow)
    for held in wanted.state.values():
        held.pop("master", None)
    before, found = copy.deepcopy(given), []
    made = altgrad.transcode(given, to=wanted, report=found.extend)
    assert equal_states(made["state"], wanted.state_dict()["state"])
    assert equal_states(given["state"], before["state"]) and len(found) == 8
    most = 0.167 if "e2m1" in storage else 0.13  # from 4 to 6 is a third
    assert all(0 <= error.rms <= error.max <= most for error in found)


def test_narrow_states_go_on_as_their_decoded_numbers():
    params, others = twins.make(SHAPES, count=2)
    narrow = stepped(altgrad.optim.AdamWFp8, params, 3)
    wide = altgrad.optim.AdamW(others)
    wide.load_state_dict(altgrad.transcode(narrow.state_dict(), to="torch", report=None))
    for p, q in zip(params, others):
        held, got = narrow.state[p], wide.state[q]
        for key in ("exp_avg", "exp_avg_sq"):
            scale = held.get(key + "_scale", torch.ones(1)).repeat_interleave(256)[:p.numel()]
            by_hand = (held[key].float().view(-1) * scale[:p.numel()]).view(p.shape) if p.numel() > 1 else held[key]
            assert torch.equal(got[key], by_hand)
        assert got["step"] == 3
    stepped(lambda _: wide, others, seed=9)


def test_masters_of_8_bits_are_what_a_kernel_stores():
    ours, theirs = twins.make([(70, 70), (3,)], dtype=torch.bfloat16, count=2)
    near, whole = [stepped(lambda p, s=s: altgrad.optim.AdamW(p, storage=s), params)
                   for s, params in (("master=bf16+i8", ours), ("master=f32", theirs))]
    made = altgrad.transcode(whole.state_dict(), to="master=bf16+i8", params=theirs)
    assert equal_states(made["state"], near.state_dict()["state"])
    assert all(torch.equal(p, q) for p, q in zip(ours, theirs))
    # What the next step reads is what is read here.
    read = altgrad.transcode(near.state_dict(), to="master=f32", params=ours)["state"]
    for group in near.param_groups:
        group.update(lr=0.0)
    halves = altgrad.transcode(near.state_dict(), to="master=bf16+i16", params=ours)["state"]
    assert all((read[i]["master"] - whole.state[q]["master"]).abs().max() < 2.0**-14 for i, q in enumerate(theirs))
    assert all(halves[i]["remainder"].dtype == torch.int16 for i in range(2))


@pytest.mark.parametrize("way", ["split", "whole"])
def test_masters_and_remainders_become_each_other_exactly(way):
    ours, theirs = twins.make([(70, 70), (3,)], dtype=torch.bfloat16, count=2)
    split = stepped(lambda p: altgrad.optim.AdamW(p, storage="master=bf16+i16"), ours, 3)
    whole = stepped(lambda p: altgrad.optim.AdamW(p, storage="master=f32"), theirs, 3)
    one, two = (split, whole) if way == "split" else (whole, split)
    if way == "whole":  # a master in the middle between two bfloat16 numbers
        whole.state[theirs[1]]["master"].fill_(1 + 2.0**-8)
        split.state[ours[1]]["remainder"].fill_(-0x8000)
        with torch.no_grad():
            theirs[1].fill_(1.0)
            ours[1].fill_(1 + 2.0**-7)
    made = altgrad.transcode(one.state_dict(), to="master=" + two._words["master"],
                             params=one.param_groups[0]["params"])
    assert equal_states(made["state"], two.state_dict()["state"])
    if way == "whole":
        assert all(torch.equal(p, q) for p, q in zip(theirs, ours))


def test_transformer_engine_keeps_the_same_remainder():
    params, others = twins.make(SHAPES[:3], dtype=torch.bfloat16, count=2)
    ours = stepped(lambda p: altgrad.optim.AdamW(p, storage="states=f32 master=bf16+i16"), params, 3)
    theirs = altgrad.transcode(ours.state_dict(), to="transformer_engine")
    assert theirs["param_groups"][0]["step"] == 3
    for place, param in enumerate(params):
        entry = theirs["state"][place]
        assert set(entry) == {"exp_avg", "exp_avg_sq", "master_param"} and entry["exp_avg"].dtype == torch.float32
        assert same(entry["master_param"], ours.state[param]["remainder"])
    again = altgrad.optim.AdamW(others, storage="states=f32 master=bf16+i16")
    again.load_state_dict(altgrad.transcode(theirs, to=again))
    assert equal_states(again.state_dict()["state"], ours.state_dict()["state"])


def bnb_file(shape, rng):
    """A file of bitsandbytes with books of its own, and the numbers in it by NumPy."""
    count = int(np.prod(shape))
    blocks, entry, numbers = -(-count // 256), {"step": 4}, {}
    for n, key in ("1", "exp_avg"), ("2", "exp_avg_sq"):
        book = np.sort(rng.uniform(-(n == "1"), 1, 256)).astype(np.float32)
        codes = rng.integers(0, 256, count).astype(np.uint8)
        scales = rng.uniform(0.1, 1, blocks).astype(np.float32)
        entry |= {f"state{n}": torch.from_numpy(codes).view(shape), f"qmap{n}": torch.from_numpy(book),
                  f"absmax{n}": torch.from_numpy(scales)}
        numbers[key] = (book[codes] * np.repeat(scales, 256)[:count]).reshape(shape)
    return entry, numbers


@pytest.mark.parametrize("wrapped", [False, True])
def test_bitsandbytes_files_are_read_by_the_books_in_them(wrapped):
    entry, numbers = bnb_file((70, 70), np.random.default_rng(1))
    if wrapped:  # as its newer versions hide it from FSDP
        entry = {"step": entry.pop("step"), "__bnb_optimizer_quant_state__": entry}
    small = {"step": 4, "state1": torch.randn(10), "state2": torch.rand(10)}
    group = dict(lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, alpha=0.0, t_alpha=None, t_beta3=None, params=[0, 1])
    params, others = twins.make([(70, 70), (10,)], count=2)
    ours, by_hand = altgrad.optim.AdamW(params), altgrad.optim.AdamW(others, lr=0.01, weight_decay=0.0)
    ours.load_state_dict(altgrad.transcode({"state": {0: entry, 1: small}, "param_groups": [group]}, to=ours))
    for p, kept in zip(others, (numbers, {"exp_avg": small["state1"], "exp_avg_sq": small["state2"]})):
        by_hand.state[p] = {"step": torch.tensor(4.0), **{k: torch.as_tensor(v).clone().float() for k, v in kept.items()}}
    twins.give_grads(params, others)
    ours.step()
    by_hand.step()
    for p, q in zip(params, others):
        assert torch.equal(p, q) and all(same(ours.state[p][k], by_hand.state[q][k]) for k in by_hand.state[q])


def test_the_book_is_that_of_bitsandbytes_and_codes_are_the_nearest():
    params, = twins.make([(70, 70), (5,)], count=1)
    params[0].grad, params[1].grad = torch.randn(70, 70).exp() * torch.randn(70, 70).sign(), torch.randn(5)
    with torch.no_grad():
        params[0].grad.view(-1)[512:768] = 0
    ours = altgrad.optim.AdamW(params)
    ours.step()
    made = altgrad.transcode(ours.state_dict(), to="bitsandbytes")["state"]
    assert made[1]["state1"].dtype == torch.float32 and made[0]["step"] == 1 and type(made[0]["step"]) is int
    for n, key, digest in ("1", "exp_avg", "e732639a65f497b4"), ("2", "exp_avg_sq", "305f002cc11278fb"):
        book, codes = made[0][f"qmap{n}"].numpy(), made[0][f"state{n}"].numpy().reshape(-1)
        assert hashlib.sha256(book.tobytes()).hexdigest().startswith(digest)
        numbers = ours.state[params[0]][key].numpy().reshape(-1)
        scales = np.array([np.abs(numbers[i:i + 256]).max() for i in range(0, 4900, 256)])
        assert np.array_equal(made[0][f"absmax{n}"].numpy(), scales) and scales[2] == 0
        shares = (numbers / np.repeat(np.where(scales > 0, scales, 1), 256)[:4900]).astype(np.float64)
        distance = np.abs(shares[:, None] - book.astype(np.float64))
        assert np.array_equal(distance[np.arange(4900), codes], distance.min(1))


def test_blocks_follow_the_memory_of_the_parameter():
    params, = twins.make([(8, 16, 8, 8)], count=1)
    params[0].data = params[0].data.to(memory_format=torch.channels_last)
    narrow = altgrad.optim.AdamWFp8([torch.nn.Parameter(params[0].detach().clone())])
    wanted = stepped(lambda _: narrow, narrow.param_groups[0]["params"]).state_dict()["state"]
    given = stepped(altgrad.optim.AdamW, params).state_dict()
    assert equal_states(altgrad.transcode(given, to=narrow)["state"], wanted)
    for key in ("exp_avg", "exp_avg_sq"):  # a file that lies otherwise
        given["state"][0][key] = given["state"][0][key].contiguous()
    assert equal_states(altgrad.transcode(given, to=narrow)["state"], wanted)
    numbers = altgrad.transcode(given, to="bitsandbytes")["state"][0]
    assert numbers["state1"].is_contiguous()
    back = altgrad.transcode({"state": {0: numbers}, "param_groups": given["param_groups"]}, to="torch")
    assert torch.allclose(back["state"][0]["exp_avg"], given["state"][0]["exp_avg"], atol=1e-2)


def file_of(entry, **group):
    return {"state": {0: entry}, "param_groups": [{"lr": 0.1, **group, "params": [0]}]}


MOMENTS = {"exp_avg": torch.zeros(8), "exp_avg_sq": torch.zeros(8)}


@pytest.mark.parametrize("entry, to, words, error", [
    (MOMENTS, "jax", "knows no 'jax'.*bitsandbytes", ValueError),
    (MOMENTS, torch.optim.AdamW, "knows no", ValueError),
    (MOMENTS, "m=nothing", "'nothing' is no format", ValueError),
    (MOMENTS, "m=bf16 q=bf16", "storage names 'q', and the states are exp_avg, exp_avg_sq", ValueError),
    (MOMENTS, "m=bf16:100", "m=bf16:100, with blocks of 100 elements", ValueError),
    (MOMENTS, "master=bf16+i7", "a master is f32, bf16.i16 or bf16.i8", ValueError),
    (MOMENTS, "m bf16", "knows no", ValueError),
    ({**MOMENTS, "extra": object()}, "torch", "state 'extra' of parameter 0 is object", TypeError),
    ({**MOMENTS, "exp_avg": torch.zeros(8, dtype=torch.uint8)}, "torch", "pass storage=", TypeError),
    ({**MOMENTS, "exp_avg": torch.zeros(8, dtype=torch.float64)}, "torch", "float64", TypeError),
    ({**MOMENTS, "exp_avg": torch.zeros(7)}, "torch", r"shapes \(7,\), \(8,\)", ValueError),
    ({**MOMENTS, "exp_avg_scale": torch.ones(3)}, "torch", "scales of shape", ValueError),
    ({**MOMENTS, "step": "three"}, "torch", "the step of parameter 0 is 'three'", TypeError),
    ({"momentum_buffer": torch.zeros(8)}, "bitsandbytes", "exp_avg, exp_avg_sq.*momentum_buffer", ValueError),
    ({**MOMENTS, "exp_avg": torch.full((8,), torch.nan)}, "bitsandbytes", "not finite", ValueError),
    ({**MOMENTS, "exp_avg": torch.zeros(8).to_sparse()}, "torch", "not dense", ValueError),
    ({**MOMENTS, "exp_avg": torch.zeros(1).expand(8)}, "torch", "not dense", ValueError),
    ({"state1": torch.zeros(8, dtype=torch.uint8)}, "torch", "not that of bitsandbytes' AdamW", ValueError),
    ({"state1": torch.zeros(8, dtype=torch.uint8), "state2": torch.zeros(8)}, "torch", "not 256 numbers", ValueError),
    ({**MOMENTS, "remainder": torch.zeros(8)}, "master=f32", "a remainder int16 or int8", TypeError),
    ({**MOMENTS, "remainder": torch.zeros(8, dtype=torch.int16)}, "torch", "torch has no place", ValueError),
    ({**MOMENTS, "master": torch.zeros(8)}, "states=f32", "add master=f32", ValueError),
    ({**MOMENTS, "master": torch.zeros(8)}, "master=bf16+i16", "pass params=", ValueError),
    ([1], "torch", "is list, not a dict", TypeError)])
def test_what_cannot_be_done_is_said(entry, to, words, error):
    with pytest.raises(error, match=words):
        altgrad.transcode(file_of(entry), to=to)


def test_what_is_no_file_and_params_that_do_not_fit():
    for wrong in ({}, [], {"state": {}}):
        with pytest.raises(ValueError, match="optimizer.state_dict"):
            altgrad.transcode(wrong, to="torch")
    with pytest.raises(ValueError, match="2 params, and the state_dict has 1"):
        altgrad.transcode(file_of(MOMENTS), to="torch", params=[torch.zeros(8)] * 2)
    with pytest.raises(ValueError, match="and of the parameter itself"):
        altgrad.transcode(file_of(MOMENTS), to="torch", params=[torch.zeros(9)])
    with pytest.raises(ValueError, match="belongs to a bfloat16 parameter"):
        altgrad.transcode(file_of({"remainder": torch.zeros(8, dtype=torch.int16)}), to="master=f32", params=[torch.zeros(8)])
    steps = {"state": {0: {**MOMENTS, "step": 1}, 1: {**MOMENTS, "step": 2}}, "param_groups": [{"lr": 0.1, "params": [0, 1]}]}
    with pytest.raises(ValueError, match="counts the steps of a group, and group 0 has .* 1.0, 2.0"):
        altgrad.transcode(steps, to="transformer_engine")


def test_codes_in_integers_are_read_by_their_storage():
    params, others = twins.make([(70, 70)], count=2)
    storage = "m=altgrad.e4m3:128 v=altgrad.e7m8"
    narrow = stepped(lambda p: altgrad.optim.AdamW(p, storage=storage), params, 2)
    made = altgrad.transcode(narrow.state_dict(), to=storage, storage=storage, report=None)
    assert same(made["state"][0]["exp_avg_sq"]["codes"], narrow.state[params[0]]["exp_avg_sq"])
    again = altgrad.optim.AdamW(others, storage=storage)
    again.load_state_dict(made)
    stepped(lambda _: again, others)


@pytest.mark.parametrize("name, memory, count, words", [
    (b"f32", 1, 1, "no format of 2 to 16 bits is called 'f32'"), (None, 1, 1, "is called ''"),
    (b"bf16", None, 1, "1 codes to convert"), (b"bf16", 1, -1, "-1 codes to convert")])
def test_the_codec_of_the_library_refuses(name, memory, count, words):
    kept = torch.zeros(1)
    at = memory and kept.data_ptr()
    for convert in (lambda: library().altgrad_format_encode(name, 1, at, at, count),
                    lambda: library().altgrad_format_decode(name, at, at, count)):
        with pytest.raises(altgrad.Error, match=words):
            convert()
    library().altgrad_format_encode(b"bf16", 1, None, None, 0)


def test_the_report_is_printed_when_asked(capsys):
    params, = twins.make([(70, 70)], count=1)
    given = stepped(altgrad.optim.AdamW, params).state_dict()
    altgrad.transcode(given, to=altgrad.optim.AdamWFp8)
    assert capsys.readouterr().out == ""
    altgrad.transcode(given, to=altgrad.optim.AdamWFp8, report=True)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[0].startswith("altgrad.transcode: exp_avg of 1 parameters: largest error 0.03")


def test_two_groups_and_states_of_other_optimizers():
    params, others = twins.make([(70, 70), (5,), (64, 64)], count=2)
    make = lambda ps: altgrad.optim.SGD([{"params": ps[:2], "lr": 0.1}, {"params": ps[2:], "lr": 0.2}], momentum=0.9)
    given = stepped(make, params).state_dict()
    given["state"][2]["momentum_buffer"] = given["state"][2]["momentum_buffer"].requires_grad_()
    narrow = make(others)
    narrow._words = altgrad.optim.Storage(buf="ocp.e4m3fn:128")
    made = altgrad.transcode(given, to=narrow)
    assert made["state"][0]["momentum_buffer"]["codes"].dtype == torch.float8_e4m3fn and len(made["param_groups"]) == 2
    assert made["state"][1]["momentum_buffer"].dtype == torch.float32
    narrow.load_state_dict(made)
    stepped(lambda _: narrow, others)
    assert altgrad.transcode(altgrad.optim.AdamW(others).state_dict(), to="torch")["state"] == {}


def test_a_parameter_that_is_a_view_with_holes():
    wide = torch.randn(80, 160)
    params = [torch.nn.Parameter(wide.clone()[:, ::2]) for _ in range(2)]
    given = stepped(altgrad.optim.AdamW, params[:1]).state_dict()
    narrow = altgrad.optim.AdamWFp8(params[1:])
    wanted = stepped(lambda _: narrow, params[1:]).state_dict()["state"]
    made = altgrad.transcode(given, to=narrow)
    assert equal_states(made["state"], wanted)


def test_what_is_not_finite_stays_where_a_format_has_it():
    entry = {"exp_avg": torch.randn(4096), "exp_avg_sq": torch.rand(4096)}
    entry["exp_avg"][:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
    made = altgrad.transcode(file_of(entry), to=altgrad.optim.AdamWFp8)["state"][0]
    made = twins.opened(made)
    number = made["exp_avg"].float()
    assert number[0].isnan() and number[1] == 448 and number[2] == -448 and number[3:].isfinite().all()
    assert made["exp_avg"].view(torch.uint8)[0] == 0x7F


def test_books_are_read_by_the_line_of_their_optimizer():
    params, others = twins.make(SHAPES, count=2)
    given = stepped(altgrad.optim.AdamW8bit, params, 2).state_dict()
    line = altgrad.optim.AdamW8bit._storage
    wide = altgrad.optim.AdamW(others)
    wide.load_state_dict(altgrad.transcode(given, to=wide, storage=line, report=None))
    again = altgrad.transcode(wide.state_dict(), to=line, report=None)
    for place in (0, 1):  # the others are too small for codes
        for key in ("exp_avg_sq", "exp_avg"):
            got, had = again["state"][place][key]["codes"], given["state"][place][key]["codes"]
            assert got.dtype == had.dtype == torch.uint8
            # A signed book ends at -0.993: a block may shrink by that, and no code by more than a place.
            assert (got.int() - had.int()).abs().max() <= 1
