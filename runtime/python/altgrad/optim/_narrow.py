"""Optimizers of the library under a storage with narrow states. No rule of their own."""

from ._named import AdamW, Lion

_FP8 = "ocp.e4m3fn:256"


class AdamWFp8(AdamW):
    """AdamW with both moments in 8 bits, and a float32 scale for 256 elements.

    2.03 bytes of state for an element instead of 8. `state` holds `exp_avg` as
    torch.float8_e4m3fn and `exp_avg_sq` as torch.float8_e5m2, which has numbers for second
    moments 2^-31 of their block's largest (e4m3fn has none below 2^-18, and where a moment
    becomes 0 an update is many times the learning rate); both are to be multiplied by `exp_avg_scale` and `exp_avg_sq_scale`, one
    for each block of elements that are neighbours in memory. Parameters under 4096 elements
    keep float32.
    """

    _storage = f"states=ocp.e5m2:256 m={_FP8}"
    _older = AdamW._older


class LionFp8(Lion):
    """Lion with its momentum as AdamWFp8 keeps its moments."""

    _storage = f"states={_FP8}"
