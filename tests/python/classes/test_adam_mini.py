"""altgrad.optim.AdamMini by names and heads, beside the authors' step, written anew in float64."""

import copy

import pytest
import torch
import twins

import altgrad

DIM, HEADS, FEW = 16, 4, 2
SHAPES = {"tok_embeddings.weight": (20, DIM), "wq.weight": (DIM, DIM), "wk.weight": (DIM // 2, DIM), "wv.weight": (DIM // 2, DIM),
          "w1.weight": (24, DIM), "w1.bias": (24,), "norm.weight": (DIM,), "output.weight": (20, DIM)}
# Of how many stretches each has a moment, and whether it decays: by hand from the authors' names.
COUNTS = {"tok_embeddings.weight": 20 * DIM, "wq.weight": HEADS, "wk.weight": FEW, "wv.weight": 1, "w1.weight": 1, "w1.bias": 1,
          "norm.weight": 1, "output.weight": 20 * DIM}


def model():
    params, = twins.make(list(SHAPES.values()), count=1)
    return list(zip(SHAPES, params))


def made(named, **words):
    return altgrad.optim.AdamMini(named, lr=0.01, weight_decay=0.1, split="names", dim=DIM, n_heads=HEADS, n_kv_heads=FEW, **words)


@pytest.mark.parametrize("storage", ["", "exp_avg=bf16"])
def test_names_choose_as_the_authors(storage):
    named = model()
    optimizer = made(named, storage=storage)
    theirs = {name: param.detach().double() for name, param in named}
    m, v = {name: 0.0 for name in SHAPES}, {name: 0.0 for name in SHAPES}
    for step in range(1, 11):
        twins.give_grads([param for _, param in named])
        optimizer.step()
        for name, param in named:
            g = param.grad.double()
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g.reshape(COUNTS[name], -1).square().mean(1, keepdim=True)
            root = (v[name] / (1 - 0.999 ** step)).sqrt().expand(-1, g.numel() // COUNTS[name]).reshape(g.shape)
            kept = theirs[name] * (1 - 0.01 * (0.0 if "norm" in name else 0.1))
            theirs[name] = kept - 0.01 * m[name] / (1 - 0.9 ** step) / (root + 1e-8)
    for name, param in named:
        torch.testing.assert_close(param.double(), theirs[name], atol=2e-3 if storage else 2e-6, rtol=0)
    shapes = {name: optimizer.state[param]["vmean"].shape for name, param in named if "vmean" in optimizer.state[param]}
    assert shapes["wq.weight"] == (HEADS, 1) and shapes["wk.weight"] == (FEW, 1) and shapes["wv.weight"] == () and len(shapes) == 6
    assert {*optimizer.state[named[0][1]]} == {"step", "exp_avg", "exp_avg_sq"}


def test_files_and_groups_go_on():
    a, b = model(), model()
    torch._foreach_copy_([param.data for _, param in b], [param.data for _, param in a])
    one, other = made(a), made(b)
    twins.step([one], [[param for _, param in a]], 2)
    torch._foreach_copy_([param.data for _, param in b], [param.data for _, param in a])
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    twins.step([one, other], [[param for _, param in a], [param for _, param in b]], 2)
    assert all(torch.equal(p, q) for (_, p), (_, q) in zip(a, b))
    assert [group["split"] for group in one.param_groups] == ["elements", "heads", "tensor", "tensor"]


@pytest.mark.parametrize("make, words", [
    (lambda: altgrad.optim.AdamMini([param for _, param in model()], split="names"), "reads the names of parameters: give model.named"),
    (lambda: altgrad.optim.AdamMini([param for _, param in model()], split="columns"), "split is 'columns', none of 'rows', 'heads'"),
    (lambda: altgrad.optim.AdamMini([dict(params=[torch.nn.Parameter(torch.ones(6, 5))], split="heads")], dim=4, n_heads=2),
     "parameter 0 of shape .6, 5. has no heads of dim . dim / n_heads = 8 elements"),
    (lambda: altgrad.optim.AdamMini(model(), split="names", dim=16, n_heads=3), "dim=16, n_heads=3 and n_kv_heads=None are not whole"),
    (lambda: altgrad.optim.AdamMini(model(), split="names", dim=16, n_heads=4, n_kv_heads=3), "n_kv_heads=3 are not whole")])
def test_what_is_none(make, words):
    with pytest.raises(ValueError, match=words):
        make()
