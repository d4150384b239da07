"""Optimizers of the library under a storage with narrow states. No rule of their own."""

from ._of_papers import Lion
from ._of_torch import AdamW

_FP8 = "ocp.e4m3fn:256"


class AdamWFp8(AdamW):
    """AdamW with both moments in 8 bits, and a float32 scale for 256 elements.

    2.03 bytes of state for an element instead of 8. `state` holds `exp_avg` as
    torch.float8_e4m3fn and `exp_avg_sq` as torch.float8_e5m2, which has numbers for second
    moments 2^-31 of their block's largest (e4m3fn has none below 2^-18, and where a moment
    becomes 0 an update is many times the learning rate); both are to be multiplied by `exp_avg_scale` and
    `exp_avg_sq_scale`, one for each block of elements that are neighbours in memory. Parameters under 4096
    elements keep float32.

    Rounded to nearest, `exp_avg_sq` lags behind: it grows where a gradient's square is many
    times as large, and falls with its block's largest alone. With
    `storage="m=ocp.e4m3fn:256 states=ocp.e5m2:256,stochastic"` it follows on average, which
    takes a CPU more time.
    """

    _storage = f"states=ocp.e5m2:256 m={_FP8}"


class LionFp8(Lion):
    """Lion with its momentum as AdamWFp8 keeps its moments."""

    _storage = f"states={_FP8}"


class AdamW8bit(AdamW):
    """AdamW with both moments in the dynamic 8-bit maps of bitsandbytes and torchao, 256 elements to a scale.

    `state` holds torch.uint8 codes: `exp_avg` places in the signed map (`bnb8`), `exp_avg_sq`
    and the largest of amsgrad in the unsigned one (`bnb8u`), each beside the largest of every
    block as float32 under `<key>_scale`. A moment is stored as torchao's quantiser stores it,
    byte for byte (Dettmers et al., 8-bit Optimizers via Block-wise Quantization, 2021); scales
    begin at 1e-12, and what is not finite is stored as 0 is and has no part in a scale.
    Parameters under 4096 elements keep float32.
    """

    _storage = "states=bnb8u:256 m=bnb8:256"


class AdamW4bit(AdamW):
    """AdamW with both moments in torchao's 4-bit maps, 128 elements to a scale.

    1.06 bytes of state for an element instead of 8. `state` holds torch.uint8, two codes to a
    byte: `exp_avg` places in the signed map (`torchao4`), `exp_avg_sq` and the largest of amsgrad
    in the unsigned one (`torchao4u`), which has no 0; each beside the largest of every block
    under `<key>_scale`. Codes and scales are those of torchao.optim.AdamW4bit (OptimState4bit),
    byte for byte: the even element's code is the upper half. A state has the shape of its
    parameter with half of the dimension whose elements are neighbours in memory; where that is
    odd, this dimension has all bytes and the others 1. Parameters under 4096 elements keep float32.
    """

    _storage = "states=torchao4u:128 m=torchao4:128"


class Lion8bit(Lion):
    """Lion with its momentum as AdamW8bit keeps its first moments."""

    _storage = "states=bnb8:256"
