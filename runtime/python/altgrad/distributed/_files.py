"""The states of parts in files: as runs of whole tensors, and back from runs and from whole tensors."""

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

import torch
import torch.distributed as dist

from .._binding.layout import contiguous_strides, is_dtensor, local_of
from .._binding.rank_sets import exchange
from .._binding.matrix_blocks import shape_here
from .._binding.shards import in_whole
from .._core import state_layout
from .._storage.word import word_of
from ._flat_shard import PartOf, FlatShard

_SCALE = "_scale"
REMEDY = "give the files of all ranks to altgrad.distributed.merge_state_dicts, or use torch.distributed.checkpoint"


def encode_shards(part, given, owners, elsewhere):
    """The state_dict `given` of the optimizer `part` of a rank's parts, which says of each state where it is in the
    whole.

    It is a DTensor where `owners` has one for the part, and else a FlatShard. Of parts `elsewhere`, which other ranks
    step as a whole, it has an entry without elements: torch.distributed.checkpoint wants one of every parameter.
    """
    def placed(layout, param, key, value):
        whole, begin, elements = layout(key, value)
        return in_whole(value, owners[param], elements) if param in owners else FlatShard(value, whole, begin)

    return _with_nothing(part, _changed(part, _without(part, given, elsewhere), placed), elsewhere)


