"""Two parameters in one memory: refused, or left to torch, exactly where an element is shared."""

import ctypes
import random

import pytest
import torch

import altgrad
from altgrad import _core


OTHERS = [lambda whole: whole.view(-1)[3:8], lambda whole: whole[1], lambda whole: whole[:, 1::2],
          lambda whole: whole.t()[1], lambda whole: whole.view(torch.bfloat16)[2, 1:3]]


def step(*tensors, make=altgrad.optim.SGD, **kwargs):
    params = [torch.nn.Parameter(t) for t in tensors]
    for p in params:
        p.grad = torch.ones_like(p)
    make(params, lr=1.0, **kwargs).step()


@pytest.mark.parametrize("other", OTHERS)
def test_strided_parameters_that_share_an_element(other):
    whole = torch.ones(4, 4)
    for tensors in ((whole[:, 1], other(whole)), (other(whole), whole[:, 1])):
        with pytest.raises(RuntimeError, match="two parameters share memory"):
            step(*tensors, fallback=False)
    assert torch.equal(whole, torch.ones(4, 4))


@pytest.mark.parametrize("grad", [torch.ones(3).double(), torch.ones(3).to_sparse()])
def test_a_parameter_whose_gradient_is_refused_is_named(grad):
    params = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    params[0].grad = torch.ones(3)
    params[1].grad_dtype = None
    params[1].grad = grad
    with pytest.raises((TypeError, RuntimeError), match="gradients.*parameter 1 of group 0"):
        altgrad.optim.AdamW(params, fallback=False).step()
    assert torch.equal(params[0], torch.ones(3))


def test_parameters_that_share_memory_are_named():
    whole = torch.ones(8)
    with pytest.raises(RuntimeError, match="two parameters share memory, among them parameter 1 of group 0 and "
                       "parameter 2 of group 0: give one of them"):
        step(torch.ones(3), whole[:5], whole[4:], fallback=False)


@pytest.mark.parametrize("other", OTHERS)
def test_torch_steps_them_one_after_the_other(other):
    ours, theirs = torch.ones(2, 4, 4)
    with pytest.warns(UserWarning, match="parameter 0 of group 0 shares memory"):
        step(ours[:, 1], other(ours))
    step(theirs[:, 1], other(theirs), make=torch.optim.SGD)
    assert torch.equal(ours, theirs)


def test_columns_of_one_matrix_are_apart():
    whole = torch.ones(4, 6)
    step(*(whole[:, i] for i in range(0, 6, 2)), whole[:2, 1], whole[2:, 1],
         fallback=False)
    assert torch.equal(whole[:, ::2], torch.zeros(4, 3)) and torch.equal(whole[:, 1], torch.zeros(4))
    assert torch.equal(whole[:, 3], torch.ones(4))


def test_many_columns_are_told_apart_in_time_that_grows_with_them():
    whole = torch.ones(8, 2000)
    step(*whole.t(), fallback=False)
    assert torch.equal(whole, torch.zeros(8, 2000))


def test_what_shares_memory_is_what_has_an_address_in_common():
    """Views of two buffers at random; those from a place on are only read, and may share memory with each other."""
    draw, found = random.Random(5), set()
    buffers = torch.zeros(40), torch.zeros(80, dtype=torch.bfloat16)
    for _ in range(400):
        views = []
        for _ in range(draw.randint(1, 5)):
            of = draw.choice(buffers)
            sizes, strides = [draw.randint(0, 3), draw.randint(1, 3)], [draw.choice((0, 1, 3, 4, 9)), draw.choice((1, 2, 6))]
            views.append(of.as_strided(sizes, strides, draw.randint(0, len(of) - 32)))
        places = [{view.data_ptr() + view.itemsize * (i * view.stride(0) + j * view.stride(1)) + byte
                   for i in range(view.shape[0]) for j in range(view.shape[1]) for byte in range(view.itemsize)} for view in views]
        written = draw.randint(0, len(views))
        meet = lambda i, j: i != j and min(i, j) < written and places[i] & places[j]
        expected = [any([meet(i, j) for j in range(len(views))]) for i in range(len(views))]
        shared, pair = ctypes.create_string_buffer(len(views)), (ctypes.c_int64 * 2)()
        handles = (ctypes.c_uint64 * len(views))(*map(_core.handle_of, views))
        _core.core().altgrad_core_overlap(handles, len(views), written, shared, pair)
        assert any(shared.raw) == any(expected), (views, written)
        if written == len(views):
            assert list(map(bool, shared.raw)) == expected, (views, written)
        if any(expected):
            assert meet(*pair) and pair[0] < pair[1]
        found.add(any(expected))
    assert found == {True, False}
