"""Classes beside independent references in float64, over 40 steps on odd shapes."""

import inspect

import pytest
import torch

import altgrad
import published

SHAPES = (5, 7), (40, 33), (9,), (3, 4, 5), ()


def made(name, words, shapes=SHAPES):
    """(parameters, their optimizer)."""
    draws = torch.Generator().manual_seed(0)
    params = [torch.nn.Parameter(0.3 * torch.randn(shape, generator=draws)) for shape in shapes]
    return params, getattr(altgrad.optim, name)(params, **words)


def step(optimizer, params, draws, count):
    """One step with new gradients, and what else its class wants; returns the inputs."""
    for param in params:
        param.grad = torch.randn(param.shape, generator=draws)
    inputs = [torch.randn(param.shape, generator=draws) for param in params] if optimizer._inputs == ("hess",) else None
    if hasattr(optimizer, "update_hessian") and count % 10 == 0:
        optimizer.update_hessian()
    optimizer.step(inputs=inputs and {"hess": inputs})
    return inputs


@pytest.mark.parametrize("name, words", published.CASES, ids=str)
def test_it_is_the_published_one(name, words):
    params, optimizer = made(name, words)
    first = [param.detach().double() for param in params]
    defaults = {key: one.default for key, one in inspect.signature(type(optimizer)).parameters.items()}
    theirs = published.make(name, [param.clone() for param in first], defaults, words)
    draws = torch.Generator().manual_seed(1)
    for count in range(40):
        inputs = step(optimizer, params, draws, count)
        theirs.step([param.grad.double() for param in params], inputs and [one.double() for one in inputs])
    for param, begun, other in zip(params, first, theirs.params):
        moved, apart = (other - begun).abs().max(), (param.detach().double() - other).abs().max()
        assert moved > 0 and apart <= 1e-5 * moved + 3e-6 * other.abs().max()  # what 40 roundings may do


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in published.CASES))
def test_it_goes_on_from_a_file_with_the_same_bits(name):
    whole, one = made(name, {})
    half, two = made(name, {})
    for count in range(6):
        if count == 3:
            saved = two.state_dict()
            two = type(two)(half)
            two.load_state_dict(saved)
        for optimizer, params in ((one, whole), (two, half)):
            step(optimizer, params, torch.Generator().manual_seed(count), count)
    assert all(map(torch.equal, whole, half))
