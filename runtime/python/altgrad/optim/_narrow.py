"""Optimizers of the library under a storage with narrow states. No rule of their own."""

from ._named import AdamW, Lion

_FP8 = "ocp.e4m3fn:256"


class AdamWFp8(AdamW):
    """AdamW with both moments in 8 bits: ocp.e4m3fn, and a float32 scale for 256 elements.

    2.03 bytes of state for an element instead of 8. `state` holds `exp_avg` and `exp_avg_sq`
    as torch.float8_e4m3fn, to be multiplied by `exp_avg_scale` and `exp_avg_sq_scale`, one
    for each block of elements that are neighbours in memory. Parameters under 4096 elements
    keep float32.
    """

    _storage = f"states={_FP8}"
    _older = AdamW._older


class LionFp8(Lion):
    """Lion with its momentum as AdamWFp8 keeps its moments."""

    _storage = f"states={_FP8}"
