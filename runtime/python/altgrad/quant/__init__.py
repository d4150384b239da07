"""Functions of number formats: tensors rounded to a format, as numbers or as codes, with scales and without.

    rounded = altgrad.quant.quantize(x, "ocp.e4m3fn", scale)
    codes, scales = altgrad.quant.quantize_blocks(x, "mxfp8")

Every function is an operator of torch.library, too (`torch.ops.altgrad`), and can be compiled and traced.
"""

from . import _registered  # noqa: F401
from ._blocks import quantize_blocks
from ._quantize import dequantize, quantize, quantize_codes
from ._scales import AmaxHistory, compute_scale

__all__ = ["AmaxHistory", "compute_scale", "dequantize", "quantize", "quantize_blocks", "quantize_codes"]


def __dir__() -> list[str]:
    return sorted(__all__)
