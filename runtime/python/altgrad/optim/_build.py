"""From an optimizer's groups to one table: everything is checked here before anything is changed."""

from collections.abc import MutableMapping
from dataclasses import dataclass, field
from functools import partial

import torch

from .._bundle import compile_sets
from .._rule import set_line
from ._binder import make_table
from ._layout import (DTYPES, FORMATS, check_apart, check_grad, check_mode, check_param,
                      check_states_apart, in_order, is_dense, name_of, same_order)
from ._table import FRESH


@dataclass(slots=True)
class Row:
    """A parameter with a gradient: `group` counts param_groups, `place` all parameters.

    `line` is its set in the words of the request, `strides` the order in which the
    kernel visits the elements, `tensors` its states in the order of its set,
    `count` its step count. A finished row, whose states are there, can be used again.
    """

    param: torch.Tensor
    group: int
    place: int
    strides: tuple
    dense: bool
    grad_dtype: torch.dtype
    line: str
    finished: bool = False
    set: int = 0
    cell: int = 0
    tensors: list = field(default_factory=list)
    count: torch.Tensor | None = None


@dataclass(frozen=True)
class Built:
    """A table and what its optimizer does for it in every step.

    `cells` holds the groups of the plan that belong to each param_group, `uncounted`
    the step counts that the rules do not raise.
    """

    table: object
    cells: list
    uncounted: list


def build(optimizer, watched, kinds, params, left, known, asked):
    """The Built for every parameter that has a gradient now; None if there is none.

    `watched` are the Groups, `kinds` holds (rule, options) of each param_group, `params`
    every parameter but those whose id is in `left`, `known` finished rows by their place
    that may be used again, `asked` what the step does beside the update. Raises TypeError, ValueError,
    RuntimeError or altgrad.Error with nothing changed; only then are missing
    states made.
    """
    owner = type(optimizer).__name__
    namer = _Namer(optimizer)
    rows, rules, place = [], {}, 0
    for index, (group, kind) in enumerate(zip(optimizer.param_groups, kinds)):
        for param in group["params"]:
            if id(param) in left:
                continue
            if param.grad is not None:
                row = known.get(place)
                if row is None or row.grad_dtype is not param.grad.dtype:
                    check_param(owner, param, fused=group.get("fused"))
                    check_grad(owner, param, param.grad)
                    row = _row(namer, param, index, place, kind)
                else:
                    check_grad(owner, param, param.grad)
                rows.append(row)
                rules[row.line] = kind[0]
            place += 1
    if not rows:
        return None
    check_apart(owner, [row.param for row in rows])
    lines = sorted(rules)
    bundle = compile_sets(lines, [rules[line] for line in lines], **asked)
    _number(rows, lines)
    cells = _cells(rows)
    numbers = [(group, [optimizer._hyper_place(hyper.key) for hyper in bundle.sets[index].hypers])
               for group, index in cells]
    watched.expect(numbers, partial(_to_float, absent=optimizer._absent))
    every = list(range(len(cells)))
    values = watched.numbers(optimizer.param_groups, every)
    if not all([row.finished for row in rows]):
        check_states_apart(optimizer, list(_kept(optimizer, bundle, rows)))
    _make_states(optimizer, bundle, rows)
    table = make_table(bundle, rows, [index for _, index in cells], params, optimizer.state)
    table.set_hypers(values, every)
    if table.fresh(params, optimizer.state) != FRESH:
        raise RuntimeError("a gradient changed while its step was prepared")
    uncounted = [optimizer.state[row.param][optimizer._count_key] for row in rows
                 if bundle.sets[row.set].step is None] if optimizer._always_counts else []
    return Built(table, _of_groups(cells, len(kinds)), uncounted)


def _to_float(key, part, value, absent):
    """A hyper-parameter that is no float: the value of a group's key, or a part of it."""
    if value is None and key in absent:
        return 0.0
    if part is None and isinstance(value, torch.Tensor) and value.numel() != 1:
        raise ValueError(f"Tensor {key} must be 1-element")
    try:
        return float(value if part is None else value[part])
    except (TypeError, ValueError, IndexError, KeyError, OverflowError, RuntimeError):
        where = "" if part is None else f" at place {part}"
        raise TypeError(f"{key} is {value!r}, not a number{where}") from None


def _number(rows, lines):
    """Gives every row its set, and brings the rows in the order of the sets."""
    index = {line: place for place, line in enumerate(lines)}
    for row in rows:
        row.set = index[row.line]
    rows.sort(key=lambda row: (row.set, row.place))


def _cells(rows):
    """(param_group, set) of each group of the plan; gives every row its own."""
    cells = {}
    for row in rows:
        row.cell = cells.setdefault((row.group, row.set), len(cells))
    return list(cells)


def _of_groups(cells, count):
    """The groups of the plan that belong to each of `count` param_groups."""
    owned = [[] for _ in range(count)]
    for cell, (group, _) in enumerate(cells):
        owned[group].append(cell)
    return owned


def _row(namer, param, group, place, kind):
    dense = is_dense(param)
    strides = (param if dense else torch.empty_like(param)).stride()
    line = namer.line(kind, param, param.grad.dtype)
    return Row(param, group, place, strides, dense, param.grad.dtype, line)


