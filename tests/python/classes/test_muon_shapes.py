"""Parts of a parameter, filters and stacks beside torch.optim.Muon on as many matrices."""

import altgrad
from altgrad.optim import NewtonSchulz
import pytest
import torch

LR = 0.02

# name: (shape, what its group says, the matrices in a tensor of that shape)
CASES = {
    "heads": ((48, 40), {"split": 8}, lambda x: x.split(8)),
    "queries, keys and values": ((48, 40), {"split": 16}, lambda x: x.chunk(3)),
    "gates of experts": ((3, 16, 20), {"split": 8}, lambda x: x.view(6, 8, 20)),
    "filters": ((12, 5, 3, 3), {}, lambda x: [x.flatten(1)]),
    "filters in space": ((12, 5, 2, 2, 2), {}, lambda x: [x.flatten(1)]),
    "filters of signals": ((12, 5, 3), {"flatten": True}, lambda x: [x.flatten(1)]),
    "filters in groups": ((12, 5, 3, 3), {"split": 6}, lambda x: x.flatten(1).split(6)),
    "a stack of stacks": ((2, 3, 8, 10), {"flatten": False}, lambda x: x.flatten(0, 1)),
}


def drawn(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def stepped(optimizer, params, grads):
    for param, grad in zip(params, grads):
        param.grad = grad.clone()
    optimizer.step()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("name", CASES)
def test_parts_are_matrices_of_their_own(name, dtype):
    """Ours on the parts has the same bits in bfloat16, and torch's is near. A matrix and a vector are beside it."""
    shape, says, parts = CASES[name]
    one = torch.nn.Parameter(drawn(shape, 0))
    apart, theirs = ([torch.nn.Parameter(part.clone()) for part in parts(drawn(shape, 0))] for _ in range(2))
    rest, other = (([torch.nn.Parameter(drawn((9, 7), 1))], [torch.nn.Parameter(drawn((5,), 2))]) for _ in range(2))
    groups = [[{"params": some, **of}, {"params": more[0]}, {"params": more[1], "use_muon": False}]
              for some, of, more in (([one], says, rest), (apart, {}, other))]
    ours, beside = (altgrad.optim.Muon(of, lr=LR, orthogonalize=NewtonSchulz(dtype=dtype)) for of in groups)
    torchs = torch.optim.Muon(theirs, lr=LR)
    for step in range(3):
        grad, more = drawn(shape, 10 + step), [drawn((9, 7), 20 + step), drawn((5,), 30 + step)]
        stepped(ours, [one, *rest[0], *rest[1]], [grad, *more])
        stepped(beside, [*apart, *other[0], *other[1]], [*parts(grad), *more])
        stepped(torchs, theirs, parts(grad))
        for mine, its, torch_s in zip(parts(one), apart, theirs):
            scale = max(1.0, its.shape[0] / its.shape[1]) ** 0.5
            torch.testing.assert_close(mine, its.data, rtol=0, atol=0 if dtype == torch.bfloat16 else 5e-7)
            assert dtype == torch.float32 or (mine - torch_s).abs().max() <= (step + 1) * LR * scale * 2.0 ** -6
    assert torch.equal(rest[0][0], other[0][0]) and torch.equal(rest[1][0], other[1][0])
    assert ours.state[one]["momentum_buffer"].shape == shape


def test_filters_in_the_order_of_channels_last():
    """Columns that change places change places in the result."""
    params = [torch.nn.Parameter(drawn((12, 5, 3, 3), 0).to(memory_format=order))
              for order in (torch.contiguous_format, torch.channels_last)]
    for param in params:
        stepped(altgrad.optim.Muon([param], lr=LR, orthogonalize=NewtonSchulz(dtype=torch.float32)), [param], [drawn((12, 5, 3, 3), 1)])
    torch.testing.assert_close(params[0], params[1], rtol=0, atol=1e-5)


def test_another_split_takes_effect_in_the_next_step():
    one, other = (torch.nn.Parameter(drawn((24, 16), 0)) for _ in range(2))
    ours, beside = altgrad.optim.Muon([one], lr=LR), altgrad.optim.Muon([other], lr=LR, split=8)
    beside.load_state_dict(ours.state_dict())
    for step, split in enumerate((12, 8)):
        ours.param_groups[0]["split"] = beside.param_groups[0]["split"] = split
        stepped(ours, [one], [drawn((24, 16), 1 + step)])
        beside._built = None
        stepped(beside, [other], [drawn((24, 16), 1 + step)])
    assert torch.equal(one, other)


@pytest.mark.parametrize("shape, says, words", [
    ((24, 16), {"split": 7}, "parameter 0 has 24 rows, and split=7 is no whole number that divides them"),
    ((24, 16), {"split": 0}, "split=0 is no whole number"),
    ((24, 16), {"split": 8.0}, "split=8.0 is no whole number"),
    ((24,), {"split": 8}, "use_muon=False, which takes AdamW"),
], ids=["a remainder", "zero", "a float", "a vector"])
def test_what_is_refused(shape, says, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.Muon([{"params": [torch.nn.Parameter(torch.zeros(shape))], **says}])
