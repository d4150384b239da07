"""The tables of one step, one for each device, and the groups whose numbers each of them needs."""

import torch

from .._library import Error
from .device_context import stays_on_device


class Tables:
    """What an optimizer steps by kernels.

        Tables(tables, owners, places, shared, uncounted, param_groups)

    - `tables`: a TensorTable for each device, in the order in which they step;
    - `owners`: (index of a table, index of a group of its plan) for every group of the plans;
    - `places`: (index of a param_group, ((key, part or None), ...)) for each of them;
    - `shared`: for each number of each of them its name, which is the same for one number of the step, or None;
    - `uncounted`: (parameter, its step count) of those that the rules do not raise.

    `cells[i]` are the indices of those that belong to the i-th param_group.
    """

    def __init__(self, tables, owners, places, shared, uncounted, param_groups):
        self.tables, self.uncounted = tables, uncounted
        self.on_host = all([table.context.on_host for table in tables])
        self.cells = [[] for _ in range(param_groups)]
        for cell, (group, _) in enumerate(places):
            self.cells[group].append(cell)
        self._owners, self._places, self._shared = owners, places, shared
        self._of_step = {}  # name of a number of the step -> {group of the plans: what it gives}
        self.lying = []

    @property
    def rows(self):
        return [row for table in self.tables for row in table.rows]

    def watch(self, entries, keys):
        """Has `moved` look at what lies in these entries of the first param_group, which go into `lying`.

        Several devices have copies of it, so there a value that was written counts as another.
        """
        self.lying += [(key, entries[key], self._mark_of(entries[key])) for key in keys if key in entries]

    def moved(self, entries):
        """Whether something else lies in the first param_group, `entries`, than was watched."""
        return any([entries.get(key) is not value or self._mark_of(value) != mark for key, value, mark in self.lying])

    def is_capturing(self):
        """Whether a CUDA graph is being captured."""
        return any([table.context.is_capturing() for table in self.tables])

    def check_capture(self, owner, param_groups):
        """Raises torch's error where a captured graph would keep numbers that are meant to change."""
        if self.is_capturing() and not all(
                [group.get("capturable", True) for group in param_groups]):
            raise RuntimeError("Attempting CUDA graph capture of step() for an instance of "
                               f"{owner} but param_groups' capturable is False.")

    def count(self, flag):
        """Raises the step counts that no rule raises, unless `flag` says that the step was skipped."""
        counts = [count for param, count in self.uncounted if param.grad is not None]
        if isinstance(flag, torch.Tensor):
            went = (flag.detach().view(()) == 0.0).float()
            for count in counts:
                count.add_(went.to(count.device))
        elif flag == 0.0 and counts:
            torch._foreach_add_(counts, 1.0)

    def set_hypers(self, param_groups, numbers, cells):
        """Writes the numbers of the groups of the plans whose indices are `cells`."""
        if len(self.tables) == 1:
            self.tables[0].set_hypers(numbers, cells)
        else:
            self._check_shared(numbers, cells)
            first = 0
            for cell in cells:
                count = len(self._places[cell][1])
                table, own = self._owners[cell]
                self.tables[table].set_hypers(numbers[first:first + count], [own])
                first += count
        if not self.on_host:
            self._set_tensors(param_groups, cells)

    def _check_shared(self, numbers, cells):
        """Raises Error where tables get several numbers for one of the step; within a table the library does."""
        names = [(name, cell) for cell in cells for name in self._shared[cell]]
        for (name, cell), number in zip(names, numbers):
            if name is not None:
                self._of_step.setdefault(name, {})[cell] = number
        for (_, key), given in self._of_step.items():
            if len(set(given.values())) > 1:
                raise Error(f"'{key}' is one number for all groups, and they give {' and '.join(map(str, set(given.values())))}")

    def _set_tensors(self, param_groups, cells):
        for cell in cells:
            group, keys = self._places[cell]
            entries = []
            table, own = self._owners[cell]
            for place, (key, part) in enumerate(keys):
                value = param_groups[group][key]
                value = value if part is None else value[part]
                if stays_on_device(value):
                    entries.append((own, place, value))
            if entries and not self.tables[table].context.on_host:
                self.tables[table].set_tensors(entries)

    def _mark_of(self, value):
        if not isinstance(value, torch.Tensor):
            return None
        counted = len(self.tables) > 1 and not value.is_inference()
        return value.data_ptr(), value.shape, value._version if counted else None
