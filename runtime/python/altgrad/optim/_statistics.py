"""Norms and counts that steps compute beside the update."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from .._bundle import INOUT

if TYPE_CHECKING:
    from ._optimizer import Optimizer

# What steps count, from the first one on.
_COUNTERS = "steps", "skipped", "clipped_steps"
# By the keys of a file's first param_group.
_FILE_KEYS = {"skipped_steps": "skipped", "counted_steps": "steps", "clipped_steps": "clipped_steps"}
_OF_TENSORS = "grad_norm", "param_norm", "update_norm", "nonfinite", "lost"
# Of parameters that move on a grid.
_OF_GRID = "updates", "flips", "flips_up", "saturated"


class StepCounters:
    """The counts of an optimizer. All tables of a step find the same, and those of the first are the optimizer's."""

    KEYS = frozenset(_FILE_KEYS)

    def __init__(self):
        # What has been counted at all, by its key: an int64 tensor on the device, which steps raise where it lies.
        self._own, self._device = {}, torch.device("cpu")
        self.fallbacks = Counter()

    def bind(self, tables):
        """Lets the steps of these tables, which are new, count here."""
        self._device = tables[0].context.device if tables else self._device
        for key in self._own:
            self._on(key)
        for place, table in enumerate(tables):
            for index, scalar in enumerate(table.bundle.singles):
                if scalar.key in _COUNTERS and scalar.access == INOUT and scalar.role != "state":
                    count, device = self._on(scalar.key), table.context.device
                    table.bind_values([(index, count.to(device, non_blocking=device.type != "cpu", copy=True) if place else count)])

    def _on(self, key):
        """A count, on the device on which it is wanted now."""
        known = self._own.get(key)
        if known is None or known.device != self._device:
            with torch.inference_mode(False), torch.no_grad():
                self._own[key] = torch.zeros((), dtype=torch.int64, device=self._device)
                if known is not None:
                    self._own[key].copy_(known, non_blocking=self._device.type != "cpu")
        return self._own[key]

    def finish(self, tables, scaler_step, measures, scalars, norm):
        """Counts the steps that kernels have not counted."""
        flag = scalars["flag"]
        if not (tables and scaler_step) and (isinstance(flag, torch.Tensor) or flag):
            self._add("skipped", flag != 0.0)
        if measures and not tables:
            self._add("steps", 1)
            if scalars["max_norm"] is not None and norm is not None:
                self._add("clipped_steps", (norm > scalars["max_norm"]) & (flag == 0.0))

    def _add(self, key, number):
        count = self._on(key)
        if isinstance(number, torch.Tensor):
            number = number.reshape(()).to(count.device, non_blocking=count.device.type != "cpu")
        count += number

    def value(self, key):
        """The count as a new 0-dim int64 tensor."""
        return self._own[key].clone() if key in self._own else torch.zeros((), dtype=torch.int64, device=self._device)

    def encode(self, groups):
        """The param_groups of a file: the first one has what has been counted."""
        counts = {name: self.value(key) for name, key in _FILE_KEYS.items() if key in self._own}
        return [{**group, **(counts if place == 0 else {})} for place, group in enumerate(groups)]

    def check(self, groups):
        """{what: count} that the param_groups of a file have; raises ValueError for what is none."""
        given = {key: groups[0][name] for name, key in _FILE_KEYS.items() if name in groups[0]} if groups else {}
        for key, count in given.items():
            if not isinstance(count, torch.Tensor) or count.dtype != torch.int64 or count.numel() != 1:
                raise ValueError(f"the file's count of {key} steps is {count!r:.60}; it is an int64 tensor of "
                                 "one number")
        return given

    def take(self, groups):
        """Goes on from the counts that a file has put into these param_groups, whose keys go."""
        given = self.check(groups)
        for group in groups:
            for name in _FILE_KEYS:
                group.pop(name, None)
        if given:
            self._own, self._device = {}, torch.device("cpu")
            for key, count in given.items():
                self._on(key).copy_(count.reshape(()))


