"""What lies beside a parameter: checked as a whole, made as a whole."""

import torch

from .._binding.layout import check_extent, check_memory, in_order, name_of, same_order, unit_shape
from .._binding.shards import in_whole, local_states
from .._core import dtype_of
from .._storage.blocks import check_codes, zeros_beside
from .._storage.counts import count_of, is_count


def check_whole(optimizer, part, row, options):
    """Raises ValueError where a parameter has some of its states and lacks others.

    `part` is the Set of the row. Going on from zeros beside an old step count would be a large step.
    A master and a copy are made of the parameter, and a state of an option begins when it is on.
    """
    held = optimizer.state.get(row.owner, {})
    needed = [(stream, optimizer._state_key(stream)) for stream in part.states if stream.role == "state"]
    counted = optimizer._count_key
    if counted and (part.step or optimizer._always_counts):
        needed.append((None, counted))
    there = [key for _, key in needed if held.get(key) is not None]
    missing = [key for stream, key in needed if held.get(key) is None
               and not (stream and optimizer._only_with.get(stream.key) in options)]
    if there and missing:
        raise ValueError(
            f"altgrad.optim.{type(optimizer).__name__}: the state of {name_of(optimizer, row.owner)} has "
            f"{', '.join(map(repr, there))} and no {', '.join(map(repr, missing))}: load a state that is whole, "
            "or clear it, and the parameter begins anew")


def check_blocks(optimizer, part, row):
    """Raises ValueError where codes that have scales by blocks lie in another order than the row is visited in."""
    held = local_states(optimizer.state.get(row.owner, {}))
    scaled = {stream.key for stream in part.states if stream.role == "block_scale"}
    for stream in part.states:
        key = optimizer._state_key(stream)
        if stream.role != "block_scale" and stream.key in scaled and held.get(key) is not None:
            check_codes(key, held[key], row.param, row.strides, stream.packed)


def kept_states(optimizer, bundle, rows):
    """(tensor, key, parameter) of the states and counts that are there and stay where they are."""
    counts = {}
    for row in rows:
        held = local_states(optimizer.state.get(row.owner, {}))
        for stream in bundle.sets[row.set].states:
            key = optimizer._state_key(stream)
            state = held.get(key)
            if state is None:
                continue
            check_memory(f"altgrad.optim.{type(optimizer).__name__}: {name_of(optimizer, row.owner)}: state {key!r}", state)
            check_extent(state)  # of those that are copied into another order, too
            if _fits(stream, state, row):
                yield state, key, row.owner
        count = held.get(optimizer._count_key)
        if is_count(count, row.param.device):
            counts.setdefault(count.data_ptr(), (count, optimizer._count_key, row.owner))
    yield from counts.values()


def _fits(stream, state, row):
    return stream.block != 1 or stream.packed or (
        same_order(state, row.strides) and not state.is_neg() and state.dtype == dtype_of(stream.format))


def make_states(optimizer, rows):
    """Puts what the kernels need and the states lack into optimizer.state: all of it, or nothing.

    `rows` holds (bundle, row). Whatever is made here outlives the step, so it is made outside of
    inference mode. A count that two parameters share, as some checkpoints have it, would be raised
    twice: the second gets its own.
    """
    counts = {row.count.data_ptr() for _, row in rows if row.finished and row.count is not None}
    with torch.inference_mode(False), torch.no_grad():
        made = [(row, *_made(optimizer, bundle.sets[row.set], row, counts))
                for bundle, row in rows if not row.finished]
    for row, held, tensors, count, private in made:
        if held:
            optimizer.state[row.owner].update(held)
        if private is not None:
            optimizer._counts[row.owner] = private
        row.tensors, row.count, row.finished = tensors, count, True


def _made(optimizer, part, row, counts):
    """(what its state gets, the row's tensors, its count, a count that lies in no state)."""
    param, counted = row.param, optimizer._count_key
    stored = counted and (part.step or optimizer._always_counts)
    if not part.states and not stored:
        count = count_of(None, param.device) if part.step else None
        return {}, [], count, None
    given = optimizer.state.get(row.owner, {})
    held, new, made = local_states(given), {}, set()
    count = private = None
    # The count first: torch's own states begin with "step".
    if stored:
        count = count_of(held.get(counted), param.device)
        new[counted] = count = count.clone() if count.data_ptr() in counts else count
        counts.add(count.data_ptr())
    for stream in part.states:
        key = optimizer._state_key(stream)
        state = held.get(key)
        if state is None:
            state = (torch.zeros(unit_shape(param, row.matrices), dtype=dtype_of(stream.format), device=param.device)
                     if stream.of_units else
                     zeros_beside(param, stream, row.strides) if stream.block != 1 or stream.packed else
                     optimizer._first_state(stream, row, dtype_of(stream.format)))
            made.add(key)
        elif not _fits(stream, state, row):
            state = in_order(state, row.strides, dtype_of(stream.format))
        new[key] = state
    if "copy_scale" in made:
        from ..ops._blocks import begin_copy  # late: it takes a second
        whole = {**held, **new}
        begin_copy(in_order(whole.get("master", param), row.strides), whole, optimizer._words["copy"])
    if part.step and not stored:
        # A buffer that was there before us has seen its first step.
        if made or row.owner not in optimizer._counts:
            private = count_of(0.0 if made else 1.0, param.device)
        count = optimizer._counts[row.owner] if private is None else private
    tensors = [new[optimizer._state_key(stream)] for stream in part.states]
    blocks = {optimizer._state_key(stream): stream.block for stream in part.states}
    stored = {key: given[key] if value is held.get(key) else in_whole(value, row.owner, blocks.get(key, 1))
              for key, value in new.items()}
    return stored, tensors, count if part.step else None, private
