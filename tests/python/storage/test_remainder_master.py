"""`master=bf16+i16`: the bfloat16 parameter and 16 bits beside it are the float32 that `master=f32` keeps."""

import copy

import pytest
import torch
import twins

import altgrad

SHAPES = [(64,), (5, 3), (), (0,), (70, 70)]


def joined(param, remainder):
    """TransformerEngine's inverse: the upper half less one where the lower one is negative."""
    upper, lower = param.detach().view(torch.int16).to(torch.int32), remainder.to(torch.int32)
    return ((upper - (lower < 0).int() << 16) | (lower & 0xFFFF)).view(torch.float32)


def bits(tensor):
    return tensor.detach().view(torch.int32 if tensor.itemsize == 4 else torch.int16)


@pytest.mark.parametrize("make", [
    lambda params, **how: altgrad.optim.AdamW(params, lr=3e-3, max_grad_norm=1.0, **how),
    lambda params, **how: altgrad.optim.SGD(params, lr=3e-3, momentum=0.9, **how),
    lambda params, **how: altgrad.optim.LAMB(params, lr=3e-3, **how),
    lambda params, storage: altgrad.optim.FromRule("lion", storage)(params, lr=3e-3)])
def test_the_master_is_the_one_that_f32_keeps(make):
    ours, theirs = twins.make(SHAPES, dtype=torch.bfloat16, count=2)
    split, whole = make(ours, storage="master=bf16+i16"), make(theirs, storage="master=f32")
    for step in range(20):
        twins.give_grads(ours, theirs)
        split.step()
        whole.step()
        for p, q in zip(ours, theirs):
            state, other = split.state[p], whole.state[q]
            assert state["remainder"].dtype == torch.int16 and "master" not in state
            assert torch.equal(bits(joined(p, state["remainder"])), bits(other["master"]))
            for key in set(other) - {"master"}:
                assert torch.equal(state[key], other[key]), key
            # The parameter is that master rounded to nearest; ties away from zero.
            tie = (bits(other["master"]) & 0xFFFF) == 0x8000
            assert torch.equal(p[~tie], q[~tie])


def trained(steps=3, **how):
    params, = twins.make(SHAPES, dtype=torch.bfloat16, count=1)
    optimizer = altgrad.optim.AdamW(params, storage="master=bf16+i16", **how)
    for _ in range(steps):
        twins.give_grads(params)
        optimizer.step()
    return optimizer, params


def masters(optimizer, params):
    return [joined(p, optimizer.state[p]["remainder"]) for p in params]


@pytest.mark.parametrize("way", ["file", "copy"])
def test_a_run_goes_on_with_every_bit(way):
    optimizer, params = trained()
    if way == "file":
        others, = twins.make(SHAPES, dtype=torch.bfloat16, count=1)
        other = altgrad.optim.AdamW(others, storage="master=bf16+i16")
        other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        with torch.no_grad():
            for p, q in zip(params, others):
                q.copy_(p)
    else:
        others, other = copy.deepcopy((params, optimizer))
    twins.give_grads(params, others)
    optimizer.step()
    other.step()
    for a, b in zip(masters(optimizer, params), masters(other, others)):
        assert torch.equal(bits(a), bits(b))


def test_an_edit_of_the_parameter_is_one_of_the_master():
    optimizer, params = trained(weight_decay=0.0)
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    with torch.no_grad():
        params[0].zero_()
        params[1].fill_(2.0)
    before = optimizer.state[params[1]]["remainder"].clone()
    twins.give_grads(params)
    optimizer.step()
    # A parameter of 0 has no half below it, whatever the remainder was.
    assert (params[0] == 0).all() and (joined(*[params[0], optimizer.state[params[0]]["remainder"]]).abs() < 1e-38).all()
    assert (params[1] == 2.0).all() and torch.equal(optimizer.state[params[1]]["remainder"], before)
    assert (masters(optimizer, params)[1] - 2.0).abs().max() <= 2.0 ** -7


