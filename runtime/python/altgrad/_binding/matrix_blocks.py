"""Blocks of a parameter: rows and columns of its matrix that a step takes for a tensor of its own."""

import re
from collections.abc import Mapping

import torch

from .shards import local_states, shape_of

# A key in `state` begins so where it is of a block.
_KEY = re.compile(r"block_(\d+)\.")
_LAST_TAG = (1 << 24) - 1  # of a tensor of a plan


class Block:
    """The rows and columns `place`, two slices, of the matrix with `sizes` that the parameter `owner` is.

    `matrices` are those that its own shape has.
    """

    is_whole, matrices = False, None

    def __init__(self, owner, sizes, place, index):
        self.owner, self.index, self.shape = owner, index, tuple([of.stop - of.start for of in place])
        self._sizes, self._place, self._laid, self._prefix = sizes, place, None, f"block_{index}."

    def local(self):
        """The block in the memory of the parameter."""
        self._laid = _layout_of(self.owner)
        try:
            return self.owner.detach().view(self._sizes)[self._place]
        except RuntimeError:
            raise ValueError(f"of shape {tuple(self.owner.shape)} and strides {self.owner.stride()} is stepped in blocks of a matrix "
                             f"{self._sizes}, which is no view of it: make it contiguous, or give a group with it blocks=False") from None

    def is_still(self, _):
        """Whether the parameter lies where it lay."""
        return _layout_of(self.owner) == self._laid

    def grad(self, _):
        grad = self.owner.grad
        if grad is None or grad.layout != torch.strided:
            return grad
        grad = grad.detach() if grad.requires_grad else grad
        return (grad if grad.shape == self._sizes else grad.reshape(self._sizes))[self._place]

    def own(self, held):
        """What a parameter's `state` has of this block, by the keys of a parameter without blocks."""
        return {key.removeprefix(self._prefix): value for key, value in held.items()
                if isinstance(key, str) and key.startswith(self._prefix)}

    def named(self, held):
        """The entries of the parameter's `state` for that."""
        return {f"{self._prefix}{key}": value for key, value in held.items()}


def _layout_of(param):
    return param.data_ptr(), param.shape, param.stride(), param.dtype


def blocks_of(param, rows, columns, most):
    """The Blocks of at most so many rows and columns, those of the first rows in front; [None], one whole, where it is short."""
    places = [(of_rows, of_columns) for of_rows in _cut(rows, most) for of_columns in _cut(columns, most)]
    return [Block(param, (rows, columns), place, index) for index, place in enumerate(places)] if len(places) > 1 else [None]


def _cut(size, most):
    return [slice(begin, min(begin + most, size)) for begin in range(0, size, most)]


def tags_of(blocks, place, more):
    """The tag of each: the first one's is the parameter's place, the others count from the last tag back, beyond `more` of
    parameters in front. So none depends on which have gradients."""
    return [place, *[_LAST_TAG - more - index for index in range(len(blocks) - 1)]]


def _index_of(key):
    found = _KEY.match(key) if isinstance(key, str) else None
    return int(found[1]) if found else -1


def plain_key(key):
    """A key of a state as a parameter without blocks has it."""
    return key[_KEY.match(key).end():] if _index_of(key) >= 0 else key


def check_blocks(blocks, held, count_key):
    """Raises ValueError where a `state` is of a parameter in other blocks than `blocks`, as blocks_of makes them."""
    if not isinstance(held, Mapping):
        return
    found, wanted = {_index_of(key) for key in held} - {-1}, {block.index for block in blocks if block}
    if found != wanted and (found or held.get(count_key) is not None):
        was, now = [f"in {len(of)} block{'s' * (len(of) > 1)}" if of else "as a whole" for of in (found, wanted)]
        raise ValueError(f"its state is of a parameter that is stepped {was}, and it is stepped {now}: give the group blocks, "
                         "max_precond_dim and merge_dims as they were, or clear the state, and the parameter begins anew")


def count_in(held):
    """The count of steps in a `state`; blocks count alike."""
    return held.get("step", held.get("block_0.step"))


def states_here(held, part):
    """The states of what is stepped by itself of a parameter, with `part` as a Row has it, from all in its `state`."""
    return part.own(held) if isinstance(part, Block) else local_states(held)


def name_here(name, part):
    """How a message calls that, of a parameter with this name."""
    return f"block {part.index} of {name}" if isinstance(part, Block) else name


def shape_here(param, part):
    """The shape of what is stepped by itself, of which this rank may have a part."""
    return part.shape if isinstance(part, Block) else shape_of(param)
