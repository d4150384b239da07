"""States whose blocks share a scale: which parameters have them, and what their scales are."""

import torch

from ._layout import check_mode, same_order

# Smaller tensors keep such a state as float32, as in bitsandbytes and torchao:
# ALTGRAD_BLOCKED_NUMEL of altgrad.h.
BLOCKED_NUMEL = 4096


def block_of(word):
    """The elements that share a scale: of "ocp.e4m3fn:128" 128, of "f32" 1."""
    block = word.partition(":")[2].partition(",")[0]
    return int(block) if block.isdecimal() else 1


def unblocked(words):
    """The words of storage for a tensor that is too small to be worth a scale."""
    return {name: "f32" if block_of(word) > 1 else word for name, word in words.items()}


def scale_key(key):
    """Under which key in `state` the scales of a state are."""
    return key + "_scale"


def state_key(stream, keys):
    """Where a stream is in torch's `state`; `keys` says how a rule's states are called there."""
    if stream.role not in ("state", "block_scale"):
        return stream.role
    key = keys.get(stream.key, stream.key)
    return scale_key(key) if stream.role == "block_scale" else key


def scales_for(param, block):
    """New scales, one for each block of a parameter in the order of its memory."""
    return torch.zeros(-(-param.numel() // block), dtype=torch.float32, device=param.device)


def check_unscaled(key, held, names):
    """Raises where a state without blocks has scales: codes alone are other numbers."""
    if scale_key(key) in held and all(other != scale_key(key) for _, other in names):
        raise ValueError(f"there is a {scale_key(key)!r}, but storage gives state {key!r} of this "
                         "parameter no blocks: make the optimizer with the storage that its states have")


def check_scales(key, held, param, strides, block):
    """Raises unless a state that is there has scales that go with it."""
    codes, scales = held.get(key), held.get(scale_key(key))
    if codes is None and scales is None:
        return
    if codes is None or not isinstance(scales, torch.Tensor):
        lone, other = (key, scale_key(key)) if scales is None else (scale_key(key), key)
        raise ValueError(f"there is a state {lone!r} without its {other!r}: load both, or neither")
    check_mode(scales)
    wanted = -(-param.numel() // block)
    if (scales.dtype != torch.float32 or scales.shape != (wanted,) or not scales.is_contiguous()
            or scales.device != param.device or scales.is_neg() or scales._is_zerotensor()):
        raise ValueError(
            f"state {scale_key(key)!r} is {scales.dtype} of shape {tuple(scales.shape)} on "
            f"{scales.device}; expected contiguous float32 of shape ({wanted},) on {param.device}, "
            f"one for each {block} elements")
    if param.numel() and not same_order(codes, strides):
        raise ValueError(
            f"state {key!r} has strides {codes.stride()} and its parameter {tuple(strides)}: blocks "
            "are of elements that are neighbours in memory; give the parameter the memory format "
            "that it had")
