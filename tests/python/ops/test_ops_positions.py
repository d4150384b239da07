"""A gradient that is not finite is found wherever it lies: 10,000 positions of chunks, heads and tails."""

import os

import pytest
import torch

import altgrad

# On the interpreter of kernels every 97th.
STEP = 97 if "ALTGRAD_STANDS_FOR_CUDA" in os.environ else 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_found_at_every_position(dtype, bad):
    storage = torch.ones(10_001).to(dtype)
    for shift in (0, 1):
        grads = [storage[shift:shift + 4999], storage[shift + 4999:shift + 10_000]]
        for place in range(shift, 10_000 + shift, 2 * STEP):
            storage[place] = bad
            _, norm, found = altgrad.fused_grad_unscale_clip(grads, 1e9, 1.0, inplace=True)
            assert found == 1.0 and not norm.isfinite(), place
            storage[place] = 1.0
        assert altgrad.fused_grad_unscale_clip(grads, 1e9, 1.0, inplace=True)[2] == 0.0
