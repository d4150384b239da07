"""Two parameters in one memory: refused exactly where an element is shared."""

import pytest
import torch

import altgrad


def step(*tensors):
    params = [torch.nn.Parameter(t) for t in tensors]
    for p in params:
        p.grad = torch.ones_like(p)
    altgrad.optim.SGD(params, lr=1.0).step()


@pytest.mark.parametrize("other", [
    lambda whole: whole.view(-1)[3:8], lambda whole: whole[1], lambda whole: whole[:, 1::2],
    lambda whole: whole.t()[1], lambda whole: whole.view(torch.bfloat16)[2, 1:3]])
def test_strided_parameters_that_share_an_element(other):
    whole = torch.ones(4, 4)
    for tensors in ((whole[:, 1], other(whole)), (other(whole), whole[:, 1])):
        with pytest.raises(RuntimeError, match="two parameters share memory"):
            step(*tensors)
    assert torch.equal(whole, torch.ones(4, 4))


def test_columns_of_one_matrix_are_apart():
    whole = torch.ones(4, 6)
    step(*(whole[:, i] for i in range(0, 6, 2)), whole[:2, 1], whole[2:, 1])
    assert torch.equal(whole[:, ::2], torch.zeros(4, 3)) and torch.equal(whole[:, 1], torch.zeros(4))
    assert torch.equal(whole[:, 3], torch.ones(4))


def test_many_columns_are_told_apart_in_time_that_grows_with_them():
    whole = torch.ones(8, 2000)
    step(*whole.t())
    assert torch.equal(whole, torch.zeros(8, 2000))
