"""Reads and writes the states of one parameter in the layouts of torch, altgrad, bitsandbytes,
torchao and TransformerEngine."""

from dataclasses import dataclass, field
from importlib import import_module

import torch

from .._binding.layout import CODES, FORMATS, is_dense
from .._core import blocked_numel, dtype_of
from .blocks import SCALES, is_of_copy, scale_key
from .codes import decode, decode_blocks, decode_book, dynamic_map, encode_book, largest, spread
from .file_entries import decode_entry
from .packed import layout_of, unpack
from .word import word_of

_BNB_WRAPPED = "__bnb_optimizer_quant_state__"
_BNB = {"1": "exp_avg", "2": "exp_avg_sq"}
BNB_BLOCK = 256
SIZES = [16 << place for place in range(8)]  # of blocks
_ADAM = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
# Module and class in torchao.optim, and the elements of a block.
TORCHAO = {"torchao.8bit": ("subclass_8bit", "OptimState8bit", 256),
            "torchao.4bit": ("subclass_4bit", "OptimState4bit", 128),
            "torchao.fp8": ("subclass_fp8", "OptimStateFp8", 256)}
_TORCHAO_CLASSES = {name for _, name, _ in TORCHAO.values()}


@dataclass
class AdamState:
    """What is kept of a parameter, in numbers: `states` are float32 tensors by torch's keys.

    Their strides are the order of memory in which blocks are neighbours. `master` is a float32
    tensor, `remainder` one of int16 that with the bfloat16 parameter is such a master; either
    may be None. `step` is a number or None, `device` where the tensors were.
    """

    step: float | None = None
    states: dict = field(default_factory=dict)
    master: torch.Tensor | None = None
    remainder: torch.Tensor | None = None
    device: torch.device = torch.device("cpu")


def flat(tensor):
    """The elements of a dense tensor in the order of memory, in one dimension."""
    return tensor.detach().as_strided((tensor.numel(),), (1,))


def shaped(values, like):
    """The elements of one dimension in the order of memory of a tensor."""
    return values.as_strided(like.shape, like.stride())


#===-- Reading ----------------------------------------------------------------===#

def read(entry, words, where, param=None):
    """The AdamState of an entry of `state` in any known layout.

    `words` are words of storage by keys, for codes that torch has no dtype for; `where` names the
    parameter in messages, and `param` is it, which codes that share bytes need for their shape. Raises ValueError or
    TypeError for what no known optimizer keeps.
    """
    if not isinstance(entry, dict):
        raise TypeError(f"the state of {where} is {type(entry).__name__}, not a dict")
    entry = decode_entry(entry)
    entry = {**entry, **entry.get(_BNB_WRAPPED, {})}
    entry.pop(_BNB_WRAPPED, None)
    adam = AdamState(step=_step_of(entry.pop("step", None), where))
    for value in entry.values():
        if isinstance(value, torch.Tensor):
            adam.device = value.device
            break
    if "state1" in entry:
        _read_bitsandbytes(entry, adam, where)
        return adam
    for key, value in entry.items():
        if key.endswith("_scale") and key.removesuffix("_scale") in entry or is_of_copy(key) or value is None:
            continue
        if key.endswith("_scale") and word_of(words.get(key.removesuffix("_scale"), "")).block > 1:
            raise ValueError(f"{where} has a state {key!r} without its {key.removesuffix('_scale')!r}")
        _read_state(entry, key, value, words, adam, f"state {key!r} of {where}", param)
    return adam


def _step_of(value, where):
    try:
        return None if value is None else float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"the step of {where} is {value!r}, not a number") from None


def _read_state(entry, key, value, words, adam, what, param):
    if type(value).__name__ in _TORCHAO_CLASSES:
        adam.states[key] = _read_torchao(value)
        return
    if not isinstance(value, torch.Tensor) or type(value).__name__ == "DTensor":
        raise TypeError(f"{what} is {type(value).__name__}, which no known optimizer keeps as a state: "
                        "give the state_dict of one device, with plain tensors")
    if value.is_meta:
        raise ValueError(f"{what} is on the meta device, where there are no numbers")
    if value.layout != torch.strided or not is_dense(value):
        raise ValueError(f"{what} of strides {tuple(value.stride())} is not dense: clone() it"
                         if value.layout == torch.strided else f"{what} is {value.layout}, not dense")
    if key in ("master", "master_param", "remainder"):
        halves = value.dtype in (torch.int16, torch.int8)
        if not halves and (value.dtype != torch.float32 or key == "remainder") or halves and key == "master":
            raise TypeError(f"{what} is {value.dtype}; a master is float32, a remainder int16 or int8")
        setattr(adam, "remainder" if halves else "master", value.detach())
        return
    word = words.get(key, words.get("states", ""))
    if word_of(word).packed and value.dtype == torch.uint8 and scale_key(key) in entry:
        value = _unpacked(word, value, param, what)
    adam.states[key] = shaped(_numbers(entry, key, value, words, what), value)


