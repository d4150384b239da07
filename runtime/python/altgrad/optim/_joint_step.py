"""One step of kernels, torch's class and other ranks, with an all-reduce of the norm and of found_inf."""

import ctypes
import math

import torch

from .._binding.device_context import on_device_of, stays_on_device
from .._bundle import ADD, ALL, MAX, SUMSQ
from ._rule_sums import of_rules

# What FSDP calls its flat parameters, and the original ones that are views of them.
_MARKS = "_is_flat_param", "_fsdp_flattened"


def joint_step(tables, fallback_part, ranks, scalars, clipped, scaler, multiplied):
    """Runs one step of several devices, torch's class and ranks; returns what it says, by role.

    `tables` are TensorTables in the order in which they step, `fallback_part` is a TorchPart or
    None, `ranks` the Ranks over which norm and flag are combined,
    `scaler` and `multiplied` as compile_sets has them. torch's part comes before our parameters change, for it
    may refuse.
    """
    if ranks and scaler is True:
        scalars["flag"] = ranks.worst(scalars["flag"])
    if tables and tables[0].reproducible_sums:
        return tables[0].run(scalars)
    others = _Others(fallback_part, ranks, scalars, clipped, checked=isinstance(scaler, str), multiplied=multiplied)
    others.steps = fallback_part is not None or any([table.steps() for table in tables])
    if not (tables and others.wait):
        others.norm(None), others.finite(None), others.step()
    kept = [] if others.steps else [(memory, memory.clone()) for table in tables for memory in table.step_states()]
    for table in tables:
        table.begin(scalars)
    points = [table.advance() for table in tables]
    while any(points):
        # Sums over tensors first: then all tables, on every rank, wait at the same sum over the step.
        now = [at for at, point in enumerate(points) if point and point[1]]
        for at in now:
            points[at][1].all_reduce()
        if not now:
            now = [at for at, point in enumerate(points) if point]
            _join([(tables[at].share, points[at][0]) for at in now], others)
            if not any([tables[at].waits() for at in now]):
                others.step()
        for at in now:
            points[at] = tables[at].advance()
    others.wrong(None)
    if others.anyone is not None and not others.steps and not float(others.anyone):
        for memory, before in kept:  # no rank has a gradient, so there was no step
            memory.copy_(before)
    return {**(tables[0].results() if tables else {}), **others.results}


class _Others:
    """What takes part in a step beside our tables: torch's class and other ranks.

    `checked`: the step finds out itself whether all gradients are finite. `multiplied`: GPUs say what their products
    are. `wait`: they need what our tables find out. `ranks` are the Ranks. `results` is what the step says by role, as far
    as it is known here.
    """

    def __init__(self, fallback_part, ranks, scalars, clipped, checked, multiplied):
        self._multiplied, self._wrong = multiplied and ranks, None
        self._fallback_part, self.ranks, self._scalars = fallback_part, ranks, scalars
        self.tops = max(1, len(ranks.tops))
        self._clipped, self._checked = clipped, checked
        self._inverse = _inverse(scalars["scale"]) if fallback_part else 1.0
        self._grads = fallback_part.grads(self._inverse) if fallback_part else []
        self._coefficient, self._finite = None, None
        self.results, self.wait = {}, clipped or checked
        self.steps, self.anyone = True, None  # whether this rank has a gradient, and what `of_rules` says

    def norm(self, shares):
        """The square of the common norm; `shares`: our own squares for each of `Ranks.tops`, or None."""
        if not self._clipped or (shares and self._fallback_part is None and not self.ranks):
            return shares and shares[0]
        total, self.results["norm"], self._coefficient = _bound(
            self._fallback_part, self._grads, self.ranks, shares, self._scalars["max_norm"])
        return total

    def finite(self, share):
        """Whether everybody's gradients are finite, an int32; `share`: that of the kernels, or None."""
        if not self._checked:
            return share
        fine = torch.ones((), dtype=torch.int32, device="cpu") if share is None else share
        if self._fallback_part:
            own = self._fallback_part.finite() & bool(0.0 < self._inverse < math.inf)
            fine = fine & own.to(fine.device)
        if self.ranks:
            fine = (self.ranks.worst((1 - fine).float()) == 0.0).int()
        self._finite = fine
        if share is None:
            self.results["flag"] = float(1 - fine)
        return fine

    def wrong(self, share):
        """1.0 where anybody's products are wrong; `share`: that of the kernels, or None. Every rank asks once, after
        its other shares."""
        if self._multiplied:
            self._multiplied = False
            mine = torch.zeros((), dtype=torch.float32, device="cpu") if share is None else share
            share = self.ranks.worst(mine).float()
        self._wrong = share
        return share

    def step(self):
        """Steps torch's part once, unless this step is skipped."""
        fallback_part, self._fallback_part = self._fallback_part, None
        if not fallback_part:
            return
        skipped = not self._finite if self._checked else float(self._scalars["flag"]) != 0.0
        if not skipped and not self._wrong:
            fallback_part.step(self._grads, self._coefficient)


