"""Rows of tensors bound to one plan: all parameters of one optimizer that share their formats."""

import ctypes
from dataclasses import dataclass
from operator import attrgetter

import torch

from .._plan import Plan
from ._layout import in_order
from ._torch_pool import torch_parallel_for

_ALIGNMENT = 64
# Unbound methods under map() cost less than a comprehension, a thousand times a step.
_data_ptr, _is_contiguous = torch.Tensor.data_ptr, torch.Tensor.is_contiguous
_bytes = attrgetter("nbytes")


@dataclass(slots=True)
class Row:
    """A parameter with a gradient: `group` counts param_groups, `place` all parameters.

    `state` is optimizer.state[param] or an empty dict where the rule keeps
    nothing; `strides` is the order in which the kernel visits the elements;
    `count` is a private step count for rules whose count torch does not store.
    `bundle` is set when all states are there: such a row can be used again.
    """

    param: torch.Tensor
    group: int
    place: int
    strides: tuple
    dense: bool
    pointer: int
    grad_dtype: torch.dtype
    bundle: object = None
    state: dict | None = None
    count: ctypes.c_float | None = None


class Table:
    """Runs one bundle over its rows; every pointer but the gradients' is bound once.

    `keys` maps the names of the bundle's states to those of `Row.state`, `hypers`
    lists (key of the group, index in it or None) in the bundle's order. A
    parameter that is not dense is updated through a dense copy of it.
    """

    def __init__(self, bundle, rows, keys, hypers):
        self.bundle, self.rows, self.hypers = bundle, rows, hypers
        self.grad_dtype = rows[0].grad_dtype
        self.params = [row.param for row in rows]
        self.places = [row.place for row in rows]
        self.param_pointers = [row.pointer for row in rows]
        self.plain = all(row.dense and row.param.is_contiguous() for row in rows)
        self.staged = [(row.param, torch.empty_strided(row.param.shape, row.strides,
                                                       dtype=row.param.dtype))
                       for row in rows if not row.dense]
        self.groups = sorted({row.group for row in rows})
        self._grad_bytes = [p.numel() * self.grad_dtype.itemsize for p in self.params]
        # Only a single element can be contiguous and a negative view, as x.imag may be.
        self._single = [place for place, p in enumerate(self.params) if p.numel() == 1]
        self._bound = None
        self._kept = None
        self._grad_name = bundle.grad.encode()
        self.plan = Plan(bundle, torch_parallel_for(), torch.get_num_threads())
        local = {group: index for index, group in enumerate(self.groups)}
        self.plan.bind_tensors([p.numel() for p in self.params],
                            [local[row.group] for row in rows], len(self.groups))
        self._bind_tensors(keys)
        self._bind_scalars(keys)
        size = self.plan.workspace_bytes()
        self._workspace = torch.empty(size + _ALIGNMENT, dtype=torch.uint8)
        start = self._workspace.data_ptr()
        self._memory = start + -start % _ALIGNMENT, size

    def _bind_tensors(self, keys):
        bundle, plan = self.bundle, self.plan
        dense = dict((id(p), copy) for p, copy in self.staged)
        plan.bind_stream(bundle.param.encode(),
                         [dense.get(id(p), p).data_ptr() for p in self.params])
        written = list(self.params)
        for name in (*bundle.states, *bundle.extras):
            tensors = [row.state[keys[name]] for row in self.rows]
            plan.bind_stream(name.encode(), [t.data_ptr() for t in tensors])
            written += tensors
        if bundle.step and self.rows[0].count is None:
            written += [row.state[keys[bundle.step]] for row in self.rows]
        self.written = written
        self._first = [t for t in self.rows[0].state.values() if isinstance(t, torch.Tensor)]
        self._first_pointers = [t.data_ptr() for t in self._first]

    def _bind_scalars(self, keys):
        bundle, plan = self.bundle, self.plan
        width = len(bundle.hypers)
        self.values = (ctypes.c_double * (width * len(self.groups)))()
        start = ctypes.addressof(self.values)
        for index, hyper in enumerate(bundle.hypers):
            plan.bind_scalar(hyper.name.encode(),
                             [start + 8 * (width * g + index) for g in range(len(self.groups))])
        if bundle.step:
            plan.bind_scalar(bundle.step.encode(), [
                row.state[keys[bundle.step]].data_ptr() if row.count is None
                else ctypes.addressof(row.count) for row in self.rows])
        # One f32 each, read and written by the step as a whole.
        self.single = {name: ctypes.c_float() for name in bundle.singles}
        for name, cell in self.single.items():
            plan.bind_scalar(name.encode(), [ctypes.addressof(cell)])

    def moved(self):
        """Whether a tensor that was bound lies elsewhere now: another .data was put into it.

        Every parameter is asked; of the states, which travel together, the first row's.
        """
        return (list(map(_data_ptr, self.params)) != self.param_pointers
                or list(map(_data_ptr, self._first)) != self._first_pointers)

    def bind_grads(self, grads):
        """Binds this step's gradients, one per row; False if a row does not fit any more.

        A gradient in another memory order than its parameter is copied into it. Bytes
        are compared for every row: they tell a new shape and, but for one 16-bit
        format in the place of the other, a new dtype, which autograd guards anyway.
        """
        try:
            if list(map(_bytes, grads)) != self._grad_bytes or not (
                    grads[0].dtype is grads[-1].dtype is self.grad_dtype):
                return False
            if self.plain and all(map(_is_contiguous, grads)) and not any(
                    [grads[place].is_neg() for place in self._single]):
                pointers = list(map(_data_ptr, grads))
            else:
                self._kept = [in_order(g, row.strides) for g, row in zip(grads, self.rows)]
                pointers = [g.data_ptr() for g in self._kept]
        except (AttributeError, RuntimeError):  # None, or a layout without a pointer
            return False
        if pointers != self._bound:
            self.plan.bind_stream(self._grad_name, pointers)
            self._bound = pointers
        return True

    def set_hypers(self, groups):
        """Reads every hyper-parameter from the param_groups, as numbers or one-element tensors."""
        numbers = []
        for index in self.groups:
            numbers += read_hypers(groups[index], self.hypers)
        self.values[:] = numbers

    def gather(self):
        """Fills the dense copies of parameters that are not dense themselves."""
        for param, copy in self.staged:
            copy.copy_(param)

    def run(self, first=0, last=-1):
        """Runs phases [first, last) of the bundle."""
        self.plan.run(*self._memory, first, last)

    def count(self, key):
        """Raises the step counts of a rule that has no count of its own."""
        if self.bundle.step is None:
            torch._foreach_add_([row.state[key] for row in self.rows], 1.0)

    def scatter(self):
        """Writes the dense copies back and lets go of copied gradients."""
        for param, copy in self.staged:
            param.copy_(copy)
        self._kept = None


def read_hypers(group, places):
    """The numbers at `places`, (key, index or None) each, of a param_group."""
    numbers = []
    for key, part in places:
        value = group[key] if part is None else group[key][part]
        numbers.append(value if type(value) is float else _number(key, value))
    return numbers


def _number(key, value):
    if value is None:
        return 0.0
    if isinstance(value, torch.Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {key} must be 1-element")
    return float(value)
