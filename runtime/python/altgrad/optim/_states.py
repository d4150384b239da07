"""What lies beside a parameter: checked as a whole, made as a whole."""

import ctypes
from ctypes import POINTER, c_double, c_int32, c_int64

import torch

from .._binding.layout import check_extent, check_memory, check_mode, in_order, name_of, same_order
from .._binding.matrix_blocks import Block, name_here, states_here
from .._binding.shards import in_whole
from .._binding.device_context import unwritten
from .._core import DTYPES, core, dtype_of, handle_of, int64s
from .._library import Error, struct
from .._storage.blocks import scale_key
from .._storage.counts import count_of, is_count
from ._ema import STATE as EMA

_State = struct("State", sizes=POINTER(c_int64), strides=POINTER(c_int64), dims=c_int64, dtype=c_int32, copies=c_int32,
                first=c_double)


def check_whole(optimizer, part, row, options):
    """Raises ValueError where a parameter has some of its states and lacks others.

    `part` is the Set of the row. Going on from zeros beside an old step count would be a large step.
    A master, a copy and an average are made of the parameter, and a state of an option begins when it is on. So does one of a rule
    of which some steps have another program: it may be that no step before had the state.
    """
    timed = bool(optimizer._timed_of(optimizer.param_groups[row.group]))
    held = states_here(optimizer.state.get(row.owner, {}), row.part)
    needed = [(stream, stream.state) for stream in part.states
              if stream.role == "state" and not (stream.state == EMA and optimizer._ema is not None)]
    counted = optimizer._count_key
    if counted and (part.step or optimizer._always_counts):
        needed.append((None, counted))
    there = [key for _, key in needed if held.get(key) is not None]
    missing = [key for stream, key in needed if held.get(key) is None
               and not (stream and (timed or optimizer._begins_late(stream.key, options)))]
    if there and missing:
        raise ValueError(
            f"altgrad.optim.{type(optimizer).__name__}: the state of {name_here(name_of(optimizer, row.owner), row.part)} has "
            f"{', '.join(map(repr, there))} and no {', '.join(map(repr, missing))}: load a state that is whole, "
            "or clear it, and the parameter begins anew")


def check_held(optimizer, bundle, row):
    """Raises ValueError where a state that is there is none that the step takes, or lacks its scales."""
    held, states = states_here(optimizer.state.get(row.owner, {}), row.part), bundle.sets[row.set].states
    keys = [stream.state for stream in states]
    for index, (stream, key) in enumerate(zip(states, keys)):
        state = held.get(key)
        if stream.role in ("block_scale", "tensor_scale"):
            pair = key, "copy" if stream.role == "tensor_scale" else key.removesuffix("_scale")
            there = [name for name in pair if held.get(name) is not None]
            if len(there) == 1:
                raise ValueError(f"there is a state {there[0]!r} without its {pair[there[0] == key]!r}: load both, or neither")
        if state is None and stream.role == "input":
            raise ValueError(f"its rule reads {key!r}: call step(inputs={{{key!r}: [...]}}) with a tensor for each parameter, or put "
                             f"one into optimizer.state[parameter][{key!r}]")
        if state is None:
            continue
        check_memory(f"state {key!r}", state)
        check_mode(state)
        facts = (state.is_neg() or state._is_zerotensor()) + 2 * (scale_key(key) in held and scale_key(key) not in keys)
        try:
            core().altgrad_core_check_state(bundle.native, row.set, index, handle_of(state), facts, handle_of(row.param),
                                            int64s(row.strides), _matrices(row))
        except Error as error:
            raise ValueError(str(error)) from None


def new_state(bundle, row, index):
    """A state that is not there: its first value, or the parameter for its master and its further copy."""
    of, param = _State(), row.param
    core().altgrad_core_new_state(bundle.native, row.set, index, param.dim(), int64s(param.shape), int64s(row.strides),
                                  _matrices(row), ctypes.byref(of))
    made = unwritten(torch.empty_strided(of.sizes[:of.dims], of.strides[:of.dims], dtype=DTYPES[of.dtype],
                                         device=param.device))
    return made.copy_(param.resolve_neg()) if of.copies else made.fill_(of.first) if of.first else made.zero_()


