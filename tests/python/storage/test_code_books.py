"""States in code books: what is stored, against torchao's own arithmetic in NumPy, files, and what is refused."""

import copy
import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import altgrad

sys.path.append(str(Path(__file__).parents[2] / "differential"))
import books  # noqa: E402

BOOK = {"exp_avg": "bnb8", "exp_avg_sq": "bnb8u"}


def made(cls, shape, dtype=torch.float32, **options):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(shape).to(dtype))
    return weight, cls([weight], lr=0.01, **options)


def steps(weight, optimizer, seeds):
    for seed in seeds:
        torch.manual_seed(seed)
        weight.grad = torch.randn_like(weight) * 10 ** (-4 * torch.rand_like(weight))
        optimizer.step()


def number(state, key, book):
    codes = books.table(book)[state[key].flatten().numpy()]
    return torch.from_numpy(codes) * state[key + "_scale"].repeat_interleave(256)[:len(codes)]


def encoded(book, values):
    """Codes and scales; a second moment above 0 has at least code 1."""
    padded = np.pad(values.detach().numpy(), (0, -len(values) % 256)).reshape(-1, 256)
    scale = np.maximum(np.abs(padded).max(1), np.float32(1e-12))
    codes = books.encode(book, padded / scale[:, None])
    codes = np.maximum(codes, (padded > 0) & (book == "bnb8u"))
    return codes.flatten()[:len(values)].astype(np.uint8), scale


def test_three_steps_are_torch_steps_on_what_was_stored():
    weight, optimizer = made(altgrad.optim.AdamW8bit, (5000,))
    plain = torch.nn.Parameter(weight.detach().clone())
    oracle = altgrad.optim.AdamW([plain], lr=0.01)
    for seed in range(3):
        if seed:
            for key, book in BOOK.items():
                oracle.state[plain][key].copy_(number(optimizer.state[weight], key, book))
        steps(weight, optimizer, [seed])
        plain.grad = weight.grad.clone()
        oracle.step()
        assert torch.equal(weight, plain)
        for key, book in BOOK.items():
            codes, scale = encoded(book, oracle.state[plain][key])
            np.testing.assert_array_equal(optimizer.state[weight][key], codes)
            np.testing.assert_array_equal(optimizer.state[weight][key + "_scale"], scale)


def test_torchao_stores_the_same_bytes():
    """What both quantise is the same moment: codes and scales are, byte for byte."""
    state8 = pytest.importorskip("torchao.optim.subclass_8bit").OptimState8bit
    weight, optimizer = made(altgrad.optim.AdamW8bit, (64, 128), storage="states=bnb8u:256 m=bnb8:256")
    plain = torch.nn.Parameter(weight.detach().clone())
    oracle = altgrad.optim.AdamW([plain], lr=0.01)
    steps(weight, optimizer, [0])
    plain.grad = weight.grad.clone()
    oracle.step()
    for key, signed in (("exp_avg", True), ("exp_avg_sq", False)):
        theirs = state8.zeros((64, 128), signed=signed, block_size=256)
        theirs.copy_(oracle.state[plain][key].detach())
        assert torch.equal(theirs.codes, optimizer.state[weight][key])
        assert torch.equal(theirs.scale, optimizer.state[weight][key + "_scale"])


@pytest.mark.parametrize("cls, keys", [(altgrad.optim.AdamW8bit, ["exp_avg", "exp_avg_sq"]),
                                       (altgrad.optim.Lion8bit, ["exp_avg"])])
def test_bytes_of_the_states_and_small_tensors(cls, keys):
    large, small = torch.nn.Parameter(torch.randn(64, 65)), torch.nn.Parameter(torch.randn(4095))
    optimizer = cls([large, small])
    large.grad, small.grad = torch.randn_like(large), torch.randn_like(small)
    optimizer.step()
    for key in keys:
        assert optimizer.state[large][key].dtype == torch.uint8 and optimizer.state[large][key].shape == (64, 65)
        assert optimizer.state[large][key + "_scale"].shape == (17,)
        assert optimizer.state[small][key].dtype == torch.float32 and key + "_scale" not in optimizer.state[small]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cls, options", [(altgrad.optim.AdamW8bit, {}), (altgrad.optim.AdamW8bit, {"amsgrad": True}),
                                          (altgrad.optim.Lion8bit, {})])
