"""altgrad.optim.Scion beside the authors' step, written anew in float64 with products of bfloat16's."""

import math

import pytest
import torch
import twins

import altgrad
import published

SHAPES = (33, 17), (8, 8), (5, 40), (7,), (3, 4, 5), (6, 2, 3, 3), (6, 5, 2, 2)


def towards(norm, g, max=False, normalized=None, transpose=False, steps=5):
    if norm == "Auto":
        norm = {2: "Spectral", 3: "SpectralConv", 4: "SpectralConv"}.get(g.dim(), "BiasRMS")
    if norm == "Sign":
        return g.sign() / (1 if normalized is False else g.shape[1])
    if norm == "Spectral":
        scale = math.sqrt(g.shape[0] / (1 if normalized is False else g.shape[1]))
        return (1.0 if max and scale < 1.0 else scale) * published.newton_schulz(g, steps)
    if norm == "SpectralConv":
        scale = math.sqrt(g.shape[0] / g.shape[1]) / g.shape[2] ** (g.dim() - 2)
        return scale * published.newton_schulz(g.reshape(len(g), -1), steps).reshape(g.shape)
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


@pytest.mark.parametrize("norm, told, shape, length", [
    ("Auto", {}, (33, 17), lambda w: torch.linalg.svdvals(w) / math.sqrt(33 / 17)),
    ("Spectral", dict(max=True), (8, 40), lambda w: torch.linalg.svdvals(w)),
    ("Spectral", dict(normalized=False), (8, 40), lambda w: torch.linalg.svdvals(w) / math.sqrt(8)),
    ("Auto", {}, (6, 2, 3, 3), lambda w: torch.linalg.svdvals(w.permute(2, 3, 0, 1)) / math.sqrt(6 / 2) * 9),
    ("Auto", {}, (6, 5, 2), lambda w: torch.linalg.svdvals(w.permute(2, 0, 1)) / math.sqrt(6 / 5) * 2),
    ("Sign", {}, (5, 7), lambda w: 7 * w.abs()), ("Sign", dict(normalized=False), (5, 7), lambda w: w.abs()),
    ("ColNorm", {}, (5, 7), lambda w: w.norm(dim=0) / math.sqrt(5)), ("RowNorm", {}, (5, 7), lambda w: w.norm(dim=1) * math.sqrt(7)),
    ("ColNorm", dict(normalized=True, transpose=True), (5, 7), lambda w: w.norm(dim=1) / math.sqrt(7) * 5),
    ("RowNorm", dict(normalized=False, transpose=True), (5, 7), lambda w: w.norm(dim=0))], ids=str)
def test_init_draws_parameters_of_the_length_of_a_step(norm, told, shape, length):
    param, other = torch.nn.Parameter(torch.empty(shape)), torch.nn.Parameter(torch.ones(3))
    optimizer = altgrad.optim.Scion([dict(params=[param], norm=norm, norm_kwargs=told, scale=3.0), dict(params=[other])])
    torch.manual_seed(0)
    optimizer.init()
    ones = length(param.detach() / 3)
    torch.testing.assert_close(ones, torch.ones_like(ones), rtol=1e-5, atol=1e-5)
    assert len(set(param.detach().sign().flatten().tolist())) == 2 and not other.any()


def test_init_draws_nothing_after_a_step():
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.Scion([dict(params=params[:1], norm="Sign", norm_kwargs=dict(zero_init=True)), dict(params=params[1:])], momentum=0.1)
    optimizer.init()
    assert not params[0].any()
    twins.step([optimizer], [params])
    before = [param.clone() for param in params]
    with pytest.raises(RuntimeError, match="init.. draws new parameters, and parameter 0 of group 0 has made a step: call it before"):
        optimizer.init()
    assert all(map(torch.equal, params, before))
