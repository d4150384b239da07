"""From how many elements on states have blocks: a setting of a class, of a group and of a word of storage."""

import sys
from pathlib import Path

import pytest
import torch
import twins

import altgrad

sys.path.append(str(Path(__file__).parents[2] / "differential"))
import books  # noqa: E402

SIZES = 5, 999, 1000, 1001, 4095, 4096, 8191, 8192, 8193
WORDS = "m=ocp.e4m3fn:{0},min_size:{1} v=ocp.e5m2:{0},keep_positive,min_size:{1}"


def made(kind=altgrad.optim.AdamW8bit, groups=None, **words):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(size)) for size in SIZES]
    return params, kind(params if groups is None else groups(params), lr=0.01, **words)


def run(params, optimizer, first, steps=2):
    for step in range(first, first + steps):
        torch.manual_seed(step)
        for param in params:
            param.grad = torch.randn(param.shape)
        optimizer.step()
    return [param.detach().clone() for param in params]


def narrow(params, optimizer):
    return [param.numel() for param in params if optimizer.state[param]["exp_avg"].dtype != torch.float32]


@pytest.mark.parametrize("words, least", [
    ({}, 4096), ({"min_8bit_size": 1000}, 1000), ({"min_8bit_size": 8192}, 8192), ({"min_8bit_size": 0}, 0),
    ({"storage": "states=bnb8u:128,min_size:1001 m=bnb8:128,min_size:1001"}, 1001)])
def test_states_are_narrow_from_there_on(words, least):
    params, optimizer = made(**words)
    run(params, optimizer, 0)
    assert narrow(params, optimizer) == [size for size in SIZES if size >= least]


def test_each_group_and_each_state_has_its_own():
    groups = lambda params: [{"params": params[:4], "min_8bit_size": 1000}, {"params": params[4:6]},
                             {"params": params[6:], "storage": "m=bnb8:64,min_size:8192"}]
    params, optimizer = made(groups=groups, min_8bit_size=4096)
    run(params, optimizer, 0)
    assert narrow(params, optimizer) == [1000, 1001, 4096, 8192, 8193]
    assert optimizer.state[params[6]]["exp_avg_sq"].dtype == torch.uint8
    assert len(optimizer._built.tables) == 1


def encoded(numbers, block, dtype):
    """Codes and scales by torch's own conversions; a number above 0 has at least the smallest code."""
    largest = torch.finfo(dtype).max
    padded = torch.nn.functional.pad(numbers, (0, -len(numbers) % block)).view(-1, block)
    scale = (padded.abs().amax(1) / largest).clamp(2.0**-120, 2.0**126)
    codes = (padded * (1 / scale)[:, None]).clamp(-largest, largest).to(dtype)
    return codes.flatten()[:len(numbers)].view(torch.uint8), scale