def test_exact_resume_from_a_file_and_of_a_copy(cls, options, dtype):
    weight, optimizer = made(cls, (70, 70), dtype, **options)
    steps(weight, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"w": weight.detach(), "o": optimizer.state_dict()}, file)
    twin = copy.deepcopy((weight, optimizer))
    file.seek(0)
    held = torch.load(file, weights_only=True)
    other, loaded = made(cls, (70, 70), dtype, **options)
    other.data.copy_(held["w"])
    loaded.load_state_dict(held["o"])
    for run in ((weight, optimizer), (other, loaded), twin):
        steps(*run, [7, 8])
        assert torch.equal(run[0], weight)
        for key, value in optimizer.state[weight].items():
            assert torch.equal(run[1].state[run[0]][key], value), key


@pytest.mark.parametrize("storage, words", [
    ("m=bnb8", "the numbers of bnb8 end at 1; it is for states with a scale for each block, as m=bnb8:256"),
    ("param=bnb8", "the numbers of bnb8 end at 1"), ("grad=bnb8u", "the numbers of bnb8u end at 1"),
    ("master=bnb8", "a master is f32, bf16"), ("master=bnb8:256", "a master is f32, bf16"),
    ("m=bnb8:256,stochastic", "a code book has the nearest number alone"),
    ("m=bnb8:4096", "expected a power of two from 16 to 2048"), ("m=bnb9:256", "unknown format 'bnb9'")])
def test_words_that_make_no_sense(storage, words):
    with pytest.raises(altgrad.Error, match=words):
        altgrad.optim.FromRule("adamw", storage=storage)


def test_a_block_that_is_not_finite_spoils_no_neighbour():
    weight, optimizer = made(altgrad.optim.Lion8bit, (4096,), weight_decay=0.0)
    weight.grad = torch.ones(4096)
    weight.grad[0], weight.grad[1], weight.grad[300], weight.grad[512:768] = torch.nan, torch.inf, -torch.inf, 0.0
    optimizer.step()
    state = optimizer.state[weight]
    assert state["exp_avg"][:3].tolist() == [127, 127, 255] and state["exp_avg"][300] == 127
    assert state["exp_avg"][512] == 127 and state["exp_avg_scale"][2] == np.float32(1e-12)
    assert torch.equal(state["exp_avg_scale"][[0, 1, 3]], state["exp_avg_scale"][3].expand(3))


def test_an_update_is_no_multiple_of_the_rate_where_gradients_are_within_two_decades():
    weight = torch.nn.Parameter(torch.zeros(8192))
    torch.manual_seed(3)
    sizes = 10 ** (-2 * torch.rand(8192))
    optimizer = altgrad.optim.AdamW8bit([weight], lr=1.0, weight_decay=0.0)
    for _ in range(20):
        before = weight.detach().clone()
        weight.grad = torch.randn(8192) * sizes
        optimizer.step()
        assert (weight - before).abs().max() < 4


def test_a_second_moment_that_rounds_to_0_is_kept_above_it():
    """Four lines in which torchao's bytes move a weight by 12 learning rates."""
    for storage, least, most in (("", 0, 1.01), ("v=bnb8u:256", 1000, 1e6)):
        weight = torch.nn.Parameter(torch.zeros(4096))
        optimizer = altgrad.optim.AdamW8bit([weight], lr=1.0, weight_decay=0.0, storage=storage)
        for grads in ([1.0, 3e-4], [0.0, 0.0]):
            before = weight.detach().clone()
            weight.grad = torch.zeros(4096)
            weight.grad[:2] = torch.tensor(grads)
            optimizer.step()
        moved = (weight - before)[1].abs().item()
        assert least <= moved <= most, storage
