"""Classes beside independent references in float64, over 40 steps on odd shapes."""

import pytest
import torch

import altgrad
import published

SHAPES = (5, 7), (40, 33), (9,), (3, 4, 5), ()


def made(cls, words, shapes=SHAPES):
    """(parameters, their optimizer)."""
    draws = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(0.3 * torch.randn(shape, generator=draws)) for shape in shapes]
    return params, cls(params, **words)


@pytest.mark.parametrize("name, words", published.CASES, ids=str)
def test_it_is_the_published_one(name, words):
    params, optimizer = made(getattr(altgrad.optim, name), words)
    first = [param.detach().double() for param in params]
    theirs = published.make(name, [param.clone() for param in first], **words)
    draws = torch.Generator().manual_seed(1)
    for _ in range(40):
        for param in params:
            param.grad = torch.randn(param.shape, generator=draws)
        optimizer.step()
        theirs.step([param.grad.double() for param in params])
    for param, begun, other in zip(params, first, theirs.params):
        moved, apart = (other - begun).abs().max(), (param.detach().double() - other).abs().max()
        assert moved > 0 and apart <= 1e-5 * moved + 3e-6 * other.abs().max()  # what 40 roundings may do


@pytest.mark.parametrize("name, words", published.CASES, ids=str)
def test_it_goes_on_from_a_file_with_the_same_bits(name, words):
    whole, one = made(getattr(altgrad.optim, name), words)
    half, two = made(getattr(altgrad.optim, name), words)
    draws = torch.Generator().manual_seed(1)
    for step in range(6):
        if step == 3:
            saved = two.state_dict()
            two = type(two)(half, **words)
            two.load_state_dict(saved)
        for param, other in zip(whole, half):
            param.grad = torch.randn(param.shape, generator=draws)
            other.grad = param.grad.clone()
        one.step(), two.step()
    assert all(map(torch.equal, whole, half))