@pytest.mark.parametrize("block", [16, 256, 512, 1024, 2048])
def test_codes_of_small_tensors_are_a_quantisers(block):
    """The first step's first moment is (1 - beta1) times the gradient."""
    params, optimizer = made(altgrad.optim.AdamW, storage=WORDS.format(block, 1))
    run(params, optimizer, 0, 1)
    for param in params:
        codes, scale = encoded(param.grad * (1 - 0.9), block, torch.float8_e4m3fn)
        held = optimizer.state[param]
        assert torch.equal(held["exp_avg_scale"], scale) and held["exp_avg_scale"].numel() == -(-param.numel() // block)
        assert torch.equal(held["exp_avg"].view(torch.uint8), codes)


@pytest.mark.parametrize("there", [0, 1000, 4096, 8192])
@pytest.mark.parametrize("here", [0, 1000, 4096, 8192])
def test_a_file_loads_under_another_number(here, there):
    """Under the same one with the same bits; states that become narrow are rounded, and those that become wide are not."""
    params, optimizer = made(min_8bit_size=there)
    run(params, optimizer, 0)
    others, other = made(min_8bit_size=here)
    for mine, theirs in zip(others, params):
        mine.data.copy_(theirs.data)
    other.load_state_dict(twins.through_a_file(optimizer.state_dict()))
    for mine, theirs in zip(others, params):
        held, kept = other.state[mine], optimizer.state[theirs]
        assert (held["exp_avg"].dtype == torch.uint8) == (mine.numel() >= here)
        if there <= mine.numel() < here:
            numbers = torch.from_numpy(books.table("bnb8")[kept["exp_avg"].numpy()])
            assert torch.equal(held["exp_avg"], numbers * kept["exp_avg_scale"].repeat_interleave(256)[:len(numbers)])
            assert "exp_avg_scale" not in held
    expected, found = run(params, optimizer, 2), run(others, other, 2)
    for size, mine, theirs in zip(SIZES, found, expected):
        if (size >= here) == (size >= there):
            assert torch.equal(mine, theirs), size
        else:
            torch.testing.assert_close(mine, theirs, rtol=0, atol=3e-3)


@pytest.mark.parametrize("to", ["bitsandbytes", "bitsandbytes:64", "bitsandbytes:2048"])
def test_bitsandbytes_blocks_of_any_size(to):
    """Each number is within half a step of the dynamic map under the scale of its block, and a file of them is read again."""
    params, optimizer = made(altgrad.optim.AdamW)
    run(params, optimizer, 0)
    block = int(to.partition(":")[2] or 256)
    file = altgrad.transcode(optimizer.state_dict(), to=to)
    back = altgrad.transcode(file, to="torch")
    for place, param in enumerate(params):
        numbers, held = optimizer.state[param]["exp_avg"], file["state"][place]
        if len(numbers) < 4096:
            assert torch.equal(held["state1"], numbers)
            continue
        scale = torch.nn.functional.pad(numbers, (0, -len(numbers) % block)).view(-1, block).abs().amax(1)
        assert torch.equal(held["absmax1"], scale)
        shares = (numbers / scale.repeat_interleave(block)[:len(numbers)])[:, None]
        assert torch.equal((held["qmap1"][None] - shares).abs().amin(1), (held["qmap1"][held["state1"].int()] - shares[:, 0]).abs())
        kept = held["qmap1"][held["state1"].int()] * scale.repeat_interleave(block)[:len(numbers)]
        assert torch.equal(back["state"][place]["exp_avg"], kept)


@pytest.mark.parametrize("words, why", [
    (dict(storage="m=bf16,min_size:7"), "min_size is of states with a scale for each block"),
    (dict(storage="m=bnb8:256,min_size"), "write min_size with the elements"),
    (dict(storage="m=bnb8:256,min_size:0"), "write min_size with the elements"),
    (dict(storage="m=bnb8:256,min_size:5,min_size:6"), "min_size twice; leave one out"),
    (dict(storage="copy=ocp.e4m3fn:128,min_size:5"), "min_size is of states"),
    (dict(storage="m=bnb8:4096"), "a power of two from 16 to 2048"),
    (dict(min_8bit_size=-1), "min_8bit_size is -1; it is a number of elements"),
    (dict(min_8bit_size=2**31), "it is a number of elements below 2147483648")])
def test_what_is_no_number_of_elements_is_said(words, why):
    with pytest.raises(ValueError, match=why):
        made(**words)


def test_who_takes_it_is_said():
    with pytest.raises(TypeError, match="min_8bit_size is 4096.0, not a whole number"):
        made(min_8bit_size=4096.0)
    with pytest.raises(TypeError, match='such as AdamW8bit, take it; write it into storage here, as in storage="m=bnb8:256,min_size'):
        made(altgrad.optim.AdamW, min_8bit_size=4096)
    with pytest.raises(ValueError, match="knows no 'bitsandbytes:100': blocks of a power of two from 16 to 2048"):
        altgrad.transcode({"state": {}, "param_groups": []}, to="bitsandbytes:100")


@pytest.mark.parametrize("least", [0, 1000, 8192, 20000])
def test_memory_is_that_of_the_states(least):
    params, optimizer = made(min_8bit_size=least)
    run(params, optimizer, 0)
    states = sum([value.nbytes for held in optimizer.state.values() for value in held.values() if value.dim()])
    said = altgrad.distributed.memory(altgrad.optim.AdamW8bit, params, ranks=1, min_8bit_size=least).states
    assert abs(said / states - 1) < 0.01
