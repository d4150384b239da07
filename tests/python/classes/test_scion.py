"""altgrad.optim.Scion beside the authors' step, written anew in float64 with products of bfloat16's."""

import math

import pytest
import torch
import twins

import altgrad

SHAPES = (33, 17), (8, 8), (5, 40), (7,), (3, 4, 5)


def iteration(g):
    """The authors' zeropower_via_newtonschulz5; in float64, so that ours is within its bfloat16."""
    x = g / (g.norm() + 1e-7)
    x = x.T if g.shape[0] > g.shape[1] else x
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def towards(norm, g):
    if norm == "Sign":
        return g.sign() / g.shape[1]
    if norm == "Spectral" or norm == "Auto" and g.dim() == 2:
        return math.sqrt(g.shape[0] / g.shape[1]) * iteration(g)
    return g / (g.square().mean().sqrt() + 1e-8)


@pytest.mark.parametrize("words", [{}, dict(momentum=0.1, scale=2.0, lr=0.01), dict(unconstrained=True, momentum=0.5, maximize=True),
                                   dict(norm="Sign", momentum=0.1), dict(norm="BiasRMS", lr=0.01), dict(norm="Spectral")], ids=str)
def test_it_is_the_authors(words):
    norm = words.get("norm", "Auto")
    shapes = [shape for shape in SHAPES if len(shape) == 2 or norm in ("Auto", "BiasRMS")]
    params, = twins.make(shapes, count=1)
    if norm == "Spectral":
        params[0].data = params[0].data.t().contiguous().t()  # in the other order
    theirs, bufs = [param.detach().double() for param in params], [0.0] * len(params)
    first, optimizer = [param.clone() for param in theirs], altgrad.optim.Scion(params, **words)
    lr, momentum, scale = words.get("lr", 1e-3), words.get("momentum", 1.0), words.get("scale", 1.0)
    for _ in range(40):
        twins.give_grads(params)
        optimizer.step()
        for place, param in enumerate(params):
            g = param.grad.double() * (-1 if words.get("maximize") else 1)
            bufs[place] = (1 - momentum) * bufs[place] + momentum * g
            shrunk = theirs[place] * (1 if words.get("unconstrained") else 1 - lr)
            theirs[place] = shrunk - lr * scale * towards(norm, bufs[place])
    for param, begun, other in zip(params, first, theirs):
        exact = norm in ("Sign", "BiasRMS") or param.dim() != 2
        assert (param.double() - other).norm() <= (1e-4 if exact else 0.03) * (other - begun).norm()
    assert all(({"momentum_buffer"} if momentum != 1 else set()) == {*optimizer.state[param]} for param in params)


def test_norms_of_groups_and_what_has_none():
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.Scion([dict(params=params[:2]), dict(params=[params[2]], norm="Sign", scale=30.0), dict(params=params[3:])])
    twins.step([optimizer], [params], 2)
    assert len(optimizer._built.tables) == 1
    with pytest.raises(ValueError, match="group 0, parameter 3 of shape .7,. is no matrix: give it a group with norm='BiasRMS'"):
        altgrad.optim.Scion(params, norm="Sign")
    with pytest.raises(ValueError, match="norm is 'Nuclear', none of 'Auto', 'Spectral', 'Sign', 'BiasRMS'"):
        altgrad.optim.Scion(params, norm="Nuclear")