def _unpacked(word, value, param, what):
    """One code in a byte, in the shape and order of their parameter."""
    if param is None:
        raise ValueError(f"{what} has two codes to a byte, from which its shape cannot be told: pass params=")
    try:
        strides = layout_of(value, param.shape)
    except (ValueError, IndexError):
        raise ValueError(f"{what} of shape {tuple(value.shape)} has two codes to a byte, which does not fit a "
                         f"parameter of shape {tuple(param.shape)}") from None
    codes = unpack(word, flat(value).cpu(), param.numel())
    return codes.as_strided(param.shape, strides)


def _numbers(entry, key, value, words, what):
    """The numbers of a state in the order of memory."""
    word = words.get(key, words.get("states"))
    if word is None or word == "param":
        word = "int8" if value.dtype == torch.int8 else FORMATS.get(value.dtype)
    if word is None or (value.dtype not in (*FORMATS, *CODES)):
        raise TypeError(f"{what} holds {value.dtype}, and nothing says which format these codes have: "
                        "pass storage=, with which the optimizer was made")
    scales = entry.get(scale_key(key))
    if scales is None and value.dtype in FORMATS and word_of(word).format in FORMATS.values():
        word = FORMATS[value.dtype]
    if value.dtype != dtype_of(word_of(word).format) and (value.dtype != torch.float32 or scales is not None):
        raise TypeError(f"{what} holds {value.dtype}, and storage says {word}, whose codes lie in "
                        f"{dtype_of(word_of(word).format)}")
    if scales is None:
        if word_of(word).block > 1 and value.dtype != torch.float32:
            raise ValueError(f"{what} has no {scale_key(key)!r}, which the storage ({word}) needs")
        return decode(word, flat(value)) if value.dtype != torch.float32 else flat(value).cpu().clone()
    count, block = value.numel(), word_of(word).block
    sizes = [block] if block > 1 else SIZES
    if not isinstance(scales, torch.Tensor):
        raise TypeError(f"{what} has a {scale_key(key)!r} that is {type(scales).__name__}, not a tensor")
    found = _sizes_of(sizes, count, scales)
    stored = SCALES.get(word_of(word).scales) if block > 1 else scales.dtype
    if not found or scales.dtype != stored or stored not in SCALES.values():
        raise ValueError(f"{what} has {count} elements and scales of shape {tuple(scales.shape)} in {scales.dtype}; "
                         f"there has to be one of {stored} for each block of {' or '.join(map(str, sizes))}")
    return decode_blocks(word, flat(value), scales, found[0])