class StatisticsMixin:
    """What an optimizer says of its steps."""

    _counters = None
    _measures = False

    @property
    def skipped_steps(self) -> torch.Tensor:
        """How many of its steps were skipped, a 0-dim int64 tensor on the parameters' device.

        A GradScaler skips a step whose gradients are not finite. A GPU skips a step of Muon in which a matrix
        multiplication of finite numbers has a result that is not finite.
        """
        return self._counters.value("skipped")

    @property
    def fallback_counts(self) -> dict[str, int]:
        """How many tensors took a detour in all steps, by its kind; {} if there were none.

        `torch`: torch's class updated the parameter, see `fallback`. `redistributed`: the gradient, a DTensor, had other
        placements than its parameter and was redistributed first.
        """
        return dict(self._counters.fallbacks)

    def statistics(self) -> "Statistics":
        """The norms and counts of the last step for every parameter, and the counts of all steps.

        Returns:
            A Statistics, whose tensors lie on the device of the first parameter. The call does not
            synchronize with the device.

        Raises:
            RuntimeError: The optimizer was made without `statistics=True`.
        """
        return Statistics(self)


class Statistics:
    """The norms and counts of an optimizer's last step; `optimizer.statistics()` makes it.

    The tensors are float32 and have an element for each parameter, in the order of the param_groups. It is NaN for
    a parameter that no kernel has stepped.

    Attributes:
        grad_norm: The norm of the unscaled gradient before clipping.
        nonfinite: How many elements of the gradient are not finite.
        param_norm: The norm of the parameter, or of its master, before the step.
        update_norm: The norm of the change, in float32. NaN, as `param_norm` and `lost`, where no step since
            gradients last came or went has been performed; of the last step that was not skipped.
        lost: How many elements were to change and did not, because their format is too coarse.
        ratio: update_norm / param_norm.
        updates: On a grid (GridOptim, `rungs=` in a storage): how many elements had a gradient beyond 1e-10.
        flips: On a grid: how many elements changed.
        flips_up: On a grid: how many of them grew.
        saturated: On a grid: how many elements were to go beyond the grid's end.
        stall_ratio: On a grid: 1 - flips / updates, and 0 without updates.
        steps: How many steps the optimizer has made, a 0-dim int64 tensor.
        skipped: How many of them were skipped, see `skipped_steps`.
        clipped_steps: How many of them were clipped by a norm of all gradients ("agc" has no such norm).
        clip_rate: clipped_steps / steps.
        columns: The names of the tensors with an element for each parameter.

    Counts of elements are exact up to 2^24.

    Example:
        >>> optimizer = altgrad.optim.AdamW(model.parameters(), statistics=True)
        >>> optimizer.step()
        >>> optimizer.statistics().ratio  # one for each parameter
    """

    grad_norm: torch.Tensor
    nonfinite: torch.Tensor
    param_norm: torch.Tensor
    update_norm: torch.Tensor
    lost: torch.Tensor
    ratio: torch.Tensor
    updates: torch.Tensor
    flips: torch.Tensor
    flips_up: torch.Tensor
    saturated: torch.Tensor
    stall_ratio: torch.Tensor
    steps: torch.Tensor
    skipped: torch.Tensor
    clipped_steps: torch.Tensor
    clip_rate: torch.Tensor
    columns: tuple[str, ...]

    def __init__(self, optimizer: "Optimizer") -> None:
        owner = f"altgrad.optim.{type(optimizer).__name__}"
        if not optimizer._measures:
            raise RuntimeError(f"{owner} was made without statistics=True, so there are none")
        params = [(group, place, param) for group, entries in enumerate(optimizer.param_groups)
                  for place, param in enumerate(entries["params"])]
        self._names = [(group, place) for group, place, _ in params]
        self._elements = [param.numel() for *_, param in params]
        for key in _COUNTERS:
            setattr(self, key, optimizer._counters.value(key))
        tables = optimizer._built.tables if optimizer._built else []
        # torch's class steps some of them: what a row calls its place is not the one here.
        index = {id(param): place for place, (*_, param) in enumerate(params)}
        places = [_places(table, index) for table in tables]
        self._counts = _OF_GRID if "rungs" in optimizer._words else ()
        for key in (*_OF_TENSORS, *self._counts):
            setattr(self, key, _gathered(key, tables, places, len(params)))
        self.ratio = self.update_norm / self.param_norm
        if self._counts:
            self.stall_ratio = _stall_ratio(self.flips, self.updates)
        self.columns = *_OF_TENSORS, "ratio", *self._counts, *["stall_ratio"] * bool(self._counts)
        self.clip_rate = self.clipped_steps.float() / self.steps.float()

    def summary(self) -> dict[str, torch.Tensor]:
        """Numbers over all parameters that kernels step: {name: 0-dim tensor}.

        Norms of all parameters together and their `ratio`; sums of `nonfinite`, of `lost` and of what is counted on
        grids; `lost_share`, which is `lost` over the number of elements; and the counts of steps. NaN where no
        kernel has stepped.
        """
        stepped = ~self.nonfinite.isnan()
        mine = {key: getattr(self, key).where(stepped, 0.0).double() for key in (*_OF_TENSORS, *self._counts)}
        sums = {key: value.norm() if key.endswith("norm") else value.sum() for key, value in mine.items()}
        elements = torch.tensor(self._elements, dtype=torch.float64, device="cpu").to(
            stepped.device, non_blocking=True)
        sums = {key: value.where(stepped.any(), float("nan")) for key, value in sums.items()}
        sums["ratio"] = sums["update_norm"] / sums["param_norm"]
        sums["lost_share"] = sums["lost"] / elements.where(stepped, 0.0).sum()
        if self._counts:
            sums["stall_ratio"] = _stall_ratio(sums["flips"], sums["updates"])
        return sums | {key: getattr(self, key) for key in (*_COUNTERS, "clip_rate")}

    def table(self) -> Mapping[str, list[float] | list[int]]:
        """{column: list} with a row for each parameter, as pandas.DataFrame takes it. Waits for the device."""
        columns = {"group": [group for group, _ in self._names],
                   "param": [place for _, place in self._names]}
        return columns | {key: getattr(self, key).tolist() for key in self.columns}


