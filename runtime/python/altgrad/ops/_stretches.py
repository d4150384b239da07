"""How the scales of a contiguous tensor lie over it."""

from functools import lru_cache

_MOST = 1 << 18  # stretches
_BLOCKS = [1 << bits for bits in range(4, 9)]  # those that the compiler has: bundle.h


@lru_cache(16)
def stretches(sizes, scales, steps, block):
    """A tensor of shape `sizes` in stretches of memory, each with scales that lie in a row.

    `scales` and `steps` are the shape and the strides of the scales, which broadcast against the tensor; where `block`
    is not None, the last dimension has one for each `block` neighbours. The answer is (what a scale is of, as
    altgrad-opt's --scales has it; elements of a stretch; of each stretch, where its first scale is, in elements). It is
    None where the result is larger than the tensor, and where stretches would be too many.
    """
    block = block or 0
    wanted = (*sizes[:-1], -(-sizes[-1] // block)) if block else sizes
    if len(scales) > len(sizes) or any([of not in (1, size) for of, size in zip(reversed(scales), reversed(wanted))]):
        return None
    extents, cut = _extents(sizes, scales, steps, block)
    if cut:
        # Blocks do not reach over the end of a row.
        if block not in _BLOCKS or extents.pop()[1] != 1:
            return None
        extent, columns = str(block), cut
    elif (same := _take(extents, 0)) > 1:
        extent, columns, rest = "tensor", same, list(extents)
        if same in _BLOCKS and rest and _take(rest, None) and not rest:
            extent, columns = str(same), same * _size(extents)
            extents = []
    else:
        extent, columns = "element", _take(extents, None)
    first = extents is not None and _places(extents)
    return first and (extent, columns, first)


def _extents(sizes, scales, steps, block):
    """[(elements of a dimension with more than one, how far its next scale is)], the last one in two where its blocks are
    all whole; and the elements of the last one where they are not."""
    extents, ahead = [], len(sizes) - len(scales)
    for place, size in enumerate(sizes):
        own = place - ahead
        of, step = (scales[own], steps[own]) if own >= 0 and scales[own] > 1 else (1, 0)
        if block > 1 and place + 1 == len(sizes) and of > 1:
            if size % block:
                return [*extents, (of, step)], size
            extents += [(size // block, step), (block, 0)]
        elif size > 1:
            extents.append((size, step))
    return extents, 0


def _take(extents, step):
    """Takes away the last dimensions whose scales lie `step` apart each, None: in a row; answers their elements."""
    run = 1
    while extents and extents[-1][1] == (run if step is None else step):
        run *= extents.pop()[0]
    return run


def _size(extents):
    size = 1
    for of, _ in extents:
        size *= of
    return size


def _places(extents):
    """Of each element of these dimensions its scale; None where they are too many."""
    places = [0]
    for size, step in extents:
        if len(places) * size > _MOST:
            return None
        places = [place + i * step for place in places for i in range(size)]
    return places