def _sizes_of(sizes, count, scales):
    """Those of these sizes of blocks that fit: one, or, where there is one block, all that have the same numbers."""
    return [size for size in sizes if scales.shape == (-(-count // size),)]


def _read_bitsandbytes(entry, adam, where):
    unknown = sorted(set(entry) - {f"{name}{n}" for n in _BNB for name in ("state", "absmax", "qmap")}
                     - {"unorm_vec"})
    if "state2" not in entry or unknown:
        raise ValueError(f"the state of {where} is not that of bitsandbytes' AdamW, with blocks: it has "
                         f"{', '.join(sorted(entry))}")
    for number, key in _BNB.items():
        state, what = entry[f"state{number}"], f"state{number} of {where}"
        if not state.is_contiguous():
            raise ValueError(f"state{number} of {where} has strides {tuple(state.stride())}; blocks of "
                             "bitsandbytes are of a contiguous tensor")
        if state.dtype != torch.uint8:
            adam.states[key] = state.detach().cpu().float().clone()
            continue
        book, scales = (entry.get(f"{name}{number}") for name in ("qmap", "absmax"))
        found = [] if scales is None else _sizes_of(SIZES, state.numel(), scales)
        if book is None or len(book) != 256 or not found:
            blocks = -(-state.numel() // BNB_BLOCK)
            raise ValueError(f"{what} has codes, and not 256 numbers in qmap{number} and {blocks} in absmax{number}, or one for each "
                             f"block of another power of two from {SIZES[0]} to {SIZES[-1]}")
        adam.states[key] = decode_book(flat(state).cpu(), book.cpu(), scales.cpu(), found[0]).view(state.shape)


def _read_torchao(state):
    """The numbers of torchao's tensor from its parts, because its class does not dequantize views."""
    codes, scales = state.codes.detach().cpu().reshape(-1), state.scale.detach().cpu()
    if type(state).__name__ == "OptimState4bit":
        codes = torch.stack([codes >> 4, codes & 15], 1).view(-1)
    block = codes.numel() // scales.numel()
    numbers = (codes.float() * spread(scales, block, len(codes)) if codes.dtype != torch.uint8 else
               decode_book(codes, state.qmap.detach().cpu(), scales, block))
    return numbers.view(state.shape)


#===-- Writing ----------------------------------------------------------------===#

def write_torch(adam):
    """torch.optim's: float32 states and a float32 step."""
    entry = {} if adam.step is None else {"step": torch.tensor(adam.step, dtype=torch.float32, device="cpu")}
    return {**entry, **{key: state.to(adam.device) for key, state in adam.states.items()}}


def write_transformer_engine(adam):
    """What FusedAdam.state_dict() gives: float32 states, `master_param` in float32 or, of a
    bfloat16 parameter, its int16 remainder. The step is the group's."""
    _check_adam(adam, "TransformerEngine's FusedAdam", _ADAM[:2])
    entry = {key: adam.states[key].to(adam.device) for key in _ADAM[:2]}
    master = adam.master if adam.remainder is None else adam.remainder
    if master is not None and master.dtype == torch.int8:
        raise ValueError("TransformerEngine has no remainders in int8: transcode to master=bf16+i16 first")
    return entry if master is None else {**entry, "master_param": master.to(adam.device)}


def write_bitsandbytes(adam, block=BNB_BLOCK):
    """AdamW8bit's: places in the dynamic maps for blocks, float32 below 4096 elements."""
    _check_adam(adam, "bitsandbytes' AdamW", _ADAM[:2])
    _check_finite(adam, "bitsandbytes' AdamW")
    entry = {"step": int(adam.step or 0)}
    for number, key in _BNB.items():
        state = adam.states[key].contiguous()
        if state.numel() < blocked_numel():
            entry[f"state{number}"] = state
            continue
        book = dynamic_map(signed=number == "1")
        places, scales = encode_book(flat(state), book, block)
        entry.update({f"state{number}": places.view(state.shape), f"qmap{number}": book.clone(),
                      f"absmax{number}": scales})
    return {key: value.to(adam.device) if isinstance(value, torch.Tensor) else value
            for key, value in entry.items()}


def write_torchao(adam, kind, block):
    """torchao.optim's: its subclasses of tensors where blocks fill a state of 4096 elements or more."""
    module, name, _ = TORCHAO[kind]
    try:
        cls = getattr(import_module(f"torchao.optim.{module}"), name)
    except ImportError:
        raise ImportError(f"to={kind!r} makes tensors of torchao's classes: install torchao") from None
    _check_adam(adam, "torchao's AdamW", _ADAM[:2], _ADAM)
    _check_finite(adam, "torchao's AdamW")
    entry = {"step": torch.tensor(adam.step or 0.0, dtype=torch.float32, device="cpu")}
    for key, state in adam.states.items():
        state = state.contiguous()
        if state.numel() >= blocked_numel() and state.numel() % block == 0:
            state = _torchao_state(cls, kind, block, state, key == "exp_avg")
        entry[key] = state.to(adam.device)
    return entry


def _torchao_state(cls, kind, block, state, signed):
    numbers = state.reshape(-1)
    if kind == "torchao.fp8":
        made = cls.zeros(state.shape, block_size=block, device="cpu")
        scales = largest(numbers, block).clamp(min=1e-12) / 448.0
        codes = (numbers / spread(scales, block, len(numbers))).to(torch.float8_e4m3fn)
    else:
        made = cls.zeros(state.shape, signed=signed, block_size=block, device="cpu")
        codes, scales = encode_book(numbers, made.qmap, block, least=1e-12)
        if kind == "torchao.4bit":
            codes = codes[::2] << 4 | codes[1::2]
    made.codes.copy_(codes.view(made.codes.shape))
    made.scale.copy_(scales)
    return made


def _check_adam(adam, who, needed, allowed=None):
    """Raises ValueError unless the states are those of `who`."""
    if not set(needed) <= set(adam.states) <= set(allowed or needed):
        raise ValueError(f"{who} has the states {', '.join(needed)}, and the file has "
                         f"{', '.join(sorted(adam.states)) or 'none'}")


def _check_finite(adam, who):
    for key, state in adam.states.items():
        if not state.isfinite().all():
            raise ValueError(f"{key} has numbers that are not finite, which {who} does not store")