def test_float32_parameters_are_their_own_masters():
    half, = twins.make([(64,)], dtype=torch.bfloat16, count=1)
    full, plain = twins.make([(33,)], count=2)
    optimizer = altgrad.optim.AdamW([{"params": half}, {"params": full}], storage="master=bf16+i16")
    reference = altgrad.optim.AdamW(plain)
    twins.give_grads(full, plain)
    half[0].grad = torch.ones_like(half[0])
    optimizer.step()
    reference.step()
    assert set(optimizer.state[full[0]]) == {"step", "exp_avg", "exp_avg_sq"}
    assert torch.equal(full[0], plain[0]) and "remainder" in optimizer.state[half[0]]


def test_float16_parameters_are_refused():
    params, = twins.make([(8,)], dtype=torch.float16, count=1)
    optimizer = altgrad.optim.AdamW(params, storage="master=bf16+i16")
    twins.give_grads(params)
    with pytest.raises(altgrad.Error, match="upper half of an f32 is a bf16"):
        optimizer.step()


@pytest.mark.parametrize("saved, loads, key", [
    ("master=f32", "master=bf16+i16", "master"), ("master=bf16+i16", "master=f32", "remainder"),
    ("master=bf16+i16", "m=bf16", "remainder"), ("master=bf16+i16", "", "remainder")])
def test_a_master_of_another_storage_is_not_lost_without_a_word(saved, loads, key):
    params, = twins.make([(8,)], dtype=torch.bfloat16, count=1)
    optimizer = altgrad.optim.AdamW(params, storage=saved)
    twins.give_grads(params)
    optimizer.step()
    other, older = altgrad.optim.AdamW(params, storage=loads), optimizer.state_dict()
    del older["param_groups"][0]["storage"]  # which today's files have: test_described_files.py
    other.load_state_dict(older)
    before = params[0].clone()
    with pytest.raises(ValueError, match=f"there is a state '{key}'.*transcode"):
        other.step()
    assert torch.equal(params[0], before)


@pytest.mark.parametrize("wrong", [torch.zeros(8), torch.zeros(8, dtype=torch.int8),
                                   torch.zeros(7, dtype=torch.int16), "nothing"])
def test_what_is_no_remainder_is_refused(wrong):
    params, = twins.make([(8,)], dtype=torch.bfloat16, count=1)
    optimizer = altgrad.optim.AdamW(params, storage="master=bf16+i16")
    twins.give_grads(params)
    optimizer.step()
    optimizer.state[params[0]]["remainder"] = wrong
    with pytest.raises((TypeError, ValueError), match="remainder"):
        optimizer.step()


def test_memory_in_another_order():
    channels, = twins.make([(2, 3, 4, 4)], dtype=torch.bfloat16, count=1)
    contiguous = [channels[0].detach().clone().requires_grad_()]
    channels[0].data = channels[0].data.to(memory_format=torch.channels_last)
    grad = torch.randn(2, 3, 4, 4).bfloat16()
    results = []
    for params in (channels, contiguous):
        optimizer = altgrad.optim.AdamW(params, lr=0.1, storage="master=bf16+i16")
        for _ in range(2):
            params[0].grad = grad.clone()
            optimizer.step()
        results += masters(optimizer, params)
        assert optimizer.state[params[0]]["remainder"].stride() == params[0].stride()
    assert torch.equal(*results)


def test_eight_bits_keep_a_master_nearly():
    """Updates of 2^-13 of a weight's place: bfloat16 alone never moves, 7 bits more keep pace."""
    results = {}
    for storage in ("master=f32", "master=bf16+i8", "param=bf16"):
        param = torch.nn.Parameter(torch.ones(64, dtype=torch.bfloat16))
        optimizer = altgrad.optim.FromRule("sgd", storage)([param], lr=2.0**-14)
        for _ in range(200):
            param.grad = torch.ones_like(param)
            optimizer.step()
        results[storage] = param.detach().float()
    assert (results["param=bf16"] == 1).all() and (results["master=f32"] == 1 - 3 * 2.0**-8).all()
    assert (results["master=bf16+i8"] - results["master=f32"]).abs().max() <= 2.0**-8
