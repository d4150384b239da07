"""The fixed reduction shape: what order it adds in, and that it is a good sum."""

import math

import numpy as np
import pytest

from reductions import chunk_partials, global_norm, over_tensor
from softfma import fma

f32 = np.float32


def scalar_sum(x, kind):
    """The same shape once more, one element at a time."""
    def tree(lanes):
        n = 128
        while n:
            for i in range(n):
                lanes[i] = lanes[i] + lanes[i + n]
            n //= 2
        return lanes[0]
    partials = []
    for first in range(0, len(x), 4096):
        lanes = [f32(0)] * 256
        for i in range(first, min(first + 4096, len(x))):
            old = lanes[i % 256]
            lanes[i % 256] = fma(x[i], x[i], old) if kind == "sumsq" else old + x[i]
        partials.append(tree(lanes))
    lanes = [f32(0)] * 256
    for i, p in enumerate(partials):
        lanes[i % 256] = lanes[i % 256] + p
    return tree(lanes)


@pytest.mark.parametrize("kind", ["sumsq", "add"])
@pytest.mark.parametrize("n", [0, 1, 255, 256, 4095, 4097, 13000])
def test_order_is_chunks_lanes_tree(n, kind):
    x = np.random.default_rng(n).standard_normal(n).astype(f32)
    assert over_tensor(x, kind).tobytes() == scalar_sum(x, kind).tobytes()


def test_more_chunks_than_lanes_wrap_around():
    x = np.random.default_rng(0).standard_normal(4096 * 258).astype(f32)
    p = chunk_partials(x)
    assert len(p) == 258
    lanes = p[:256].copy()
    lanes[:2] += p[256:]
    while len(lanes) > 1:
        lanes = lanes[:len(lanes) // 2] + lanes[len(lanes) // 2:]
    assert over_tensor(x) == lanes[0]
    exact = math.fsum(np.square(x.astype(np.float64)))
    assert abs(float(over_tensor(x)) - exact) < 1e-6 * exact


def test_global_norm_adds_tensors_in_order_and_roots_once():
    tensors = [np.full(3, s, f32) for s in (4096.0, 1.0, 1.0)]
    a, b, c = (over_tensor(x) for x in tensors)
    assert global_norm(tensors) == np.sqrt(f32(f32(a + b) + c))
    assert global_norm([]) == 0
    assert np.isnan(global_norm([np.array([1, np.nan], f32)]))
