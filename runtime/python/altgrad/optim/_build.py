"""From an optimizer's groups to tables: everything is checked here before anything is changed."""

import ctypes
from collections import defaultdict

import torch

from .._bundle import compile_rule
from ._layout import (DTYPES, FORMATS, check_apart, check_grad, check_param, in_order, is_dense,
                      same_order)
from ._table import Row, Table, read_hypers


def parse_storage(storage):
    """{"m": "bf16", ...} from "m=bf16 ...". Raises ValueError at a word without "="."""
    words = {}
    for word in storage.split():
        name, equals, format_ = word.partition("=")
        if not (name and equals and format_):
            raise ValueError(f"storage: {word!r} is not name=format")
        words[name] = format_
    return words


def build_tables(optimizer, keys, clip, scaler, known):
    """Tables for every parameter that has a gradient now.

    `keys` holds (rule, options) of each param_group, `known` finished rows by
    their place that may be used again. Raises TypeError, ValueError,
    RuntimeError or altgrad.Error with nothing changed; only then are missing
    states made.
    """
    owner, waiting, place = type(optimizer).__name__, [], 0
    planner = _Planner(optimizer, clip, scaler)
    for index, (group, key) in enumerate(zip(optimizer.param_groups, keys)):
        for param in group["params"]:
            grad = param.grad
            if grad is not None:
                row = known.get(place)
                if (row is None or row.pointer != param.data_ptr()
                        or row.grad_dtype is not grad.dtype):
                    row = _new_row(owner, param, index, place)
                check_grad(owner, param, grad)
                waiting.append((row.bundle or planner.bundle(key, row), row))
            place += 1
    check_apart(owner, [(row.pointer, row.param.nbytes) for _, row in waiting if row.dense])
    for bundle, index in {(bundle, row.group) for bundle, row in waiting}:
        read_hypers(optimizer.param_groups[index], _hypers(optimizer, bundle))

    rows_of = defaultdict(list)
    counts = {row.state[optimizer._count_key].data_ptr() for _, row in waiting
              if row.bundle and optimizer._count_key in row.state}
    for bundle, row in waiting:
        if row.bundle is None:
            _make_states(optimizer, bundle, row, counts)
            row.bundle = bundle
        rows_of[bundle, row.grad_dtype].append(row)
    return [_make_table(optimizer, bundle, rows) for (bundle, _), rows in rows_of.items()]


def _new_row(owner, param, group, place):
    check_param(owner, param)
    dense = is_dense(param)
    strides = (param if dense else torch.empty_like(param)).stride()
    return Row(param, group, place, strides, dense, param.data_ptr(), param.grad.dtype)


class _Planner:
    """Chooses the bundle of a row by its rule, options and dtypes; remembers its choices."""

    def __init__(self, optimizer, clip, scaler):
        self.optimizer, self.clip, self.scaler = optimizer, clip, scaler
        self.probes, self.chosen = {}, {}

    def bundle(self, key, row):
        """The Bundle for one row; checks the states that are there already."""
        param, held = row.param, self.optimizer.state.get(row.param) or {}
        states = tuple([_state_dtype(name, held.get(name), param) for _, name in self._names(key)])
        choice = key, param.dtype, row.grad_dtype, states
        if choice not in self.chosen:
            self.chosen[choice] = self._compile(*choice)
        return self.chosen[choice]

    def _names(self, key):
        """(rule's name, torch's key) of each state that this rule keeps with these options."""
        if key not in self.probes:
            probe = compile_rule(*key, self.optimizer._storage)
            self.probes[key] = probe, [(name, self.optimizer._state_key(name))
                                       for name in (*probe.states, *probe.extras)]
        return self.probes[key][1]

    def _compile(self, key, param, grad, states):
        words = dict(self.optimizer._words)
        for name, dtype in (("param", param), ("grad", grad)):
            if words.setdefault(name, FORMATS[dtype]) != FORMATS[dtype]:
                raise TypeError(f"storage says {name}={words[name]}, but a {name} has {dtype}")
        probe, names = self.probes[key]
        for (name, _), dtype in zip(names, states):
            if dtype is not None:
                words[name] = FORMATS[dtype]
            words.setdefault(name, words["param"])
        if probe.step:
            words[probe.step] = "f32"
        storage = " ".join(f"{name}={word}" for name, word in words.items())
        return compile_rule(*key, storage, clip=self.clip, scaler=self.scaler)


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
    return state.dtype


def _hypers(optimizer, bundle):
    return [optimizer._hyper_place(hyper.name) for hyper in bundle.hypers]


def _make_table(optimizer, bundle, rows):
    names = (*bundle.states, *bundle.extras, *([bundle.step] if bundle.step else []))
    keys = {name: optimizer._state_key(name) for name in names}
    return Table(bundle, rows, keys, _hypers(optimizer, bundle))


def _make_states(optimizer, bundle, row, counts):
    """Puts what the kernel needs and the state lacks into optimizer.state[param].

    `counts` holds the addresses of the step counts met so far: a count that two
    parameters share, as some checkpoints have it, would be raised twice.
    """
    names, param = (*bundle.states, *bundle.extras), row.param
    counted = optimizer._count_key
    if not names and not (bundle.step and counted):
        row.state, row.count = {}, ctypes.c_float()
        return
    row.state = held = optimizer.state[param]
    fresh = False
    # The count first: torch's own states begin with "step".
    if counted and (bundle.step or optimizer._always_counts):
        count = _count(held.get(counted))
        held[counted] = count = count.clone() if count.data_ptr() in counts else count
        counts.add(count.data_ptr())
    for name in names:
        key = optimizer._state_key(name)
        state = held.get(key)
        if state is None:
            held[key] = optimizer._first_state(name, row, DTYPES[bundle.formats[name]])
            fresh = True
        elif not same_order(state, row.strides):
            held[key] = in_order(state, row.strides)
    if bundle.step and not counted:
        # A buffer that was there before us has seen its first step.
        private = optimizer._counts
        if fresh or param not in private:
            private[param] = ctypes.c_float(0.0 if fresh else 1.0)
        row.count = private[param]


def _count(value):
    """A step count as its own 0-dim float32 tensor on the CPU."""
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.float32 and value.device.type == "cpu" and value.numel() == 1:
            return value
        value = value.item()
    return torch.tensor(0.0 if value is None else float(value), dtype=torch.float32)
