"""Matrices that are tensors of their own to the step: parts of several sizes, and stacks whose rows count."""

import contextlib
import os

import altgrad
from altgrad.optim import NewtonSchulz
import numpy as np
import pytest
import torch
from twins import through_a_file

KINDS = altgrad.optim.Muon, altgrad.optim.NorMuon
GROUPED = 48, 16, 8  # rows of queries, keys and values


def drawn(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def give(params, grads):
    for param, grad in zip(params, grads):
        param.grad = grad.clone()


# name: (shape, what its group says, the matrices in a tensor of that shape)
CASES = {
    "sizes": ((72, 40), {"split": GROUPED}, lambda x: x.split(GROUPED)),
    "sizes in a list": ((72, 40), {"split": [48, 24]}, lambda x: x.split([48, 24])),
    "sizes of experts": ((3, 24, 10), {"split": (16, 8)}, lambda x: [of for one in x for of in one.split([16, 8])]),
    "equal sizes": ((24, 40), {"split": (8, 8, 8)}, lambda x: x.split(8)),
    "a stack": ((3, 16, 20), {}, lambda x: x.unbind()),
    "a stack with equal rows": ((3, 16, 20), {"equilibrate": "rows"}, lambda x: x.unbind()),
    "heads with equal rows": ((24, 40), {"equilibrate": "rows", "split": 8}, lambda x: x.split(8)),
    "filters in groups": ((12, 5, 3, 3), {"split": 6, "equilibrate": "rows"}, lambda x: x.flatten(1).split(6)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", CASES)
def test_the_bits_of_parameters_of_their_own(name, kind):
    """A matrix and a bias are beside it; states are those of the parts in the shape of the parameter."""
    shape, says, parts = CASES[name]
    dtype = torch.float32 if "a stack" in name else torch.bfloat16
    own = {key: value for key, value in says.items() if key != "split"}
    one, rest, bias = (torch.nn.Parameter(drawn(of, 7)) for of in (shape, (9, 7), (5,)))
    apart = [torch.nn.Parameter(part.clone()) for part in parts(one.detach())]
    beside = [torch.nn.Parameter(of.detach().clone()) for of in (rest, bias)]
    given = {"lr": 0.02, "orthogonalize": NewtonSchulz(dtype=dtype), "reproducible": True, "weight_decay": 0.1}
    ours, theirs = (kind([{"params": some, **of}, {"params": more[:1]}, {"params": more[1:], "use_muon": False}],
                         **given) for some, of, more in (([one], says, [rest, bias]), (apart, own, beside)))
    for step in range(3):
        grad = drawn(shape, 10 + step)
        give([one, rest, bias], [grad, drawn((9, 7), 20 + step), drawn((5,), step)])
        give([*apart, *beside], [*parts(grad), rest.grad, bias.grad])
        ours.step(), theirs.step()
        assert all(torch.equal(mine, its) for mine, its in zip(parts(one), apart))
    assert torch.equal(rest, beside[0]) and torch.equal(bias, beside[1])
    held = ours.state[one]
    for mine, its in zip(parts(held["momentum_buffer"]), apart):
        assert torch.equal(mine, theirs.state[its]["momentum_buffer"])
    if kind is altgrad.optim.NorMuon:
        wanted = torch.cat([theirs.state[its]["second_momentum_buffer"] for its in apart])
        assert torch.equal(held["second_momentum_buffer"].flatten(), wanted.flatten())


def test_parts_of_several_sizes_in_float64():
    """NumPy's singular values: each part becomes its polar factor, whatever the size of its gradient's entries."""
    grad = drawn((72, 40), 1) * torch.tensor([1e3] * 48 + [1e-3] * 16 + [1.0] * 8)[:, None]
    param = torch.nn.Parameter(torch.zeros(72, 40))
    param.grad = grad
    exact = NewtonSchulz(dtype=torch.float32, coefficients="deepseek_v4", steps=10)
    altgrad.optim.Muon([param], lr=1.0, orthogonalize=exact, nesterov=False, split=GROUPED).step()
    for mine, part in zip((-param.detach()).split(GROUPED), grad.split(GROUPED)):
        u, _, v = np.linalg.svd(part.double().numpy(), full_matrices=False)
        np.testing.assert_allclose(mine.numpy(), u @ v * max(1, part.shape[0] / part.shape[1]) ** 0.5, atol=4e-3)


@pytest.mark.parametrize("shape, split, words", [
    ((24, 16), (16, 7), r"parameter 0 has 24 rows, and split=\(16, 7\) has to .* that add up to 24"),
    ((24, 16), (24, 0), r"split=\(24, 0\) has to name parts of 1 row"),
    ((24, 16), (30, -6), r"split=\(30, -6\) has to name parts of 1 row"),
    ((24, 16), (12.0, 12.0), r"split=\(12.0, 12.0\) has to .* in whole numbers"),
    ((24, 16), (), r"split=\(\) has to name parts"),
    ((24, 16), "qkv", "split='qkv' is no whole number that divides them"),
    ((24, 5, 3, 3), (16, 8), r"has the shape \(24, 5, 3, 3\), filters .* say how many rows one has"),
    ((24,), (16, 8), "use_muon=False, which takes AdamW"),
])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_refused(kind, shape, split, words):
    with pytest.raises(ValueError, match=words):
        kind([torch.nn.Parameter(torch.zeros(shape))], split=split)


def test_a_checkpoint_has_the_sizes_and_goes_on():
    params, others = ([torch.nn.Parameter(drawn((72, 40), 0))] for _ in range(2))
    one, other = altgrad.optim.NorMuon(params, split=GROUPED), altgrad.optim.NorMuon(others)
    give(params, [drawn((72, 40), 1)])
    one.step()
    other.load_state_dict(through_a_file(one.state_dict()))
    others[0].data.copy_(params[0])
    assert other.param_groups[0]["split"] == GROUPED
    for optimizer, own in ((one, params), (other, others)):
        give(own, [drawn((72, 40), 2)])
        optimizer.step()
    assert torch.equal(params[0], others[0])


@pytest.mark.parametrize("kind", KINDS)
def test_statistics_and_norms_are_those_of_the_parameter(kind):
    one, rest = torch.nn.Parameter(drawn((72, 40), 0)), torch.nn.Parameter(drawn((9, 7), 1))
    optimizer = kind([{"params": [one], "split": GROUPED}, {"params": [rest]}], statistics=True, max_grad_norm=1e9)
    give([one, rest], [drawn((72, 40), 2), drawn((9, 7), 3)])
    one.grad[50, 3] = 0.0
    before = one.detach().clone()
    optimizer.step()
    said = optimizer.statistics()
    norms = torch.stack([one.grad.double().norm(), rest.grad.double().norm()])
    torch.testing.assert_close(said.grad_norm.double(), norms, rtol=1e-6, atol=0)
    torch.testing.assert_close(said.update_norm[0], (one.detach() - before).norm(), rtol=1e-4, atol=0)
    torch.testing.assert_close(optimizer.grad_norm.double(), norms.norm(), rtol=1e-6, atol=0)
    one.grad[60, 1] = one.grad[0, 0] = float("inf")
    optimizer.step()
    assert optimizer.statistics().nonfinite.tolist() == [2.0, 0.0]


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="GPUs sum in the step")
@pytest.mark.filterwarnings("ignore:.*the update of a matrix")
@pytest.mark.parametrize("kind, shape, split, summed", [
    ("NorMuon", (64, 600), None, False), ("Muon", (3, 40, 310), None, False), ("Muon", (40, 300), (24, 16), True),
], ids=["rows", "a stack", "parts"])
def test_norms_in_backward_are_those_of_the_step(kind, shape, split, summed, monkeypatch):
    """Rows and matrices that are swept by themselves are summed in the step, which says so; parts are summed early."""
    monkeypatch.setattr(altgrad._binding.early_norm, "hook_bytes", lambda: 0)
    said = []
    for early in (False, True):
        param = torch.nn.Parameter(torch.ones(shape))
        optimizer = getattr(altgrad.optim, kind)([param], max_grad_norm=1.0, norm_in_backward=early,
                                                 reproducible=True, split=split)
        with pytest.warns(UserWarning, match="by themselves") if early and not summed else contextlib.nullcontext():
            for step in range(3):
                optimizer.zero_grad()
                (param * drawn(shape, step)).sum().backward()
                optimizer.step()
                torch.testing.assert_close(optimizer.grad_norm, param.grad.norm(), rtol=1e-6, atol=0)
        said.append(param.detach())
        assert optimizer._built.tables[0].summed_rows()[0] == (2 if early and summed else 0)
    assert torch.equal(*said)


@pytest.mark.parametrize("kind", KINDS)
def test_parts_with_all_that_there_is(kind):
    """8 bits, a clip, equal rows, a cautious decay, AdamW and a file: the bits of parameters of their own."""
    sizes, given = (128, 48, 80), {"storage": "states=bnb8:256", "cautious": True, "orthogonalize": NewtonSchulz(equilibrate="rows"),
                                   "max_grad_norm": 1.0, "reproducible": True, "lr": 0.02}
    one, bias = torch.nn.Parameter(drawn((256, 256), 0)), torch.nn.Parameter(drawn((5000,), 1))
    apart = [torch.nn.Parameter(part.clone()) for part in one.detach().split(sizes)]
    other = torch.nn.Parameter(bias.detach().clone())
    groups = [{"params": [one], "split": sizes}, {"params": [bias], "use_muon": False}]
    ours, theirs = kind(groups, **given), kind([{"params": apart}, {"params": [other], "use_muon": False}], **given)
    for step in range(4):
        give([one, bias], [drawn((256, 256), 10 + step), drawn((5000,), 20 + step)])
        give([*apart, other], [*one.grad.split(sizes), bias.grad])
        ours.step(), theirs.step()
        if step == 1:
            held = through_a_file(ours.state_dict())
            ours = kind([{"params": [one], "split": sizes}, {"params": [bias], "use_muon": False}], **given)
            ours.load_state_dict(held)
    assert torch.equal(one, torch.cat(apart)) and torch.equal(bias, other)
    assert ours.state[one]["momentum_buffer"].dtype == torch.uint8
