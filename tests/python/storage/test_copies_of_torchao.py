"""Copies with scales of powers of two are torchao's quantiser's: codes and scales, bit for bit, by each of its four rules."""

import pytest
import torch

import altgrad

config = pytest.importorskip("torchao.prototype.mx_formats.config", exc_type=ImportError,
                             reason="torchao is not installed (tools/trainers.sh)")
from torchao.prototype.mx_formats.mx_tensor import to_mx  # noqa: E402


def numbers():
    """Magnitudes over float32's range, blocks of zeros, and ties of the formats; no scale is 2^-127, by which torchao's code does
    not divide."""
    dice = torch.Generator().manual_seed(0)
    scales = 2.0 ** torch.randint(-100, 120, (256, 1), generator=dice)
    every = torch.randn(256, 256, generator=dice) * scales
    every[3] = 0.0
    every[4:8] = torch.arange(1024.0).view(4, 256) / 16
    every[8, ::2] = -0.0
    return every


@pytest.mark.parametrize("rule", ["rceil", "floor", "ceil", "even"])
@pytest.mark.parametrize("word, dtype", [("mxfp8", torch.float8_e4m3fn), ("mxfp8e5m2", torch.float8_e5m2)])
def test_codes_and_scales_are_the_same(word, dtype, rule):
    x = numbers()
    scales, codes = to_mx(x, dtype, 32, config.ScaleCalculationMode(rule))
    weight = torch.nn.Parameter(x.clone())
    weight.grad = torch.zeros_like(weight)
    optimizer = altgrad.optim.SGD([weight], lr=0.0, storage=f"copy={word},{rule}")
    optimizer.step()
    ours = altgrad.quant.quantize_blocks(x, f"{word},{rule}")
    for got, of in ((ours, "quantize_blocks"), ((optimizer.state[weight]["copy"], optimizer.state[weight]["copy_scale"]), "step")):
        assert torch.equal(got[1].view(torch.uint8), scales.view(torch.uint8)), of
        assert torch.equal(got[0].view(torch.uint8), codes.view(torch.uint8)), of
