"""States of 4 bits, two codes to a byte: what is stored, against NumPy and torchao, shapes, files, and what is refused."""

import copy
import io
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import altgrad
import twins

sys.path.append(str(Path(__file__).parents[2] / "differential"))
import books  # noqa: E402

BOOK = {"exp_avg": "torchao4", "exp_avg_sq": "torchao4u"}


def made(shape, dtype=torch.float32, cls=None, layout=torch.contiguous_format, **options):
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.randn(shape).to(dtype).to(memory_format=layout))
    return weight, (cls or altgrad.optim.AdamW4bit)([weight], lr=0.01, **options)


def steps(weight, optimizer, seeds):
    for seed in seeds:
        torch.manual_seed(seed)
        weight.grad = torch.randn_like(weight) * 10 ** (-2 * torch.rand_like(weight))
        optimizer.step()


def flat(tensor):
    """The elements in the order of memory."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def unpacked(state, key, count):
    codes = flat(state[key]).numpy()
    return np.stack([codes >> 4, codes & 15], 1).ravel()[:count]


def encoded(book, values):
    padded = np.pad(values.detach().numpy(), (0, -len(values) % 128)).reshape(-1, 128)
    scale = np.maximum(np.abs(padded).max(1), np.float32(1e-12))
    return books.encode(book, padded / scale[:, None]).flatten()[:len(values)], scale


LAYOUTS = [((5000,), torch.contiguous_format, (2500,)), ((4097,), torch.contiguous_format, (2049,)),
           ((50, 3, 30), torch.contiguous_format, (50, 3, 15)), ((71, 71), torch.contiguous_format, (1, 2521)),
           ((32, 3, 7, 7), torch.channels_last, (1, 2352, 1, 1)), ((16, 8, 6, 6), torch.channels_last, (16, 4, 6, 6)),
           ((64, 64, 1, 1), torch.channels_last, (64, 32, 1, 1))]


@pytest.mark.parametrize("shape, layout, packed", LAYOUTS)
def test_three_steps_are_torch_steps_on_what_was_stored(shape, layout, packed):
    weight, optimizer = made(shape, layout=layout)
    plain = torch.nn.Parameter(weight.detach().clone())
    oracle, state = altgrad.optim.AdamW([plain], lr=0.01), optimizer.state[weight]
    for seed in range(3):
        for key, book in BOOK.items() if seed else ():
            codes = unpacked(state, key, weight.numel())
            numbers = torch.from_numpy(books.table(book)[codes]) * state[key + "_scale"].repeat_interleave(128)[:len(codes)]
            flat(oracle.state[plain][key]).copy_(numbers)
        steps(weight, optimizer, [seed])
        plain.grad = weight.grad.clone()
        oracle.step()
        assert torch.equal(weight, plain)
        for key, book in BOOK.items():
            codes, scale = encoded(book, flat(oracle.state[plain][key]))
            assert state[key].shape == packed and state[key].dtype == torch.uint8
            np.testing.assert_array_equal(unpacked(state, key, weight.numel()), codes)
            np.testing.assert_array_equal(state[key + "_scale"], scale)
            assert weight.numel() % 2 == 0 or int(flat(state[key])[-1]) & 15 == 0


def test_torchao_stores_the_same_bytes():
    state4 = pytest.importorskip("torchao.optim.subclass_4bit").OptimState4bit
    weight, optimizer = made((64, 128))
    plain = torch.nn.Parameter(weight.detach().clone())
    oracle = altgrad.optim.AdamW([plain], lr=0.01)
    steps(weight, optimizer, [0])
    plain.grad = weight.grad.clone()
    oracle.step()
    for key, signed in (("exp_avg", True), ("exp_avg_sq", False)):
        theirs = state4.zeros((64, 128), signed=signed, block_size=128)
        theirs.copy_(oracle.state[plain][key].detach())
        assert torch.equal(theirs.codes, optimizer.state[weight][key].flatten())
        assert torch.equal(theirs.scale, optimizer.state[weight][key + "_scale"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape, layout", [((70, 70), torch.contiguous_format), ((69, 69), torch.contiguous_format),
                                           ((8, 6, 10, 10), torch.channels_last)])
@pytest.mark.parametrize("options", [{}, {"amsgrad": True}])
def test_exact_resume_from_a_file_and_of_a_copy(shape, layout, options, dtype):
    weight, optimizer = made(shape, dtype, layout=layout, **options)
    steps(weight, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"w": weight.detach(), "o": optimizer.state_dict()}, file)
    twin = copy.deepcopy((weight, optimizer))
    file.seek(0)
    held = torch.load(file, weights_only=True)
    other, loaded = made(shape, dtype, layout=layout, **options)
    other.data.copy_(held["w"])
    loaded.load_state_dict(held["o"])
    for run in ((weight, optimizer), (other, loaded), twin):
        steps(*run, [7, 8])
        assert torch.equal(run[0], weight)
        for key, value in optimizer.state[weight].items():
            assert torch.equal(run[1].state[run[0]][key], value), key


def test_small_tensors_stay_wide_and_empty_ones_step():
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in [(4095,), (), (0, 7), (64, 64)]]
    optimizer = altgrad.optim.AdamW4bit([{"params": params[:2]}, {"params": params[2:], "lr": 0.1}])
    for param in params:
        param.grad = torch.randn_like(param)
    optimizer.step()
    assert [optimizer.state[param]["exp_avg"].dtype for param in params] == 3 * [torch.float32] + [torch.uint8]
    assert optimizer.state[params[3]]["exp_avg"].shape == (64, 32)


def test_another_order_of_memory_is_refused():
    weight, optimizer = made((16, 8, 6, 6), layout=torch.channels_last)
    steps(weight, optimizer, [0])
    plain, other = made((16, 8, 6, 6))
    other.load_state_dict(optimizer.state_dict())
    with pytest.raises(ValueError, match=r"shape \(16, 4, 6, 6\).*codes have shape \(16, 8, 6, 3\)"):
        steps(plain, other, [1])
    moved = torch.nn.Parameter(torch.randn(5, 9, 101).permute(1, 0, 2))
    with pytest.raises(ValueError, match="odd number of elements in its innermost dimension.*make it contiguous"):
        steps(moved, altgrad.optim.AdamW4bit([moved]), [0])


@pytest.mark.parametrize("change, words", [
    (lambda s: s.update(exp_avg=s["exp_avg"].repeat(1, 2)), "whose codes have shape"),
    (lambda s: s.update(exp_avg=torch.zeros(64, 64)), "is torch.float32, but storage says m=torchao4:128"),
    (lambda s: s.update(exp_avg=s["exp_avg"].t().contiguous().t()), "has strides"),
    (lambda s: s.pop("exp_avg_scale"), "without its 'exp_avg_scale'"),
    (lambda s: s.update(exp_avg_scale=s["exp_avg_scale"][:4]), "one for each 128 elements")])
def test_states_that_do_not_fit_are_refused_before_anything_changes(change, words):
    weight, optimizer = made((64, 64))
    steps(weight, optimizer, [0])
    change(optimizer.state[weight])
    before = weight.detach().clone()
    with pytest.raises((TypeError, ValueError), match=words):
        steps(weight, optimizer, [1])
    assert torch.equal(weight, before)


def test_eight_bits_and_four_are_not_taken_for_each_other():
    weight, optimizer = made((64, 64))
    steps(weight, optimizer, [0])
    for storage in ("m=bnb8:128 v=bnb8u:128", "m=torchao4 v=torchao4u"):
        other = torch.nn.Parameter(weight.detach().clone())
        with pytest.raises((altgrad.Error, ValueError), match="states are stored as|numbers of torchao4 end at 1"):
            loaded = altgrad.optim.AdamW([other], storage=storage)
            loaded.load_state_dict(optimizer.state_dict())
            steps(other, loaded, [1])


def test_a_block_that_is_not_finite_spoils_no_neighbour():
    weight, optimizer = made((4096,), weight_decay=0.0)
    weight.grad = torch.ones(4096)
    weight.grad[0], weight.grad[1], weight.grad[300], weight.grad[512:640] = torch.nan, torch.inf, -torch.inf, 0.0
    optimizer.step()
    codes, state = unpacked(optimizer.state[weight], "exp_avg", 4096), optimizer.state[weight]
    assert codes[:3].tolist() == [7, 7, 15] and codes[300] == 7 and (codes[512:640] == 7).all()
    assert state["exp_avg_scale"][4] == np.float32(1e-12) and torch.equal(state["exp_avg_scale"][:3], state["exp_avg_scale"][5:8])


def test_a_view_with_holes_and_units_of_a_tensor():
    """A row of the table begins at its own byte: units are stepped as parameters of their own."""
    torch.manual_seed(5)
    whole = torch.nn.Parameter(torch.randn(3, 4224))
    parts = [torch.nn.Parameter(row.clone()) for row in whole.detach()]
    holes = torch.nn.Parameter(torch.randn(65, 2, 66)[:, 0])
    dense = torch.nn.Parameter(holes.detach().clone())
    one = altgrad.optim.AdamW4bit([whole], max_grad_norm="agc-unit:0.01")
    many = altgrad.optim.AdamW4bit(parts, max_grad_norm="agc:0.01")
    for optimizer, params in ((one, [whole]), (many, parts)):
        for step in range(2):
            grads = torch.randn(3, 4224, generator=torch.Generator().manual_seed(step))
            for param, grad in zip(params, [grads] if params == [whole] else grads):
                param.grad = grad.clone()
            optimizer.step()
    assert all(torch.equal(row, part) for row, part in zip(whole, parts))
    for key in ("exp_avg", "exp_avg_sq"):
        assert torch.equal(one.state[whole][key], torch.stack([many.state[part][key] for part in parts]))
    two = [altgrad.optim.AdamW4bit([param]) for param in (holes, dense)]
    for step in range(2):
        for param, optimizer in zip((holes, dense), two):
            param.grad = torch.randn(65, 66, generator=torch.Generator().manual_seed(step))
            optimizer.step()
    assert torch.equal(holes, dense) and torch.equal(two[0].state[holes]["exp_avg"], two[1].state[dense]["exp_avg"])


@pytest.mark.parametrize("shape, layout", [((64, 66), torch.contiguous_format), ((4097,), torch.contiguous_format),
                                           ((71, 71), torch.contiguous_format), ((32, 3, 7, 7), torch.channels_last),
                                           ((16, 8, 6, 6), torch.channels_last)])
def test_transcoded_to_wide_states_and_back_codes_stay(shape, layout):
    """A signed book ends at -0.8875, so a block whose largest is negative may shrink: its codes stay within a place."""
    weight, optimizer = made(shape, layout=layout)
    steps(weight, optimizer, range(2))
    given, line = optimizer.state_dict(), altgrad.optim.AdamW4bit._storage
    wide = altgrad.transcode(given, to="torch", params=[weight], storage=line, report=None)
    state = optimizer.state[weight]
    for key, book in BOOK.items():
        numbers = books.table(book)[unpacked(state, key, weight.numel())]
        scale = state[key + "_scale"].repeat_interleave(128)[:weight.numel()].numpy()
        assert wide["state"][0][key].shape == shape
        np.testing.assert_array_equal(flat(wide["state"][0][key]), numbers * scale)
    again = twins.opened(altgrad.transcode(wide, to=optimizer, report=None)["state"][0])
    assert torch.equal(again["exp_avg_sq"], state["exp_avg_sq"]) and again["exp_avg"].shape == state["exp_avg"].shape
    off = unpacked(again, "exp_avg", weight.numel()).astype(int) - unpacked(state, "exp_avg", weight.numel())
    assert abs(off).max() <= 1
    with pytest.raises(ValueError, match="from which its shape cannot be told: pass params="):
        altgrad.transcode(given, to="torch", storage=line)
    with pytest.raises(ValueError, match="does not fit a parameter of shape"):
        altgrad.transcode(given, to="torch", params=[torch.zeros(3, 11)], storage=line)


def test_files_of_torchao_are_read_and_written():
    optim = pytest.importorskip("torchao.optim")
    weight, optimizer = made((64, 128))
    steps(weight, optimizer, range(2))
    theirs = altgrad.transcode(optimizer.state_dict(), to="torchao.4bit", params=[weight],
                               storage=altgrad.optim.AdamW4bit._storage, report=None)
    state, got = optimizer.state[weight], theirs["state"][0]
    assert torch.equal(got["exp_avg_sq"].codes, state["exp_avg_sq"].flatten())
    assert torch.equal(got["exp_avg_sq"].scale, state["exp_avg_sq_scale"])
    other = torch.nn.Parameter(weight.detach().clone())
    peer = optim.AdamW4bit([other], lr=0.01)
    peer.load_state_dict(theirs)
    ours = twins.opened(altgrad.transcode(peer.state_dict(), to=optimizer, report=None)["state"][0])
    assert torch.equal(ours["exp_avg_sq"], state["exp_avg_sq"]) and ours["exp_avg"].dtype == torch.uint8
