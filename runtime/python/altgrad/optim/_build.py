"""From an optimizer's groups to tables: everything is checked here before anything is changed."""

import ctypes
from collections import defaultdict

import torch

from .._bundle import compile_rule
from ._layout import (DTYPES, FORMATS, check_apart, check_grad, check_param, in_order, is_dense,
                      same_order)
from ._table import Row, Table


def parse_storage(storage):
    """{"m": "bf16", ...} from "m=bf16 ...". Raises ValueError at a word without "="."""
    words = {}
    for word in storage.split():
        name, equals, format_ = word.partition("=")
        if not (name and equals and format_):
            raise ValueError(f"storage: {word!r} is not name=format")
        words[name] = format_
    return words


def build_tables(optimizer, keys, clip, scaler):
    """Tables for every parameter that has a gradient now.

    `keys` holds (rule, options) of each param_group. Raises TypeError, ValueError,
    RuntimeError or altgrad.Error with nothing changed; only then are missing
    states made.
    """
    owner, waiting, params = type(optimizer).__name__, [], []
    place = 0
    for index, (group, key) in enumerate(zip(optimizer.param_groups, keys)):
        if group.get("differentiable"):
            refuse_differentiable(owner)
        for param in group["params"]:
            grad = param.grad
            if grad is not None:
                check_param(owner, param)
                check_grad(owner, param, grad)
                dense = is_dense(param)
                strides = (param if dense else torch.empty_like(param)).stride()
                row = Row(param, index, place, strides, dense, None)
                waiting.append((_plan_row(optimizer, group, key, row), row))
                params += [param] if dense else []
            place += 1
    check_apart(owner, params)

    bundles = {plan: compile_rule(*plan[0], storage=plan[1], clip=clip, scaler=scaler)
               for plan, _ in waiting}
    sorted_rows = defaultdict(list)
    for plan, row in waiting:
        _make_states(optimizer, bundles[plan], row)
        sorted_rows[plan].append(row)
    return [_make_table(optimizer, bundles[plan], rows) for plan, rows in sorted_rows.items()]


def refuse_differentiable(owner):
    raise RuntimeError(f"altgrad.optim.{owner} does not support differentiable=True: "
                       "autograd cannot see into compiled kernels")


def _make_table(optimizer, bundle, rows):
    names = (*bundle.states, *bundle.extras, *([bundle.step] if bundle.step else []))
    hypers = [optimizer._hyper_place(hyper.name) for hyper in bundle.hypers]
    return Table(bundle, rows, rows[0].param.grad.dtype,
                 {name: optimizer._state_key(name) for name in names}, hypers)


def _plan_row(optimizer, group, key, row):
    """((rule, options), storage) of one row; checks the states that are there already."""
    rule, options = key
    words, param = dict(optimizer._words), row.param
    probe = compile_rule(rule, options, optimizer._storage)
    held = optimizer.state.get(param) or {}
    for name, tensor in (("param", param), ("grad", param.grad)):
        word = FORMATS[tensor.dtype]
        if words.setdefault(name, word) != word:
            raise TypeError(f"storage says {name}={words[name]}, but a {name} has {tensor.dtype}")
    for name in (*probe.states, *probe.extras):
        state = held.get(optimizer._state_key(name))
        if state is not None:
            words[name] = _check_state(optimizer._state_key(name), state, param)
        else:
            words.setdefault(name, words["param"])
    if probe.step:
        words[probe.step] = "f32"
    return key, " ".join(f"{name}={word}" for name, word in words.items())


def _check_state(key, state, param):
    if not isinstance(state, torch.Tensor) or state.dtype not in FORMATS:
        kind = state.dtype if isinstance(state, torch.Tensor) else type(state).__name__
        raise TypeError(f"state {key!r} is {kind}; the kernels store " + ", ".join(FORMATS.values()))
    if state.shape != param.shape or state.device != param.device:
        raise ValueError(f"state {key!r} of shape {tuple(state.shape)} on {state.device} does not "
                         f"belong to a parameter of shape {tuple(param.shape)} on {param.device}")
    return FORMATS[state.dtype]


def _make_states(optimizer, bundle, row):
    """Puts what the kernel needs and the state lacks into optimizer.state[param]."""
    names, param = (*bundle.states, *bundle.extras), row.param
    counted = optimizer._count_key
    if not names and not (bundle.step and counted):
        row.state, row.count = {}, ctypes.c_float()
        return
    row.state = held = optimizer.state[param]
    fresh = False
    # The count first: torch's own states begin with "step".
    if counted and (bundle.step or optimizer._always_counts):
        held[counted] = _count(held.get(counted))
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
        counts = optimizer._counts
        if fresh or param not in counts:
            counts[param] = ctypes.c_float(0.0 if fresh else 1.0)
        row.count = counts[param]


def _count(value):
    """A step count as its own 0-dim float32 tensor on the CPU."""
    if isinstance(value, torch.Tensor):
        if value.dtype == torch.float32 and value.device.type == "cpu" and value.numel() == 1:
            return value
        value = value.item()
    return torch.tensor(0.0 if value is None else float(value), dtype=torch.float32)