def _matrices(row):
    return row.matrices and ctypes.byref(row.matrices)


def existing_states(optimizer, bundle, rows):
    """(tensor, key, parameter) of the states and counts that are there and stay where they are."""
    counts = {}
    for row in rows:
        held = states_here(optimizer.state.get(row.owner, {}), row.part)
        for stream in bundle.sets[row.set].states:
            state = held.get(stream.state)
            if state is None:
                continue
            check_extent(state)  # of those that are copied into another order, too
            if _fits(stream, state, row):
                yield state, stream.state, row.owner
        count = held.get(optimizer._count_key)
        if is_count(count, row.param.device):
            counts.setdefault(count.data_ptr(), (count, optimizer._count_key, row.owner))
    yield from counts.values()


def _fits(stream, state, row):
    return stream.block != 1 or stream.packed or stream.geometry or (
        same_order(state, row.strides) and not state.is_neg() and state.dtype == dtype_of(stream.format))


def make_states(optimizer, rows):
    """Puts what the kernels need and the states lack into optimizer.state: all of it, or nothing.

    `rows` holds (bundle, row). Whatever is made here outlives the step, so it is made outside of
    inference mode. A count that two parameters share, as some checkpoints have it, would be raised
    twice: the second gets its own.
    """
    counts = {row.count.data_ptr() for _, row in rows if row.finished and row.count is not None}
    with torch.inference_mode(False), torch.no_grad():
        made = [(row, *_made(optimizer, bundle, row, counts))
                for bundle, row in rows if not row.finished]
    for row, held, tensors, count, private in made:
        if held:
            optimizer.state[row.owner].update(held)
        if private is not None:
            optimizer._counts[row.owner] = private
        row.tensors, row.count, row.finished = tensors, count, True


def _made(optimizer, bundle, row, counts):
    """(what its state gets, the row's tensors, its count, a count that lies in no state)."""
    part, param, counted = bundle.sets[row.set], row.param, optimizer._count_key
    stored = counted and (part.step or optimizer._always_counts)
    if not part.states and not stored:
        count = count_of(None, param.device) if part.step else None
        return {}, [], count, None
    given = optimizer.state.get(row.owner, {})
    held, new, made = states_here(given, row.part), {}, set()
    count = private = None
    # The count first: torch's own states begin with "step".
    if stored:
        count = count_of(held.get(counted), param.device)
        new[counted] = count = count.clone() if count.data_ptr() in counts else count
        counts.add(count.data_ptr())
    for index, stream in enumerate(part.states):
        state = held.get(key := stream.state)
        if state is None:
            state = new_state(bundle, row, index)
            if stream.state == EMA and optimizer._ema is not None:
                state.copy_(param)
            elif stream.role == "state":
                optimizer._begin_state(row, key, state)
            made.add(key)
        elif not _fits(stream, state, row):
            state = in_order(state, row.strides, dtype_of(stream.format))
        new[key] = state
    if "copy_scale" in made:
        from ..quant._blocks import begin_copy  # late: it takes a second
        whole = {**held, **new}
        begin_copy(in_order(whole.get("master", param), row.strides), whole, optimizer._storage_of(optimizer.param_groups[row.group])["copy"])
    if part.step and not stored:
        # A buffer that was there before us has seen its first step.
        if made or row.owner not in optimizer._counts:
            private = count_of(0.0 if made else 1.0, param.device)
        count = optimizer._counts[row.owner] if private is None else private
    tensors = [new[stream.state] for stream in part.states]
    if isinstance(row.part, Block):
        return row.part.named(new), tensors, count if part.step else None, private
    blocks = {stream.state: stream.block for stream in part.states}
    stored = {key: given[key] if value is held.get(key) else in_whole(value, row.owner, blocks.get(key, 1))
              for key, value in new.items()}
    return stored, tensors, count if part.step else None, private
