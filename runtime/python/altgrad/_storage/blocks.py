"""States whose blocks share a scale: which parameters have them, and what their scales are."""

import torch

from .._binding.layout import FORMATS, check_memory, check_mode, same_order
from .._binding.where import unwritten
from .._core import beside
from .word import word_of

# The dtypes of scales, by how they are stored.
SCALES = {"f32": torch.float32, "f16": torch.float16, "ocp.e8m0": torch.float8_e8m0fnu,
          "ocp.e4m3fn": torch.float8_e4m3fn}


def unblocked(words):
    """The words of a storage for a tensor that is too small for scales: float32 states, and the copy as asked."""
    return {name: "f32" if word_of(word).block > 1 and name != "copy" else word
            for name, word in words.items()}


# The key in `state` of a further copy whose blocks are of columns.
COLUMNS = "copy_columns"


def is_of_copy(key):
    """Whether a key of a state belongs to a further copy: the copy itself, its scales or its magnitudes."""
    return key == "copy" or key.startswith("copy_")


def span_of(word, key="copy"):
    """(elements of a block, or its rows where it goes over rows; then its columns, else 0)."""
    of = word_of(word)
    return (128, 128) if of.columns else (of.block, int(key == COLUMNS))


def rows_of(param):
    """The rows of a tensor as a matrix whose columns are of its last dimension; 1 where it is empty."""
    return param.numel() // param.shape[-1] if param.dim() > 1 and param.numel() else 1


def check_copy(words):
    """Raises where torch has no dtype for a further copy of the parameter."""
    of = word_of(words.get("copy", "f32"))
    if of.format not in FORMATS.values() and not of.packed:
        raise ValueError(f"storage says copy={of.format}, for which torch has no dtype; a copy "
                         f"is stored in one of {', '.join(FORMATS.values())}, or in mxfp4 or nvfp4")


def scale_key(key):
    """The key in `state` of the scales of a state."""
    return key + "_scale"


def state_key(stream, keys):
    """The key of a stream in torch's `state`; `keys` maps the names of a rule's states to keys."""
    if stream.role not in ("state", "block_scale"):
        return stream.key if stream.role in ("tensor_scale", "copy") else stream.role
    key = keys.get(stream.key, stream.key)
    return scale_key(key) if stream.role == "block_scale" else key


def zeros_beside(param, stream, strides):
    """New scales of a parameter, or bytes for two codes each, where its memory is in the order of `strides`."""
    shape, strides = beside(param.shape, strides, stream.block, stream.columns, stream.packed, stream.key == "copy")
    dtype = torch.uint8 if stream.packed else SCALES[stream.format]
    return unwritten(torch.empty_strided(shape, strides, dtype=dtype, device=param.device)).zero_()


def check_unscaled(key, held, names):
    """Raises where a state has scales that its storage does not have: without them its codes are other numbers."""
    if scale_key(key) in held and all(other != scale_key(key) for _, other in names):
        raise ValueError(f"there is a state {scale_key(key)!r}, but the storage keeps state {key!r} of this "
                         "parameter without scales: make the optimizer with the storage that its states have")


def check_scales(key, held, param, word):
    """Raises unless an existing state has scales that fit it."""
    of, (block, columns) = word_of(word), span_of(word, key)
    block = 0 if of.of_tensor else block
    past = [f"copy_amax_{step}" if step else "copy_amax" for step in range(of.past)]
    for other in [scale_key(key), *past]:
        _check_scale(key, other, held, param, block, of.scales, columns)
    for other in ("copy_amax", "copy_tensor_scale") if of.levels else ():
        _check_scale(key, other, held, param, 0, "f32")


def check_codes(key, codes, param, strides, packed):
    """Raises unless existing codes whose blocks have scales lie in the order of `strides`."""
    shape, order = beside(param.shape, strides, pairs=True) if packed else (tuple(param.shape), strides)
    if codes.shape != shape:
        raise ValueError(f"state {key!r} of shape {tuple(codes.shape)} does not belong to a parameter of shape "
                         f"{tuple(param.shape)}, whose codes have shape {shape}")
    if param.numel() and not same_order(codes, order):
        raise ValueError(
            f"state {key!r} has strides {codes.stride()}, and its parameter needs {tuple(order)}, because "
            "a block consists of neighbours in memory: give the parameter the memory format that it had")


def _check_scale(key, other, held, param, block, format, columns=0):
    codes, scales = held.get(key), held.get(other)
    if codes is None and scales is None:
        return
    if codes is None or not isinstance(scales, torch.Tensor):
        lone, other = (key, other) if scales is None else (other, key)
        raise ValueError(f"there is a state {lone!r} without its {other!r}: load both, or neither")
    check_memory(f"state {other!r}", scales)
    check_mode(scales)
    shape, dtype = beside(param.shape, param.stride(), block, columns, copy=key == "copy")[0], SCALES[format]
    if (scales.dtype != dtype or scales.shape != shape or not scales.is_contiguous()
            or scales.device != param.device or scales.is_neg() or scales._is_zerotensor()):
        name = str(dtype).removeprefix("torch.")
        across = f"{block} x {columns}" if columns > 1 else block
        shared = f"each {across} elements" if block else "the parameter"
        raise ValueError(
            f"state {other!r} is {scales.dtype} of shape {tuple(scales.shape)} on "
            f"{scales.device}; expected contiguous {name} of shape {shape} on {param.device}, "
            f"one for {shared}")
