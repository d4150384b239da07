"""A step is the same whether or not its table keeps rows of parameters that have no gradient now."""

import pytest
import torch
import twins

import altgrad

DRAWS = dict(storage="param=bf16,stochastic", seed=1)


def models():
    """Two times bfloat16 weights and float32 norms."""
    weights, norms = twins.make([(16, 16), (5, 3)], dtype=torch.bfloat16), twins.make([(16,), (3,)])
    return [[*w, *n] for w, n in zip(weights, norms)]


def give(lists, present):
    for equals in zip(*lists, strict=True):
        grad = torch.randn(equals[0].shape)
        for param in equals:
            param.grad = grad.to(param.dtype) if present(param) else None


def live(optimizers, lists, turns):
    """Steps with gradients of some parameters each; the second optimizer goes through a file before every one."""
    for present in turns:
        give(lists, present)
        other = type(optimizers[1])(lists[1], **optimizers[1].given)
        other.load_state_dict(twins.through_a_file(optimizers[1].state_dict()))
        other.given = optimizers[1].given
        optimizers[1] = other
        for optimizer in optimizers:
            optimizer.step()
    for p, q in zip(*lists):
        assert torch.equal(p, q)


TURNS = {
    "all": lambda p: True, "norms": lambda p: p.dtype is torch.float32, "weights": lambda p: p.dtype is torch.bfloat16,
    "vectors": lambda p: p.dim() == 1, "one": lambda p: tuple(p.shape) == (5, 3), "none": lambda p: False,
}


@pytest.mark.parametrize("turns", ["all norms weights norms all", "all one all none vectors all one", "norms all weights all"])
@pytest.mark.parametrize("kwargs", [
    DRAWS, dict(numerics="torch", max_grad_norm=0.5), dict(max_grad_norm=0.5, statistics=True, **DRAWS),
    dict(max_grad_norm="percentile:50"), dict(max_grad_norm=0.1), dict(numerics="torch", max_grad_norm=0.5, storage="master=f32")])
def test_a_resumed_life(kwargs, turns):
    lists = models()
    optimizers = [altgrad.optim.AdamW(params, lr=0.01, **kwargs) for params in lists]
    optimizers[1].given = dict(lr=0.01, **kwargs)
    live(optimizers, lists, [TURNS[turn] for turn in turns.split()])


@pytest.mark.parametrize("turns", ["all norms", "all weights all", "norms weights"])
def test_torchs_profile_rounds_by_the_gradients_that_are_there(turns):
    a, b = models()
    ours = altgrad.optim.SGD(a, lr=0.5, numerics="torch", max_grad_norm=0.5)
    plain = altgrad.optim.SGD(b, lr=0.5)
    for turn in turns.split():
        give([a, b], TURNS[turn])
        ours.step()
        total = torch.nn.utils.get_total_norm([p.grad for p in b if p.grad is not None])
        norm = ours.grad_norm.to(total.dtype)
        assert torch.equal(norm.float(), ours.grad_norm), "a norm of the gradients' common dtype"
        torch.nn.utils.clip_grads_with_norm_(b, 0.5, norm)
        plain.step()
        for p, q in zip(a, b):
            assert torch.equal(p, q)


def test_draws_are_counted_where_there_is_a_gradient_that_draws():
    (params, _), turns = models(), ["all", "norms", "norms", "none", "weights"]
    optimizer = altgrad.optim.AdamW(params, **DRAWS)
    for turn in turns:
        give([params], TURNS[turn])
        optimizer.step()
    assert [int(group["draws"]) for group in optimizer.state_dict()["param_groups"]] == [2]
