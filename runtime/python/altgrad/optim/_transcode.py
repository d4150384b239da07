"""Converts state_dicts of optimizers from one storage to another, and reports the errors."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import torch

from .._binding.layout import FORMATS, in_order, is_dense
from .._core import state_layout, blocked_numel, dtype_of
from .._storage import peers
from .._storage.blocks import has_blocks, scale_key
from .._storage.storage_line import LINE, check_state_dict, storage_entry, layout_of, words_of
from .._storage.codes import encode, encode_blocks, largest, spread
from .._storage.file_entries import encode_entry
from .._storage.line import Storage, StorageLike
from .._storage.master import REMAINDER, divide, join
from .._storage.packed import pack
from .._storage.word import check_words, word_of
from ._of_torch import Adam
from ._optimizer import Optimizer

# Words of storage that are no state, or one that need not be there.
_KNOWN = {"param", "grad", "states", "master", "copy", "step", "rungs"}
_KNOWN_WORDS = {"param", "grad", "step", "rungs", "states"}
_WRITERS = {"torch": peers.write_torch, "bitsandbytes": peers.write_bitsandbytes,
            "transformer_engine": peers.write_transformer_engine,
            **{kind: partial(peers.write_torchao, kind=kind) for kind in peers.TORCHAO}}
# The elements of a block where `to` says no other number: "bitsandbytes:2048".
_BLOCKS = {"bitsandbytes": peers.BNB_BLOCK, **{kind: block for kind, (_, _, block) in peers.TORCHAO.items()}}


class StateError(NamedTuple):
    """How far a state is from what it was before `transcode`.

    Both errors are shares of the largest magnitude of the element's block, or of the state where it has no blocks.

    Attributes:
        param: The place of the parameter in the param_groups.
        key: The key of the state, such as "exp_avg".
        max: The worst error.
        rms: The root of the mean square of the errors.
    """

    param: int
    key: str
    max: float
    rms: float


def print_errors(errors: list[StateError]) -> None:
    """Prints a line for each state: the worst and the mean over all parameters."""
    for key in dict.fromkeys(error.key for error in errors):
        mine = [error for error in errors if error.key == key]
        mean = (sum(error.rms**2 for error in mine) / len(mine))**0.5
        print(f"altgrad.transcode: {key} of {len(mine)} parameters: largest error {max(e.max for e in mine):.3g}, "
              f"root mean square {mean:.3g}, as shares of the largest magnitude")


def transcode(state_dict: dict[str, Any], to: Optimizer | type[Optimizer] | StorageLike, *,
              params: Iterable[torch.Tensor] | None = None, storage: StorageLike = "",
              report: Callable[[list[StateError]], object] | bool | None = None) -> dict[str, Any]:
    """Turns the state_dict of an Adam of one library or storage into that of another.

    It reads the state_dict() of torch.optim, altgrad.optim, bitsandbytes (AdamW8bit; with the code books of the
    file), torchao.optim (8bit, 4bit, Fp8) and TransformerEngine's FusedAdam (with `master_param`, also as int16
    remainders). Numbers are decoded to float32 and rounded once, to nearest.

    Args:
        state_dict: What an optimizer's `state_dict()` gave. It stays as it is.
        to: What is to be written: an optimizer of altgrad or its class; a storage ("m=ocp.e4m3fn:256
            v=ocp.e5m2:256 master=bf16+i16", an altgrad.optim.Storage or a dict, in which m, v and vmax are Adam's
            exp_avg, exp_avg_sq and max_exp_avg_sq, and other names are keys); or "torch", "bitsandbytes",
            "torchao.8bit", "torchao.4bit", "torchao.fp8" or "transformer_engine". "bitsandbytes:2048" has blocks of another
            size than that library's own, as "torchao.8bit:512" has.
        params: The parameters in the order of the param_groups; those of an optimizer in `to` if not given.
            They say in which order of memory states are to lie. They are needed where a
            float32 master becomes a remainder or is made of one. A parameter whose master becomes a remainder
            is set to the upper half of its master, which differs from the parameter by one place where the
            master lay in the middle between two numbers.
        storage: The storage of the optimizer that made the file. Only needed where codes lie in integers and
            the file, of another library or of an older altgrad, does not say how.
        report: Called with a list of StateError, one for each state of each parameter. True prints a line for each
            state, and None measures nothing.

    Returns:
        A new state_dict.

    Raises:
        ValueError, TypeError: `to` is unknown, the states have no known layout, shapes do not fit, or `to` has
        no place for
            a master. Nothing has changed then.
        ImportError: A state_dict for torchao is asked for, and torchao is not installed.

    Example:
        >>> optimizer = altgrad.optim.AdamWFp8(model.parameters())
        >>> optimizer.load_state_dict(altgrad.transcode(torch.load("bnb.pt"), to=optimizer))
    """
    report = print_errors if report is True else report
    target = _Target(to)
    check_state_dict("altgrad.transcode", state_dict)
    groups = [dict(group) for group in state_dict["param_groups"]]
    places = [place for group in groups for place in group["params"]]
    params = _checked(params if params is not None else target.params, places)
    words = _words_by_key(Storage(storage), Adam._keys)
    state, errors, edits, seen = {}, [], [], set()
    for index, group in enumerate(groups):
        target.enter(index)
        steps, own = set(), _words_of(group, words, f"param_group {index} of the file")
        for place in group["params"]:
            if place not in state_dict["state"]:
                continue
            param = params.get(place)
            adam = _read(state_dict["state"][place], group, own, param, f"parameter {place}")
            steps.add(adam.step)
            seen.update(adam.states)
            state[place], edit = target.write(adam, param, f"parameter {place}")
            edits += edit
            if report:
                errors += _errors(place, adam, state[place], target)
        target.regroup(group, steps, f"group {index}")
    for unknown in sorted({*words, *target.words}.union(*target.storages) - seen - _KNOWN - {*Adam._keys.values()}) if seen else ():
        raise ValueError(f"storage names {unknown!r}, and the states are {', '.join(sorted(seen))}")
    with torch.no_grad():
        for param, upper in edits:
            param.copy_(upper)
    if report:
        report(errors)
    rest = {key: value for key, value in state_dict["state"].items() if key not in places}
    return {**state_dict, "state": {**state, **rest}, "param_groups": groups}


def _words_of(group, given, where):
    """The words by which the states of a group are read: what the file says, or else `given`."""
    own_words = words_of(group, where, Adam._keys)
    for key in {*own_words, *given} - _KNOWN_WORDS if own_words and given else ():
        if layout_of(own_words, key) != layout_of(given, key):
            raise ValueError(f"storage says {key}={given.get(key, given.get('states'))}, and {where} "
                             f"says {group[LINE]!r}: leave storage out")
    return own_words or given


def _checked(params, places):
    """{place: parameter}; empty where none are given."""
    if params is None:
        return {}
    params = list(params)
    if len(params) != len(places) or not all(isinstance(p, torch.Tensor) for p in params):
        raise ValueError(f"there are {len(params)} params, and the state_dict has {len(places)} parameters: give "
                         "their tensors in the order of the param_groups")
    return dict(zip(places, params))


def _read(entry, group, words, param, where):
    adam = peers.read(entry, words, where, param)
    if adam.step is None and "step" in group:  # TransformerEngine's
        adam.step = float(group["step"])
    shapes = {tuple(t.shape) for t in (*adam.states.values(), adam.master, adam.remainder)
              if t is not None} | ({tuple(param.shape)} if param is not None else set())
    if len(shapes) > 1:
        raise ValueError(f"{where} has states of shapes {', '.join(map(str, sorted(shapes)))}"
                         + ("" if param is None else ", and of the parameter itself")
                         + "; transcode converts states with a value for each element, not those of rows and columns")
    if param is not None and param.numel():
        strides = (param if is_dense(param) else torch.empty_like(param)).stride()
        adam.states = {key: in_order(state, strides) for key, state in adam.states.items()}
    return adam


def _errors(place, adam, entry, target):
    """The StateErrors of what was written, by reading it."""
    like = next(iter(adam.states.values()), None)
    again = peers.read(entry, target.words, f"parameter {place}", like)
    for key, state in adam.states.items():
        numbers = peers.flat(state)
        if not numbers.numel():
            continue
        off = (peers.flat(in_order(again.states[key].cpu(), state.stride())) - numbers).double()
        block = target.block_of(key, len(numbers)) or len(numbers)
        tops = spread(largest(numbers, block), block, len(numbers)).double()
        share = torch.where(off.isfinite() & (tops > 0), off.abs() / tops, 0.0)
        yield StateError(place, key, share.max().item(), share.square().mean().sqrt().item())


def _words_by_key(words, keys):
    """Words of storage by keys of `state`; raises ValueError for a block or a master that there is not."""
    for name, word in words.items():
        if name == "master" and word not in ("f32", "bf16+i16", "bf16+i8"):
            raise ValueError(f"storage 'master={word}': a master is f32, bf16+i16 or bf16+i8")
    check_words(words)
    return {keys.get(name, name): word for name, word in words.items()}


class _Target:
    """The layout that is to be written: words of storage by keys of `state`, or another library's writer."""

    def __init__(self, to):
        self.params, self.writer, self.words, self.storages, self.kind, self.block = None, None, {}, (), to, 0
        if isinstance(to, Optimizer):
            self.params = [param for group in to.param_groups for param in group["params"]]
            self.storages = [_words_by_key(words, to._keys) for words in to._storages()]
        elif isinstance(to, type) and issubclass(to, Optimizer):
            self.words = _words_by_key(to._words, to._keys)
        elif isinstance(to, str) and "=" not in to and to.partition(":")[0] in _WRITERS:
            self.kind, _, block = to.partition(":")
            self.writer, self.block = _WRITERS[self.kind], self._block_of(block)
            if self.block:
                self.writer = partial(self.writer, block=self.block)
        elif isinstance(to, Mapping) or isinstance(to, str) and "=" in to:
            self.words = _words_by_key(Storage(to), Adam._keys)
        else:
            raise ValueError(f"altgrad.transcode knows no {to!r}: `to` is an optimizer of altgrad.optim, a "
                             f"line of storage, or one of {', '.join(_WRITERS)}")

    def _block_of(self, given):
        if not given:
            return _BLOCKS.get(self.kind, 0)
        if self.kind not in _BLOCKS or not given.isdecimal() or int(given) not in peers.SIZES:
            raise ValueError(f"altgrad.transcode knows no '{self.kind}:{given}': blocks of a power of two from {peers.SIZES[0]} to "
                             f"{peers.SIZES[-1]} elements are of {', '.join(_BLOCKS)}, as in to='bitsandbytes:2048'")
        return int(given)

    def enter(self, index):
        """Writes by the storage of the param_group with this index from now on."""
        self.words = self.storages[min(index, len(self.storages) - 1)] if self.storages else self.words

    def block_of(self, key, count):
        """The elements that share a scale in what is written; 0 where none do."""
        if self.writer:
            return self.block if count >= blocked_numel() else 0
        word = self._word(key)
        return word_of(word).block if has_blocks(word, count) else 0

    def _word(self, key):
        return self.words.get(key, self.words.get("states", "f32" if "master" in self.words else "param"))

    def write(self, adam, param, where):
        """(the entry of `state`, [(parameter, what it has to become)])."""
        if self.writer:
            if self.kind != "transformer_engine" and (adam.master is not None or adam.remainder is not None):
                raise ValueError(f"{where} has a master, for which {self.kind} has no place: take 'master' out of "
                                 "the file's states and into float32 parameters, then transcode")
            try:
                return self.writer(adam), []
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from None
        entry = {} if adam.step is None else {"step": torch.tensor(adam.step, dtype=torch.float32, device="cpu")}
        for key, state in adam.states.items():
            entry.update(self._stored(key, state, param, adam.device))
        edits = self._put_master(entry, adam, param, where)
        return encode_entry(entry, adam.states), edits

    def _stored(self, key, state, param, device):
        word, numbers = self._word(key), peers.flat(state)
        if word == "param":
            word = FORMATS.get(param.dtype, "f32") if param is not None else "f32"
        block = word_of(word).block
        if has_blocks(word, state.numel()):
            from ..quant._blocks import quantize_into  # late: it takes a second
            codes, scales = encode_blocks(word, numbers, block, quantize_into)
            yield scale_key(key), scales.to(device)
            if word_of(word).packed:
                shape, strides = state_layout(state.shape, state.stride(), pairs=True)
                yield key, pack(word, codes).to(device).as_strided(shape, strides)
                return
        else:
            codes = encode("f32" if block > 1 else word, numbers)
        yield key, peers.shaped(codes.to(device), state)

    def _put_master(self, entry, adam, param, where):
        """Adds the master in the asked form; returns [(parameter, its new value)] where the parameter has to change."""
        word = self.words.get("master")
        if adam.master is None and adam.remainder is None:
            return []
        if word is None:
            raise ValueError(f"{where} has a master, and the storage in `to` names none: add "
                             "master=f32 or master=bf16+i16")
        dtype = dtype_of(word_of(word).format) if word_of(word).split else torch.float32
        there = adam.master if adam.remainder is None else adam.remainder
        if there.dtype == dtype:
            entry[REMAINDER if word_of(word).split else "master"] = there.clone()
            return []
        if param is None:
            raise ValueError(f"{where}: a float32 master is split, or a split one joined, with the "
                             "help of the parameter: pass params=")
        master = adam.master if adam.master is not None else _joined(param, adam.remainder, where)
        if not word_of(word).split:
            entry["master"] = master
            return []
        if param.dtype == torch.float32:
            return [(param, master)]
        _check_half(param, where)
        upper, entry[REMAINDER] = divide(master, dtype)
        return [(param, upper)]

    def regroup(self, group, steps, where):
        """Brings a param_group into the form of what is written; `steps` are its parameters'."""
        rate, wants = group.get("lr"), str(self.kind).startswith("torchao")
        if wants and not isinstance(rate, torch.Tensor):
            group["lr"] = torch.tensor(rate, dtype=torch.float32, device="cpu")
        elif not wants and isinstance(rate, torch.Tensor) and not group.get("capturable"):
            group["lr"] = float(rate)
        group.pop("step", None)
        group.pop(LINE, None)
        group.update(storage_entry(self.words, {}))
        if self.kind == "transformer_engine" and steps:
            if len(steps) > 1:
                raise ValueError(f"TransformerEngine counts the steps of a group, and {where} has "
                                 f"parameters with {', '.join(map(str, sorted(steps, key=str)))} steps")
            group["step"] = int(steps.pop() or 0)


def _joined(param, remainder, where):
    _check_half(param, where)
    return join(in_order(param.detach(), remainder.stride()), remainder)


def _check_half(param, where):
    if param.dtype != torch.bfloat16:
        raise ValueError(f"{where} is {param.dtype}; a remainder belongs to a bfloat16 parameter")