def decode_shards(owner, part, given, elsewhere):
    """`given`, which has whole tensors or FlatShards of this rank, as the optimizer `part` of this rank's parts loads
    it.

    Raises ValueError for the FlatShards of another rank or of other buckets, and for tensors of other sizes.
    """
    def own(layout, param, key, value):
        parted = is_dtensor(value)
        value = local_of(value) if parted else value
        whole, begin, elements = layout(key, value if isinstance(value, torch.Tensor) else value["run"])
        count = -(-param.numel() // elements)
        run = _shard_of(value)
        if run is None and value.numel() == (count if parted else prod(whole)):
            local = value.reshape(-1)
            return _shaped(local if parted else local[begin:begin + count].clone(), param, elements)
        if run is None or run[1:] != (whole, begin) or run[0].numel() != count:
            raise ValueError(
                f"{owner}: the file has {_words(value)} of a state {key!r}, and this rank has {count} elements from {begin} "
                f"of {whole}, for other buckets or another model: {REMEDY}")
        return run[0]
    return _changed(part, _without(part, given, elsewhere), own)


def _shaped(local, param, elements):
    """A state in the form that a step makes it in: codes of 4 bits and numbers lie as their parameter, scales in one row."""
    if param.dim() < 2 or elements > 2 or len(local) != prod(shape := param.shape if elements == 1 else state_layout(
            param.shape, param.stride(), pairs=True)[0]):
        return local
    return local.view(shape)


def _without(part, given, elsewhere):
    """A state_dict without the states of what other ranks step as a whole."""
    places = {place for _, param, place in _places(part, given) if param in elsewhere}
    return {**given, "state": {place: held for place, held in given["state"].items() if place not in places}}


def _with_nothing(part, given, elsewhere):
    """A state_dict with an entry for what other ranks keep: a FlatShard without elements of what are numbers."""
    state = dict(given["state"])
    for group, param, place in _places(part, given):
        if param in elsewhere:
            (rule, options, *_), words, state[place] = part._group_rule(group), part._storage_of(group), {}
            for block in part._blocks_of(group, param, {}):
                held = {key: FlatShard(param.new_empty(0), shape_here(param, block), 0) for name, key in part._stored(options, words)
                        if name in rule.declared("state") and not words.get(name, words.get("states", ""))}
                state[place].update(block.named(held) if block else held)
    return {**given, "state": state}


def _places(part, given):
    """(group, parameter, its place in the state_dict `given`) of everything."""
    return [(mine, param, place) for mine, entries in zip(part.param_groups, given["param_groups"])
            for param, place in zip(mine["params"], entries["params"])]


def merge_state_dicts(files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """One state_dict with whole states of those that all ranks saved.

    The class of altgrad.optim loads it in one process, and an optimizer of altgrad.distributed on any number of ranks.

    Args:
        files: What `state_dict()` of each rank gave, in any order, as it is or through torch.save and torch.load.

    Raises:
        ValueError: The file of a rank is missing, or there twice.

    Example:
        >>> optimizer = altgrad.distributed.DistAdamW(model.parameters(), lr=1e-3)
        >>> files = [optimizer.state_dict()]  # of each rank
        >>> optimizer.load_state_dict(altgrad.distributed.merge_state_dicts(files))
    """
    found = sorted(tuple(file.get("ranks", ())) for file in files)
    if not found or found != [(rank, len(found)) for rank in range(len(found))]:
        raise ValueError(f"altgrad.distributed.merge_state_dicts: the files are of (rank, ranks) {found}; it takes that "
                         "of each rank, once")
    state = {}
    for file in files:
        for place, held in file["state"].items():
            _join(state.setdefault(place, {}), held)
    return {"state": state, "param_groups": files[0]["param_groups"]}


def gather_states(part, group, to):
    """The state_dict `part` of every rank, as one with whole states on the CPU of rank `to`; None on the others."""
    rank, files = dist.get_rank(group), [_plain(part)]
    with exchange("the exchange of states"):
        if rank != to:
            dist.send_object_list(files, dist.get_global_rank(group, to), group=group)
            return None
        for other in range(dist.get_world_size(group)):
            if other != rank:
                came = [None]
                dist.recv_object_list(came, dist.get_global_rank(group, other), group=group)
                files += came
    return merge_state_dicts(files)


def _plain(value):
    """What a file has of a state_dict, in the memory of the host."""
    if isinstance(value, FlatShard):
        return _plain(value.as_entry())
    if isinstance(value, dict):
        return type(value)((key, _plain(of)) for key, of in value.items())
    return value.cpu() if isinstance(value, torch.Tensor) else tuple(value) if isinstance(value, PartOf) else value


def _join(state, held):
    for key, value in held.items():
        if (run := _shard_of(value)) is not None:
            local, shape, begin = run
            if prod(shape) and not local.numel():
                continue
            if key not in state:
                # One process has its scales in one row.
                shape = (prod(shape),) if key.endswith(_SCALE) else shape
                state[key] = torch.zeros(shape, dtype=local.dtype, device=local.device)
            state[key].view(-1)[begin:begin + local.numel()] = local
        elif isinstance(value, dict):
            _join(state.setdefault(key, {}), value)
        else:
            state.setdefault(key, value)


def _shard_of(value):
    """(local, whole shape, begin) of a FlatShard, as it is or as a file has it; None of anything else."""
    if isinstance(value, FlatShard):
        return value.local, tuple(value.shape), value.begin
    return (value["run"], tuple(value["whole"]), value["begin"]) if type(value) is OrderedDict and "run" in value else None


def _words(value):
    run = _shard_of(value)
    return f"shape {tuple(value.shape)}" if run is None else f"{run[0].numel()} elements from {run[2]} of {run[1]}"


def _changed(part, given, change):
    """A state_dict whose states with elements, of parameters that have a ShardLocation, are what `change` makes of them."""
    state = dict(given["state"])
    for group, param, place in _places(part, given):
        at = getattr(param, "altgrad_shard_location", None)
        if at is not None and place in state:
            layout = partial(_layout, part, part._storage_of(group), at)
            state[place] = _of(state[place], lambda key, value: change(layout, param, key, value))
    return {**given, "state": state}


def _of(held, change, outer=None):
    return {key: _of(value, change, key) if isinstance(value, dict) and _shard_of(value) is None else
            change(outer or key, value) if _shard_of(value) is not None or (isinstance(value, torch.Tensor) and value.dim())
            else value for key, value in held.items()}


def _layout(part, words, at, key, value):
    """(shape of the whole state, its first entry here, how many elements of the parameter an entry is for)."""
    names = {state: name for name, state in part._keys.items()}
    state = key.removesuffix(_SCALE)
    word = words.get(names.get(state, state), words.get("states", ""))
    if state != key:
        # As DTensors have them: by rows, where rows have whole blocks.
        block, row = word_of(word).block, prod(at.shape[1:])
        whole = (at.shape[0], row // block) if len(at.shape) > 1 and row % block == 0 else (-(-prod(at.shape) // block),)
        return whole, at.offset // block, block
    if value.dtype == torch.uint8 and word_of(word).packed:
        return state_layout(at.shape, contiguous_strides(at.shape), pairs=True)[0], at.offset // 2, 2
    return at.shape, at.offset, 1
