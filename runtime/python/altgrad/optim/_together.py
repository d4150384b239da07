"""Runs the step of kernels, torch's class and other ranks together, with one norm and one verdict."""

import ctypes
import math

import torch

from .._binding.where import stays_on_device
from .._bundle import ADD, ALL, SUMSQ

# What FSDP calls its flat parameters, and the original ones that are views of them.
_MARKS = "_is_flat_param", "_fsdp_flattened"


def step_together(tables, theirs, group, given, clipped, scaler):
    """Runs one step of several devices, torch's class and ranks; returns what it says, by role.

    `tables` are TensorTables in the order in which they step, `theirs` is a TorchPart or
    None, `group` None or the process group over whose ranks norm and flag are combined,
    `scaler` as compile_sets has it. torch's part comes before our parameters change, for it
    may refuse.
    """
    if group is not None and scaler is True:
        given["flag"] = over_ranks(group, given["flag"])
    others = _Others(theirs, group, given, clipped, checked=isinstance(scaler, str))
    if not (tables and others.wait):
        others.norm(None), others.finite(None), others.step()
    for table in tables:
        table.begin(given)
    words = [table.advance() for table in tables]
    while any(words):
        _join([of for of in words if of], others)
        words = [table.advance() if of else None for table, of in zip(tables, words)]
    return {**(tables[0].results() if tables else {}), **others.results}


class _Others:
    """What takes part in a step beside our tables: torch's class and other ranks.

    `checked`: the step finds out itself whether all gradients are finite. `wait`: they need
    what our tables find out. `results` is what the step says by role, as far as it is known here.
    """

    def __init__(self, theirs, group, given, clipped, checked):
        self._theirs, self._group, self._given = theirs, group, given
        self._clipped, self._checked = clipped, checked
        self._inverse = _inverse(given["scale"]) if theirs else 1.0
        self._grads = theirs.grads(self._inverse) if theirs else []
        self._coefficient, self._finite = None, None
        self.results, self.wait = {}, clipped or checked

    def norm(self, share):
        """The square of the common norm; `share`: our own squares, or None."""
        if not self._clipped or (share is not None and self._theirs is None and self._group is None):
            return share
        total, self.results["norm"], self._coefficient = _bound(
            self._theirs, self._grads, self._group, share, self._given["max_norm"])
        return total

    def finite(self, share):
        """Whether everybody's gradients are finite, an int32; `share`: ours, or None."""
        if not self._checked:
            return share
        fine = torch.ones((), dtype=torch.int32, device="cpu") if share is None else share
        if self._theirs:
            own = self._theirs.finite() & bool(0.0 < self._inverse < math.inf)
            fine = fine & own.to(fine.device)
        if self._group is not None:
            fine = (over_ranks(self._group, (1 - fine).float()) == 0.0).int()
        self._finite = fine
        if share is None:
            self.results["flag"] = float(1 - fine)
        return fine

    def step(self):
        """Steps torch's part, unless this step is skipped."""
        if not self._theirs:
            return
        skipped = not self._finite if self._checked else float(self._given["flag"]) != 0.0
        if not skipped:
            self._theirs.step(self._grads, self._coefficient)


def over_ranks(group, share):
    """The sum of every rank's share, added in the order of ranks: the same bits on all of them.

    `share` is a number, or a 0-dim tensor; then the sum is one, on the same device.
    """
    import torch.distributed as dist
    own = isinstance(share, torch.Tensor)
    mine = share if own else torch.tensor(share, device="cpu")
    mine = mine.detach().to(_device_for(group, mine.device), torch.float64).reshape(1)
    shares = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(shares, mine, group=group)
    total = torch.zeros_like(mine)
    for part in shares:
        total += part
    return total.to(share.device)[0] if own else total.item()


def _device_for(group, device):
    """Where the group's ranks can exchange what lies on `device`."""
    kinds = [of.type for of in group._device_types]
    return device if device.type in kinds or not kinds else torch.device(kinds[0])


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
    """Raises where a parameter is marked as a shard, because its norm is not the whole norm."""
    for index, group in enumerate(optimizer.param_groups):
        for place, param in enumerate(group["params"]):
            if any(getattr(param, mark, False) for mark in _MARKS):
                raise RuntimeError(
                    f"altgrad.optim.{type(optimizer).__name__}: parameter {place} of group {index} "
                    "is a shard, and max_grad_norm would clip every rank by its own norm; "
                    "pass process_group=, the group of the ranks that hold the shards")


def _bound(theirs, grads, group, share, max_norm):
    """(square of the norm, the norm, clip_grad_norm_'s coefficient); `share`: the squares of our own part.

    The first and the third are 0-dim tensors. The norm is a number if no device has to be waited for. If torch steps all
    parameters, the norm is bounded in the precision of torch's gradients.
    """
    norm = theirs.norm(grads) if theirs else torch.zeros((), device="cpu")
    total = None
    if share is not None or group is not None:
        device = norm.device if share is None else share.device
        own = norm.to(device, torch.float64)
        total = own * own + (0.0 if share is None else share.double())
        total = (total if group is None else over_ranks(group, total)).float()
        norm = _root(total)
    coefficient = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return total, norm.float() if stays_on_device(norm) else norm.item(), coefficient


def _root(total):
    """The square root rounded to the nearest float32, as the kernels have it; torch's differs on some CPUs."""
    if total.device.type == "cpu":
        return torch.tensor(math.sqrt(total.item()), dtype=torch.float32, device="cpu")
    return total.double().sqrt().float()


@torch.no_grad()
def _join(shares, others):
    """Combines the (reduction, word) of all tables with the others' part, and steps that.

    A sum goes into a table's first word and 0 into the rest, which the kernels add.
    """
    sums = [[word for kind, word in of if kind in (ADD, SUMSQ)] for of in shares]
    verdicts = [word for of in shares for kind, word in of if kind == ALL]
    if any(sums):
        first, *rest = [word for of in sums for word in of]
        total = first.clone()
        for word in rest:
            total += _beside(word, total)
        total = others.norm(total)
    if verdicts:
        fine = verdicts[0].clone()
        for word in verdicts[1:]:
            fine &= _beside(word, fine)
        fine = others.finite(fine)
        for word in verdicts:
            word.copy_(fine)
    others.step()
    for of in filter(None, sums):
        for word in of:
            word.zero_()
        of[0].copy_(total)


def _beside(word, other):
    return word.to(other.device, non_blocking=other.device.type != "cpu")


def _inverse(scale):
    """1 / scale to the nearest float32."""
    if isinstance(scale, torch.Tensor):
        return (1.0 / scale.detach().double()).float()
    return ctypes.c_float(1.0 / scale if scale else math.copysign(math.inf, scale)).value
