"""Muon's symmetric products on a GPU in strips of rows up to the diagonal, beside whole squares."""

import ctypes
import os

import gemms
import pytest
import torch
from altgrad.optim import NewtonSchulz
from test_own_products import LR, Driver, cache, stepped  # noqa: F401

pytestmark = pytest.mark.skipif(os.environ.get("ALTGRAD_STANDS_FOR_CUDA") != "cpu", reason="a CPU has strips of its own")
STRIPS = 22  # the words of altgrad_gemm before it, 64 bits each


class Strips(Driver):
    """A card on which a product takes so many microseconds, by its strips."""

    def __init__(self, whole=100, two=75, four=63):
        super().__init__()
        self.seen, self._times = [], {1: whole, 2: two, 4: four}

    def call(self, gemm, context):
        strips = max(gemm[STRIPS] & 0xFFFFFFFF, 1)
        self.seen.append(strips)
        self._us = self._times[strips]
        return super().call(gemm, context)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(256, 320), (350, 258), (2, 257, 300)], ids=str)
def test_four_strips_give_the_step_of_whole_squares_within_rounding(cache, shape, dtype):  # noqa: F811
    """In batches, too, and where strips are unlike."""
    steps = {}
    for word in "library", "strips":
        cache.setenv("ALTGRAD_CUDA_PRODUCTS", word)
        with Strips() as driver:
            steps[word] = stepped([shape, shape], 1, orthogonalize=NewtonSchulz(dtype=dtype))
        assert driver.seen == [4 if word == "strips" and i % 3 < 2 else 1 for i in range(6 * (len(shape) - 1))]
    for one, other in zip(*steps.values()):
        scale = max(1.0, shape[-2] / shape[-1]) ** 0.5
        assert (one - other).abs().max() <= LR * scale * 2.0**-6


def test_small_squares_stay_whole(cache):  # noqa: F811
    cache.setenv("ALTGRAD_CUDA_PRODUCTS", "strips")
    with Strips() as driver:
        stepped([(255, 264)], 1)
    assert set(driver.seen) == {1}


@pytest.mark.parametrize("times, wanted", [((100, 75, 63), 4), ((100, 75, 90), 2), ((100, 120, 110), 1)])
def test_the_fastest_number_of_strips_is_measured_once(times, wanted):
    """Six runs of each, the first time that a step's two kinds of symmetric products are met."""
    shape = (257 + 8 * wanted, 320)  # of no other test, nor of our own kernels, which take multiples of 8
    with Strips(*times) as driver:
        stepped([shape], 1)
        assert sorted(driver.seen[:18]) == [1] * 6 + [2] * 6 + [4] * 6
        driver.seen.clear()
        stepped([shape], 1)
    assert driver.seen == [wanted, wanted, 1] * 2


@pytest.mark.parametrize("does", ["something else", "nothing"])
def test_what_is_wrong_in_strips_is_not_fast(does):
    """What whole squares have left where strips do nothing is not taken for theirs."""
    with Strips() as driver:
        def unlike(gemm, context):
            strips = gemm[STRIPS] & 0xFFFFFFFF
            if strips > 1 and does == "nothing":
                driver.seen.append(strips)
                return 0
            status = driver.call(gemm, context)
            if strips > 1:
                ctypes.cast(gemm[8], ctypes.POINTER(ctypes.c_uint16))[0] = 0x4480  # 1024, in c
            return status

        with gemms.Products(unlike):
            stepped([(305 if does == "nothing" else 313, 320)], 1)
    assert driver.seen.count(1) > 6 and driver.seen[-3:] == [1, 1, 1]


def test_who_asks_for_bits_gets_whole_squares():
    with Strips() as driver:
        stepped([(256, 320)], 1, reproducible=True)
    assert set(driver.seen) == {1}
