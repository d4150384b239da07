"""altgrad.optim.Scion beside the authors' step, written anew in float64 with products of bfloat16's."""

import math

import pytest
import torch
import twins

import altgrad

SHAPES = (33, 17), (8, 8), (5, 40), (7,), (3, 4, 5), (6, 2, 3, 3), (6, 5, 2, 2)


def iteration(g, steps=5):
    """The authors' zeropower_via_newtonschulz5; in float64, so that ours is within its bfloat16."""
    x = g / (g.norm() + 1e-7)
    x = x.T if g.shape[0] > g.shape[1] else x
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def towards(norm, g, max=False, normalized=None, transpose=False, steps=5):
    if norm == "Auto":
        norm = {2: "Spectral", 3: "SpectralConv", 4: "SpectralConv"}.get(g.dim(), "BiasRMS")
    if norm == "Sign":
        return g.sign() / (1 if normalized is False else g.shape[1])
    if norm == "Spectral":
        scale = math.sqrt(g.shape[0] / (1 if normalized is False else g.shape[1]))
        return (1.0 if max and scale < 1.0 else scale) * iteration(g, steps)
    if norm == "SpectralConv":
        scale = math.sqrt(g.shape[0] / g.shape[1]) / g.shape[2] ** (g.dim() - 2)
        return scale * iteration(g.reshape(len(g), -1), steps).reshape(g.shape)
    if transpose:
        return towards(norm, g.T, normalized=normalized).T
    if norm == "RowNorm":
        length = g.square().sum(-1, keepdim=True).sqrt() * (1 if normalized is False else math.sqrt(g.shape[-1]))
        return g / (length + 1e-8)
    return g / (g.square().mean(0, keepdim=True).sqrt() * (g.shape[1] if normalized else 1) + 1e-8)


@pytest.mark.parametrize("words", [
    {}, dict(momentum=0.1, scale=2.0, lr=0.01), dict(unconstrained=True, momentum=0.5, maximize=True), dict(norm="Sign", momentum=0.1),
    dict(norm="BiasRMS", lr=0.01), dict(norm="Spectral"), dict(norm="Spectral", norm_kwargs=dict(max=True)),
    dict(norm="Spectral", norm_kwargs=dict(normalized=False, steps=3)), dict(norm="SpectralConv", momentum=0.1, norm_kwargs=dict(steps=4)),
    dict(norm="Sign", norm_kwargs=dict(normalized=False)), dict(norm="ColNorm"), dict(norm="ColNorm", momentum=0.1,
    norm_kwargs=dict(normalized=True)), dict(norm="ColNorm", norm_kwargs=dict(transpose=True)), dict(norm="RowNorm"), dict(norm="ColNorm",
    norm_kwargs=dict(transpose=True, normalized=True)), dict(norm="RowNorm", norm_kwargs=dict(normalized=False), maximize=True),
    dict(norm="RowNorm", norm_kwargs=dict(transpose=True))], ids=str)
def test_it_is_the_authors(words):
    norm = words.get("norm", "Auto")
    dims = {"Auto": (1, 2, 3, 4), "BiasRMS": (1, 2, 3, 4), "SpectralConv": (3, 4)}.get(norm, (2,))
    shapes = [shape for shape in SHAPES if len(shape) in dims]
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
            theirs[place] = shrunk - lr * scale * towards(norm, bufs[place], **words.get("norm_kwargs", {}))
    for param, begun, other in zip(params, first, theirs):
        exact = norm in ("Sign", "BiasRMS", "ColNorm", "RowNorm") or param.dim() == 1
        assert (param.double() - other).norm() <= (1e-4 if exact else 0.03) * (other - begun).norm()
    assert all(({"momentum_buffer"} if momentum != 1 else set()) == {*optimizer.state[param]} for param in params)


def test_norms_of_groups_and_what_has_none():
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.Scion([dict(params=params[:2]), dict(params=[params[2]], norm="Sign", scale=30.0), dict(params=params[3:])])
    twins.step([optimizer], [params], 2)
    assert len(optimizer._built.tables) == 1
    with pytest.raises(ValueError, match="group 0, parameter 3 of shape .7,. is no matrix: give it a group with norm='BiasRMS'"):
        altgrad.optim.Scion(params, norm="Sign")
    with pytest.raises(ValueError, match="norm is 'Nuclear', none of 'Auto', 'Spectral', 'SpectralConv', 'Sign', 'BiasRMS'"):
        altgrad.optim.Scion(params, norm="Nuclear")
    with pytest.raises(ValueError, match="norm_kwargs has step=5, and Spectral takes max=False, normalized=True, steps=5"):
        altgrad.optim.Scion(params[:1], norm="Spectral", norm_kwargs=dict(step=5))
    with pytest.raises(ValueError, match="norm_kwargs has normalized=1, and Sign takes"):
        altgrad.optim.Scion(params[:1], norm="Sign", norm_kwargs=dict(normalized=1))
