"""A master beside the parameter, or one whose upper half the parameter is: "master=bf16+i16"."""

import torch

from .blocks import COLUMNS, scale_key
from .word import word_of

# The key in `state` of what a bfloat16 parameter has no room for.
REMAINDER = "remainder"


def extra_streams(words):
    """(the compiler's word, key in state) of the master and the further copies."""
    return [(word, REMAINDER if word_of(words[word]).split else word)
            for word in ("master", "copy") if word in words] + [
                ("copy", COLUMNS)] * word_of(words.get("copy", "")).both


def extra_keys(words):
    """The keys of these in state, which a step makes of the parameter where they are missing, and of their scales."""
    return {name for _, key in extra_streams(words) for name in (key, scale_key(key))}


def check_master(words, held, names, param):
    """Raises ValueError where an existing master is stored in another way than `words` say."""
    divided = word_of(words.get("master", "")).split
    known = [key for _, key in names]
    lone = [key for key in ("master", REMAINDER) if key in held and key not in known]
    if divided and lone or not divided and REMAINDER in lone:
        expected = f"storage says master={words['master']}" if "master" in words else (
            "storage says nothing of a master")
        raise ValueError(f"there is a state {lone[0]!r}, but {expected}: make the optimizer with the "
                         "storage that its states have, or altgrad.transcode them")
    if divided and REMAINDER in held and param.itemsize != 2:
        raise ValueError(f"there is a state {REMAINDER!r} of a {param} parameter, which needs none")


def divide(master, dtype):
    """(upper, remainder) of float32 numbers, as the dialect's `split` has them in int16 or int8."""
    master = torch.where(master.isnan(), torch.nan, master)
    if dtype == torch.int16:
        words = master.view(torch.int32)
        return (words + 0x8000 >> 16).to(torch.int16).view(torch.bfloat16), words.to(torch.int16)
    upper = master.bfloat16()
    off = torch.where(upper.isfinite(), master - upper.float(), 0.0).double()
    share = 127.0 * off / _half_place(upper)
    return upper, (share.abs() + 0.5).floor().copysign(share).to(torch.int8)


def join(upper, remainder):
    """The float32 numbers of bfloat16 ones and their remainders, as the dialect's `join` has them."""
    if remainder.dtype == torch.int16:
        words = upper.view(torch.int16).to(torch.int32)
        both = ((words << 16) + remainder.to(torch.int32)).view(torch.float32)
        return torch.where(both.isnan(), upper.float(), both)
    part = remainder.float() / 127.0 * 2.0**-8 * (_half_place(upper) * 2.0**8).float()
    return torch.where(upper.isfinite(), upper.float() + part, upper.float())


def _half_place(upper):
    """Half the distance of bfloat16 numbers at some, in float64; 2^-134 for the subnormal ones."""
    field = (upper.view(torch.int16).to(torch.int64) >> 7 & 0xFF).clamp(1, 254)
    return torch.pow(2.0, (field - 135).double())
