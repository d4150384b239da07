"""clip_grad_value_ has torch's bits: of every kind of number, in each dtype."""

import lists
import pytest
import torch

import altgrad

ODD = [float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-30, -65504.0, 0.3, -0.3, 0.30078125]


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, 1e30, float("inf")])
@pytest.mark.parametrize("dtype", lists.DTYPES)
def test_every_element_is_torchs(dtype, value):
    if dtype == torch.float16 and 65504 < value < float("inf"):
        pytest.skip("torch refuses a bound that f16 does not hold")
    grads = [*lists.grads(dtype), torch.tensor(ODD).to(dtype)]
    ours, theirs = lists.params(grads), lists.params(grads)
    altgrad.clip_grad_value_(ours, value)
    torch.nn.utils.clip_grad_value_(theirs, value)
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p.grad, q.grad, rtol=0, atol=0, equal_nan=True)


def test_mixed_dtypes_and_none():
    grads = [g for dtype in lists.DTYPES for g in lists.grads(dtype)]
    ours, theirs = lists.params(grads), lists.params(grads)
    ours[3].grad = theirs[3].grad = None
    altgrad.clip_grad_value_(iter(ours), 0.5)
    torch.nn.utils.clip_grad_value_(theirs, 0.5)
    assert all(p.grad is q.grad or torch.equal(p.grad, q.grad) for p, q in zip(ours, theirs))
