"""safe_to_bf16: rounded once where that can be, and twice where it says so."""

import bisect
import math
import struct
from fractions import Fraction

import pytest
import torch

from altgrad.amp import is_bf16_tensor, safe_to_bf16


# Every magnitude, and what would come after the largest.
CODES = [*(Fraction(struct.unpack("<f", struct.pack("<I", code << 16))[0]) for code in range(0x7f80)),
         Fraction(2) ** 128]


def nearest(value):
    """A finite number as bfloat16 by exact arithmetic, ties to even."""
    size = abs(Fraction(value))
    above = bisect.bisect_left(CODES, size, hi=len(CODES) - 1)
    code = min((max(above - 1, 0), above), key=lambda code: (abs(CODES[code] - size), code & 1))
    bits = code | (math.copysign(1.0, value) < 0) << 15
    return struct.unpack("<f", struct.pack("<I", bits << 16))[0]


HALF, TINY = 2.0**-8, 2.0**-40
AROUND = [1 + HALF, 1 + HALF + TINY, 1 + HALF - TINY, 1 + 3 * HALF, 1 + 3 * HALF - TINY, 1 + 3 * HALF + TINY,
          2.0**-134, 2.0**-134 * (1 + TINY), 2.0**-133, 1e-300, 0.0, 3.3895313892515355e38, 3.396e38, 1e39, 1e300,
          3.3961775292304601e38, 3.3961775292304605e38]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_float64_is_rounded_once(sign):
    values = [sign * value for value in AROUND]
    found = safe_to_bf16(torch.tensor(values, dtype=torch.float64))
    expected = torch.tensor([nearest(value) for value in values], dtype=torch.bfloat16)
    assert torch.equal(found.view(torch.int16), expected.view(torch.int16)), (found, expected)
    plain = torch.tensor(values, dtype=torch.float64).to(torch.bfloat16)
    assert not torch.equal(found, plain), "torch's cast rounds once, too: this function can go"


def test_float64_that_is_not_finite_and_a_gradient():
    found = safe_to_bf16(torch.tensor([float("inf"), -float("inf"), float("nan")], dtype=torch.float64))
    assert found[0] == float("inf") and found[1] == -float("inf") and found[2].isnan()
    leaf = torch.tensor([[1.0, 2.0]], dtype=torch.float64, requires_grad=True)
    (safe_to_bf16(leaf.t()) * 3).sum().backward()
    assert torch.equal(leaf.grad, torch.full((1, 2), 3.0, dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_integers_go_through_float32_which_may_round_twice(dtype):
    exact = torch.arange(-300, 300, dtype=dtype)
    expected = torch.tensor([nearest(int(value)) for value in exact], dtype=torch.bfloat16)
    assert torch.equal(safe_to_bf16(exact), expected)
    above = 2**30 + 2**22 + 1
    assert nearest(above) == 2**30 + 2**23
    assert safe_to_bf16(torch.tensor(above, dtype=dtype)).item() == 2**30


def test_what_is_narrower_or_no_number():
    for dtype in (torch.bool, torch.uint8, torch.float16, torch.float32, torch.bfloat16):
        found = safe_to_bf16(torch.ones(3, dtype=dtype))
        assert is_bf16_tensor(found) and torch.equal(found, torch.ones(3, dtype=torch.bfloat16))
    with pytest.raises(TypeError, match="imaginary part that bfloat16 has not; pass .real"):
        safe_to_bf16(torch.ones(1, dtype=torch.complex64))
    with pytest.raises(TypeError, match="expected a tensor, not float"):
        safe_to_bf16(1.0)
    assert not is_bf16_tensor(torch.ones(1)) and not is_bf16_tensor(torch.bfloat16)
