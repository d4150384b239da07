"""A step of our kernels, torch's class and other ranks together: one norm, one flag."""

import ctypes
import math

import torch


# What FSDP calls its flat parameters, and the original ones that are views of them.
_MARKS = "_is_flat_param", "_fsdp_flattened"


def step_together(table, theirs, group, given, clipped, scaled):
    """Runs one step; returns what it says of itself, by role.

    `table` and `theirs` (a TorchPart) may be None, `group` too: the process group
    over whose ranks norm and flag are combined. torch's part comes before our
    parameters change, for it may refuse.
    """
    if group is not None and scaled:
        given["flag"] = over_ranks(group, given["flag"])
    skipped = given["flag"] != 0.0
    grads = theirs.grads(_round(1.0 / given["scale"])) if theirs else []
    found = {}

    def clip(share):
        """The square of the common norm; torch's part is stepped by it."""
        total, found["norm"], coefficient = _bound(theirs, grads, group, share, given["max_norm"])
        if theirs and not skipped:
            theirs.step(grads, coefficient)
        return total

    if clipped and table:
        table.run(given, lambda address, words: _exchange(address, words, clip))
    elif clipped:
        clip(None)
    else:
        if theirs and not skipped:
            theirs.step(grads)
        if table:
            table.run(given)
    return found


def over_ranks(group, share):
    """The sum of every rank's share, added in the order of ranks: the same bits on all of them."""
    import torch.distributed as dist
    mine = torch.tensor([share], dtype=torch.float64, device="cpu")
    shares = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(shares, mine, group=group)
    total = 0.0
    for part in shares:
        total += part.item()
    return total


def check_group(group):
    """Raises unless `group` is None or a process group that this rank is in."""
    if group is None:
        return group
    import torch.distributed as dist
    if not dist.is_available() or not isinstance(group, dist.ProcessGroup):
        if dist.is_available() and group is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError("process_group: this rank is not in the group")
        raise TypeError("process_group is a torch.distributed.ProcessGroup or None, "
                        f"not {type(group).__name__}")
    return group


def check_shards(optimizer):
    """Raises where a parameter is seen to be a shard: its norm is not the whole norm."""
    for index, group in enumerate(optimizer.param_groups):
        for place, param in enumerate(group["params"]):
            if any(getattr(param, mark, False) for mark in _MARKS):
                raise RuntimeError(
                    f"altgrad.optim.{type(optimizer).__name__}: parameter {place} of group {index} "
                    "is a shard, and max_grad_norm would clip every rank by the norm of its own; "
                    "pass process_group=, the group of the ranks that hold the shards")


def _bound(theirs, grads, group, share, max_norm):
    """(square of the norm, the norm, clip_grad_norm_'s coefficient); `share`: our own squares.

    With nobody else, torch's part is bounded in its own precision.
    """
    norm = theirs.norm(grads) if theirs else torch.zeros((), device="cpu")
    total = None
    if share is not None or group is not None:
        total = norm.item() * norm.item() + (share or 0.0)
        total = _round(total if group is None else over_ranks(group, total))
        # torch's own sqrt of a float32 is not the nearest on every machine; the kernels' is.
        norm = torch.tensor(math.sqrt(total), dtype=torch.float32, device="cpu")
    return total, norm.item(), torch.clamp(max_norm / (norm + 1e-6), max=1.0)


def _exchange(address, words, clip):
    """Adds the words as the kernels do, and leaves the common total in the first."""
    cells = [ctypes.c_float.from_address(address + offset) for offset, _ in words]
    share = 0.0
    for cell in cells:
        share = _round(share + cell.value)
        cell.value = 0.0
    cells[0].value = clip(share)


def _round(value):
    """To the nearest float32."""
    return ctypes.c_float(value).value