def check_shards(optimizer, why):
    """Raises where a parameter is marked as a shard, because its sums are not those of the whole; `why` says so."""
    for index, group in enumerate(optimizer.param_groups):
        for place, param in enumerate(group["params"]):
            if any(getattr(param, mark, False) for mark in _MARKS):
                raise RuntimeError(
                    f"altgrad.optim.{type(optimizer).__name__}: parameter {place} of group {index} "
                    f"is a shard, and {why}; "
                    "pass process_group=, the group of the ranks that hold the shards")


def _bound(fallback_part, grads, ranks, shares, max_norm):
    """(square of the norm, the norm, clip_grad_norm_'s coefficient); `shares`: the squares of our own part.

    The first and the third are 0-dim tensors. The norm is a number if no device has to be waited for. If torch steps
    all parameters, the norm is bounded in the precision of torch's gradients.
    """
    count = max(1, len(ranks.tops))
    norms = (fallback_part.norms(grads, ranks, count) if fallback_part else
             [torch.zeros((), dtype=torch.float32, device="cpu")] * count)
    norm, total = norms[0], None
    if shares or ranks:
        device = norm.device if not shares else shares[0].device
        squares = [own * own for own in [norm.to(device, torch.float64) for norm in norms]]
        squares = [own + share.double() for own, share in zip(squares, shares)] if shares else squares
        total = (ranks.sum(squares) if ranks else squares[0]).float()
        norm = _root(total)
    coefficient = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    return total, norm.float() if stays_on_device(norm) else norm.item(), coefficient


def _root(total):
    """The square root rounded to the nearest float32, as the kernels have it; torch's differs on some CPUs."""
    if total.device.type == "cpu":
        return torch.tensor(math.sqrt(total.item()), dtype=torch.float32, device="cpu")
    return total.double().sqrt().float()


@torch.no_grad()
def _join(points, others):
    """Combines (its Share, its words) of all tables with the others' part.

    A sum goes into a table's first word and 0 into the rest, which the kernels add.
    """
    anyone = of_rules(points, others.ranks, others.steps)
    others.anyone = anyone if others.anyone is None else others.anyone
    points = [(share, [(kind, word) for kind, word, name in words if not name]) for share, words in points]
    sums = [[word for kind, word in words if kind in (ADD, SUMSQ)] for _, words in points]
    verdicts = [word for _, words in points for kind, word in words if kind == ALL]
    maxima = [word for _, words in points for kind, word in words if kind == MAX]
    if any(sums):
        totals = [torch.zeros_like(next(word for of in sums for word in of)) for _ in range(others.tops)]
        for share, word in [(share, word) for (share, _), of in zip(points, sums) if share.counted for word in of]:
            totals[share.top] += on_device_of(word, totals[share.top])
        total = others.norm(totals)
    if verdicts:
        fine = verdicts[0].clone()
        for word in verdicts[1:]:
            fine &= on_device_of(word, fine)
        fine = others.finite(fine)
        for word in verdicts:
            word.copy_(fine)
    if maxima:
        wrong = others.wrong(torch.stack([on_device_of(word, maxima[0]) for word in maxima]).amax())
        for word in maxima:
            word.copy_(wrong)
    for of in filter(None, sums):
        for word in of:
            word.zero_()
        of[0].copy_(total)


def _inverse(scale):
    """1 / scale to the nearest float32."""
    if isinstance(scale, torch.Tensor):
        return (1.0 / scale.detach().double()).float()
    return ctypes.c_float(1.0 / scale if scale else math.copysign(math.inf, scale)).value
