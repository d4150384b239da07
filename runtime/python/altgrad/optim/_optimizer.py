"""A torch.optim.Optimizer that runs any rule: torch's contract on one side, tables on the other."""

import math
from itertools import chain
from operator import is_

import torch
from torch.autograd.graph import increment_version

from ._build import build_tables, parse_storage
from ._layout import check_dtype

_MISSING = object()
_END = (None,)


class Optimizer(torch.optim.Optimizer):
    """Runs the step that altgrad compiles from a rule.

    A subclass says which rule, and how the rule's names map to torch's:

    - `_rule_of(group)`: the Rule of a param_group, `_options`: {option: test of a group};
    - `_hypers`: {hyper: key of a group, or (key, index)}, `_keys`: {state or step: key in state};
    - `_storage`: altgrad-opt's words for formats that differ from the parameter's;
    - `_older`: what a group from an older checkpoint may lack.

    `max_grad_norm` clips the global norm of all gradients of a step as
    clip_grad_norm_ does; the norm before clipping is in `grad_norm` afterwards
    and gradients stay as they were. `fused_amp=True` lets a GradScaler hand its
    scale and its verdict to the step instead of unscaling itself; gradients
    stay scaled.

    `step` raises TypeError, ValueError, RuntimeError or altgrad.Error before it
    changes anything.
    """

    _rule_of = None
    _options = {}
    _hypers = {}
    _keys = {}
    _storage = ""
    _words = {}
    _older = {}
    _count_key = "step"
    _always_counts = False

    # Whatever is native is rebuilt when it is missed: after load, copy and pickle.
    _tables = None
    _norm = None

    def __init__(self, params, defaults, *, max_grad_norm=None, fused_amp=False):
        if max_grad_norm is not None and not float(max_grad_norm) >= 0.0:
            raise ValueError(f"Invalid max_grad_norm value: {max_grad_norm}")
        self._check_flags(defaults)
        self.max_grad_norm = max_grad_norm
        self.fused_amp = bool(fused_amp)
        self._forget()
        super().__init__(params, defaults)

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        cls._words = parse_storage(cls._storage)

    @property
    def _step_supports_amp_scaling(self):
        return self.fused_amp

    @property
    def grad_norm(self):
        """The global norm of the last step's gradients before clipping, a 0-dim float32 tensor.

        None before the first step and without `max_grad_norm`.
        """
        return None if self._norm is None else torch.tensor(self._norm, dtype=torch.float32)

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        try:
            for param in self.param_groups[-1]["params"]:
                check_dtype(type(self).__name__, param)
        except TypeError:
            del self.param_groups[-1]
            raise

    @torch._disable_dynamo
    def step(self, closure=None):
        """Performs one step; returns what `closure` returns, if it is given."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._advance()
        return loss

    def _check_flags(self, group):
        # torch would build a graph through the step.
        if group.get("differentiable"):
            raise RuntimeError(f"altgrad.optim.{type(self).__name__} does not support "
                               "differentiable=True: autograd cannot see into compiled kernels")

    # Names of the rule -> places in torch's groups and state.

    def _hyper_place(self, name):
        place = self._hypers.get(name, name)
        return place if isinstance(place, tuple) else (place, None)

    def _state_key(self, name):
        return self._keys.get(name, name)

    def _options_of(self, group):
        return tuple(name for name, test in self._options.items() if test(group))

    def _first_state(self, name, row, dtype):
        """A new state: zeros, or the parameter for its master copy and its further copy."""
        state = torch.empty_strided(row.param.shape, row.strides, dtype=dtype)
        return state.copy_(row.param) if name in ("master", "copy") else state.zero_()

    # One step.

    def _advance(self):
        scale, found = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        clip = self.max_grad_norm is not None
        scaler = self.fused_amp or scale is not None or found is not None
        singles = {
            "max_norm": float(self.max_grad_norm) if clip else 0.0,
            "grad_scale": 1.0 if scale is None else float(scale),
            "found_inf": 0.0 if found is None else float(found),
        }
        for group in self.param_groups:
            self._check_flags(group)
        keys = [(self._rule_of(g), self._options_of(g)) for g in self.param_groups]
        if not self._fresh(keys, clip, scaler):
            self._rebuild(keys, clip, scaler)
        tables = self._tables
        for table in tables:
            table.set_hypers(self.param_groups)
        for table in tables:
            for name, cell in table.single.items():
                cell.value = singles.get(name, 0.0)
            table.gather()
        # Before the kernels, which push the tensors' bookkeeping out of the caches.
        if self._written:
            increment_version(self._written)
        if clip:
            self._norm = self._clip(tables, singles["max_norm"])
        else:
            for table in tables:
                table.run()
        for table in tables:
            table.scatter()
        if self._always_counts and singles["found_inf"] == 0.0:
            for table in tables:
                table.count(self._count_key)

    def _clip(self, tables, max_norm):
        """Runs clipped tables; returns the norm over all of them."""
        if len(tables) == 1:
            tables[0].run()
            return tables[0].single["norm"].value
        for table in tables:
            table.run(0, table.bundle.norm_phases)
        norms = [table.single["norm"].value for table in tables]
        total = torch.tensor(norms, dtype=torch.float64).norm().to(torch.float32).item()
        ratio = min(max_norm / (total + 1e-6), 1.0) if not math.isnan(total) else total
        for table, norm in zip(tables, norms):
            # A table scales by max_norm / (its own norm + 1e-6), at most 1: the bound that
            # makes this the common ratio. 0 times infinity would be NaN.
            table.single["max_norm"].value = ratio * (norm + 1e-6) if ratio else 0.0
            table.run(table.bundle.norm_phases - 1)
        return total

    def _fresh(self, keys, clip, scaler):
        """Whether the tables still fit every parameter, state and gradient; binds gradients.

        Forgets the rows unless only gradients came or went.
        """
        tables, rows = self._tables, self._rows
        self._rows = {}
        if tables is None or (clip, scaler) != self._mode or keys != self._built_keys:
            return False
        params = [p for group in self.param_groups for p in group["params"]]
        known = self._params
        if len(params) != len(known) or not all(map(is_, params, known)):
            return False
        if [len(group["params"]) for group in self.param_groups] != self._sizes:
            return False
        if not all(map(is_, self._state_entries(), self._entries)):
            return False
        if any([table.moved() for table in tables]):
            return False
        self._rows = rows
        grads = [p.grad for p in params]
        for place in self._idle:
            if grads[place] is not None:
                return False
        for table in tables:
            mine = grads if len(table.places) == len(grads) else [grads[i] for i in table.places]
            if not table.bind_grads(mine):
                return False
        return True

    def _state_entries(self):
        """Every entry of every state in order, and an end, so that a missing one is noticed."""
        return chain(chain.from_iterable(map(dict.values, self.state.values())), _END)

    def _rebuild(self, keys, clip, scaler):
        self._tables = None
        tables = build_tables(self, keys, clip, scaler, self._rows)
        params = [p for group in self.param_groups for p in group["params"]]
        for table in tables:
            if not table.bind_grads([row.param.grad for row in table.rows]):
                raise RuntimeError("a gradient changed while its step was prepared")
        busy = {row.place for table in tables for row in table.rows}
        self._idle = [place for place in range(len(params)) if place not in busy]
        self._params, self._built_keys, self._mode = params, keys, (clip, scaler)
        self._sizes = [len(group["params"]) for group in self.param_groups]
        self._entries = list(self._state_entries())
        self._written = [t for table in tables for t in table.written]
        self._rows.update((row.place, row) for table in tables for row in table.rows)
        self._tables = tables

    # Checkpoints, copies.

    def load_state_dict(self, state_dict):
        """Loads a state_dict of ours or of torch's class; every state keeps its dtype.

        torch casts each state of a floating-point parameter to the parameter's
        dtype, except "step"; the values that it cast are put back between the
        hooks of the user.
        """
        last = []

        def remember(optimizer, given):
            last.append(given)

        def restore(optimizer):
            flat = lambda groups: [p for group in groups for p in group["params"]]
            given = last[-1]
            for index, param in zip(flat(given["param_groups"]), flat(optimizer.param_groups)):
                for key, value in given["state"].get(index, {}).items():
                    if key != self._count_key:
                        tensor = isinstance(value, torch.Tensor)
                        optimizer.state[param][key] = value.to(param.device) if tensor else value

        hooks = (self.register_load_state_dict_pre_hook(remember),
                 self.register_load_state_dict_post_hook(restore, prepend=True))
        try:
            super().load_state_dict(state_dict)
        finally:
            self._forget()
            for hook in hooks:
                hook.remove()

    def _forget(self):
        """Lets go of tables and of private step counts: the states are others now."""
        self._tables, self._rows, self._counts = None, {}, {}

    def __getstate__(self):
        kept = super().__getstate__()
        kept.update(max_grad_norm=self.max_grad_norm, fused_amp=self.fused_amp)
        return kept

    def __setstate__(self, state):
        super().__setstate__(state)
        self._forget()
        for group in self.param_groups:
            for key, value in self._older.items():
                group.setdefault(key, value)
            for param in group["params"]:
                held = self.state.get(param) or {}
                count = held.get(self._count_key, _MISSING)
                if count is not _MISSING and not isinstance(count, torch.Tensor):
                    held[self._count_key] = torch.tensor(float(count), dtype=torch.float32)
