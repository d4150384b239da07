"""The same bits for any number of threads, torch's pool or the runtime's, and wherever tensors begin."""

import lists
import pytest
import torch

import altgrad
from altgrad.ops import _plan_cache


def clipped(threads, shift=0, dtype=torch.float32):
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    _plan_cache._cache.bound.clear()
    storages = [torch.empty(g.numel() + 8, dtype=dtype) for g in lists.grads(dtype)]
    torch.manual_seed(0)
    grads = [s[shift:shift + g.numel()].copy_(g.view(-1)) for s, g in zip(storages, lists.grads(dtype))]
    norms = [altgrad.compute_global_grad_norm(grads, kind, per_tensor=each)
             for kind in lists.KINDS for each in (False, True)]
    return [*norms, *altgrad.fused_grad_unscale_clip(grads, 0.5, 3.0)[0]]


@pytest.mark.parametrize("dtype", lists.DTYPES)
def test_threads_and_places_do_not_change_the_bits(dtype, monkeypatch):
    expected = clipped(1, dtype=dtype)
    for threads, shift in ((2, 0), (3, 1), (1, 5), (7, 3)):
        assert lists.same(expected, clipped(threads, shift, dtype))
    monkeypatch.setattr(_plan_cache, "torch_parallel_for", lambda: None)
    assert lists.same(expected, clipped(2, dtype=dtype))