class _Namer:
    """Puts a parameter's set into words by its rule, options and dtypes."""

    def __init__(self, optimizer):
        self.optimizer, self.lines = optimizer, {}

    def line(self, kind, param, grad):
        """The line of one parameter; checks the states that are there already."""
        held = self.optimizer.state.get(param, {})
        if not isinstance(held, MutableMapping):
            raise TypeError(f"the state of {name_of(self.optimizer, param)} is {held!r}, not a dict")
        if self.optimizer._count_key in held:
            _count(held[self.optimizer._count_key])
        names = self.optimizer._stored(kind[1])
        states = tuple([_state_dtype(key, held.get(key), param) for _, key in names])
        choice = kind, param.dtype, grad, states
        if choice not in self.lines:
            self.lines[choice] = self._words(*choice)
        return self.lines[choice]

    def _words(self, kind, param, grad, states):
        own = self.optimizer._words
        words = {"param": FORMATS[param], "grad": FORMATS[grad], "states": "param", "step": "f32",
                 **own}
        for name, dtype in (("param", param), ("grad", grad)):
            if words[name] != FORMATS[dtype]:
                raise TypeError(f"storage says {name}={words[name]}, but a {name} has {dtype}")
        rest = words["param"] if words["states"] == "param" else words["states"]
        for (name, _), dtype in zip(self.optimizer._stored(kind[1]), states):
            if dtype is not None and FORMATS[dtype] != own.get(name, rest):
                words[name] = FORMATS[dtype]
        return set_line(*kind, words)


def _state_dtype(key, state, param):
    """The dtype of a state, None for one that is still to be made."""
    if state is None:
        return None
    if not isinstance(state, torch.Tensor) or state.dtype not in FORMATS:
        kind = state.dtype if isinstance(state, torch.Tensor) else type(state).__name__
        known = ", ".join(FORMATS.values())
        raise TypeError(f"state {key!r} is {kind}; the kernels store {known}")
    if state.shape != param.shape or state.device != param.device:
        raise ValueError(f"state {key!r} of shape {tuple(state.shape)} on {state.device} does not "
                         f"belong to a parameter of shape {tuple(param.shape)} on {param.device}")
    if state.layout != torch.strided:
        raise TypeError(f"state {key!r} is {state.layout}, and so is every gradient it was made of: "
                        "the kernels and torch need a dense one")
    check_mode(state)
    return state.dtype


def _kept(optimizer, bundle, rows):
    """(tensor, key, parameter) of the states and counts that are there and stay where they are."""
    counts = {}
    for row in rows:
        held = optimizer.state.get(row.param, {})
        for stream in bundle.sets[row.set].states:
            key = optimizer._state_key(stream)
            state = held.get(key)
            if state is not None and _fits(state, row):
                yield state, key, row.param
        count = held.get(optimizer._count_key)
        if _is_count(count):
            counts.setdefault(count.data_ptr(), (count, optimizer._count_key, row.param))
    yield from counts.values()


def _fits(state, row):
    return same_order(state, row.strides) and not state.is_neg()


def _make_states(optimizer, bundle, rows):
    """Puts what the kernels need and the states lack into optimizer.state.

    A count that two parameters share, as some checkpoints have it, would be
    raised twice: the second gets its own.
    """
    counts = {row.count.data_ptr() for row in rows if row.finished and row.count is not None}
    for row in rows:
        if not row.finished:
            _finish(optimizer, bundle.sets[row.set], row, counts)
            row.finished = True


def _finish(optimizer, part, row, counts):
    param, counted = row.param, optimizer._count_key
    stored = counted and (part.step or optimizer._always_counts)
    if not part.states and not stored:
        row.count = _count(None) if part.step else None
        return
    held, fresh = optimizer.state[param], False
    # The count first: torch's own states begin with "step".
    if stored:
        count = _count(held.get(counted))
        held[counted] = count = count.clone() if count.data_ptr() in counts else count
        counts.add(count.data_ptr())
        row.count = count if part.step else None
    for stream in part.states:
        key = optimizer._state_key(stream)
        state = held.get(key)
        if state is None:
            held[key] = optimizer._first_state(stream, row, DTYPES[stream.format])
            fresh = True
        elif not _fits(state, row):
            held[key] = in_order(state, row.strides)
        row.tensors.append(held[key])
    if part.step and not stored:
        # A buffer that was there before us has seen its first step.
        private = optimizer._counts
        if fresh or param not in private:
            private[param] = _count(0.0 if fresh else 1.0)
        row.count = private[param]


def _is_count(value):
    """Whether the kernels can count in `value` itself."""
    return (isinstance(value, torch.Tensor) and value.dtype == torch.float32
            and value.device.type == "cpu" and value.numel() == 1)


def _count(value):
    """A step count as its own 0-dim float32 tensor on the CPU."""
    if _is_count(value):
        return value
    try:
        number = 0.0 if value is None else float(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"a step count is {value!r}, not a number") from None
    return torch.tensor(number, dtype=torch.float32, device="cpu")