def _stall_ratio(flips, updates):
    return (1.0 - flips / updates).where(updates != 0, 0.0)


def _places(table, index):
    """(place in the statistics, row) of a table's parameters; some may have left the groups since."""
    kept = [(index[id(row.owner)], place) for place, row in enumerate(table.rows)
            if id(row.owner) in index]
    return torch.tensor(kept, dtype=torch.int64, device="cpu").view(-1, 2).unbind(1)


@torch.no_grad()
def _gathered(key, tables, places, count):
    device = tables[0].context.device if tables else torch.device("cpu")
    every = torch.full((count,), float("nan"), dtype=torch.float32, device=device)
    for table, (to, of) in zip(tables, places):
        values = table.statistics().get(key)
        if values is None:  # what float32 holds is not lost; NaN of a row without a gradient
            values = table.statistics()["nonfinite"] * 0.0
        values = values[of.to(values.device)].to(device, non_blocking=device.type != "cpu")
        every[to.to(device)] = values if len(set(to.tolist())) == len(to) else _joined(key, values, to.to(device))
    return every


def _joined(key, values, to):
    """What pieces of parameters say, joined to what each parameter says: once for each of its pieces."""
    power = 2 if key.endswith("norm") else 1
    sums = values.new_zeros(int(to.max()) + 1, dtype=torch.float64).index_add_(0, to, values.double() ** power)
    return (sums ** (1 / power)).float()[to]
