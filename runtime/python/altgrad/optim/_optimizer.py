"""The base class of all optimizers: torch.optim.Optimizer's interface around a table that runs compiled steps."""

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._binding.groups import Groups, plain
from .._binding.hooks import uncompiled, watched
from .._binding.group_rules import BOUND, GroupRules, check_bound, check_capturable, clip_of
from .._binding.offload import Offload, check_offload, take_offload
from .._binding.rank_sets import check_group
from .._binding.ranks import Ranks, ranks_of
from .._binding.early_norm import NormHooks
from .._binding.table import FRESH, OTHER_GRADS, STALE
from .._binding.device_context import number_of
from .._storage.checkpoint import encode_state_dict, fill_older, preserve_dtypes, picklable
from .._storage.storage_line import LINE, storage_entry
from .._storage.file_entries import decode_all
from .._storage.draws import COUNT, unshare, bind_draws, is_stochastic, seeded
from .._storage.history import HISTORY, check_adaptive, bind_history
from .._storage.step_states import bind_step_states
from .._storage.grid import check_params
from .._storage.line import Storage
from .._storage.streams import check_streams, check_used, in_rule_names
from .._storage.word import check_words
from .._warn import warn
from ._integrations import check_untraced, group_of_zero, is_state_probe, tell_accelerate
from ._build import build, multiplies
from ._checks import check_entries, check_ranks, check_tuples
from ._fork_safety import register
from ._inputs import given_inputs, Inputs
from ._fallback import find_fallback, warn_once
from ._keywords import OfTorch, check_group_keys, document, filled, shown
from ._numerics import Numerics
from ._rule_names import RuleNames
from ._traced import Traced, trace
from ._ema import STATE, EmaMixin, averaged
from ._statistics import StatisticsMixin, StepCounters
from ._joint_step import joint_step

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

    from ..amp import GradScaler


class Optimizer(RuleNames, StatisticsMixin, EmaMixin, Traced, Numerics):
    """The base of all altgrad optimizers: a torch.optim.Optimizer whose step is compiled from rules.

    One program steps all parameters, whatever their groups, shapes and dtypes. It works with
    torch's schedulers, hooks, checkpoints, GradScaler and torch.compile as torch's optimizers do. It is
    not made by itself: use a class of altgrad.optim, or FromRule for a rule of your own.

    Args:
        params: Parameters, named parameters or param_groups, as every torch.optim class takes them. Kernels
            update tensors of float32, bfloat16 and float16 of any shape and strides, on the CPU and
            on CUDA devices. Gradients are in one of these dtypes, too.
        defaults: What every param_group has where it does not say otherwise, as in torch.

    Raises:
        ValueError: A number is out of range, a word of the storage or of `numerics` is unknown, or `params` is empty.
        TypeError: An argument is of another type, or `params` are not tensors.
    """

    # Whatever is native is rebuilt when it is missed: after load, copy and pickle.
    _built = _watched = _lock = _hooks = _norm = None
    _running = _left_behind = _warned = False
    _seed = None  # of a storage that groups alone have
    norm_in_backward: bool = False
    offload: bool | str = False
    _offload = None  # the Offload of what is stepped on the host
    fused_amp: bool
    _ranks = None
    _step_ranks = Ranks()
    _stepped = {}  # with ranks: the dtype of the gradient of each parameter that a table had
    _agreed = frozenset()  # what all ranks of a set are known to have said of their DTensors
    fallback: bool = True
    _draws = False  # whether a rule has random numbers

    @shown
    def __init__(self, params: ParamsT, defaults: dict[str, Any], **shared: Unpack[OfTorch]):
        given = filled(type(self).__name__, self._new_words(shared))
        if self._rule_of is None:
            raise TypeError("altgrad.optim.Optimizer is the base of the optimizers and has no rule: use one of "
                            "altgrad.optim's classes, or FromRule")
        storage = given["storage"] or ""
        if given["ema"] is not None:
            storage = self._begin_ema(given["ema"], storage)
            defaults = {**defaults, STATE: self._ema}
        check_streams(storage, f"altgrad.optim.{type(self).__name__}", self._keys, self._spelled_with(), self._keys)
        self._words = type(self)._words | in_rule_names(storage, self._keys)
        check_words(self._words)
        defaults = {**defaults, **storage_entry(self._words, self._keys), **seeded(self._words, given["seed"], self._draws)}
        if given["max_grad_norm"] is not None:
            defaults = {**defaults, BOUND: check_bound(given["max_grad_norm"])}
        self.fused_amp, self.fallback = bool(given["fused_amp"]), bool(given["fallback"])
        self.process_group, self._measures = given["process_group"], bool(given["statistics"])
        self.offload = take_offload(f"altgrad.optim.{type(self).__name__}", given["offload"])
        self.norm_in_backward, self.numerics = bool(given["norm_in_backward"]), given["numerics"]
        check_entries(self, defaults)
        self._forget()
        super().__init__(params, defaults)
        if self.process_group is None:
            self.process_group = group_of_zero(self, given["max_grad_norm"])
        check_used(f"altgrad.optim.{type(self).__name__}", in_rule_names(storage, self._keys), self, self.param_groups)
        self._hold()

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if cls.__module__.startswith("altgrad.") and cls.__doc__:
            document(cls)

    @property
    def _step_supports_amp_scaling(self):
        return self.fused_amp

    @property
    def _falls_back(self):
        """Whether torch steps parameters that kernels cannot; its class knows no storage of ours."""
        return self.fallback and self._reference is not None and not any(self._storages())

    @property
    def process_group(self) -> "ProcessGroup | None":
        """The torch.distributed group over whose ranks the norm and `found_inf` are combined, or None. A copy has none."""
        return self._ranks

    @process_group.setter
    def process_group(self, group: "ProcessGroup | None") -> None:
        self._ranks, self._left_behind = check_group(group), False

    @property
    def max_grad_norm(self) -> float | str | None:
        """The bound of the norm, as the constructor takes it, or None. It lies in every param_group."""
        return self.param_groups[0].get(BOUND)

    @max_grad_norm.setter
    def max_grad_norm(self, bound: float | str | None) -> None:
        for entries in (self.defaults, *self.param_groups):
            entries.pop(BOUND, None)
            if bound is not None:
                entries[BOUND] = check_bound(bound)

    @property
    def grad_norm(self) -> torch.Tensor | None:
        """The global norm of the last step's gradients before clipping, a 0-dim float32 tensor.

        It lies on the device of the parameters, and reading this property does not synchronize with the device.
        It is None before the first step, and where `max_grad_norm` bounds no global norm.
        """
        if isinstance(self._norm, torch.Tensor):
            return self._norm.clone()
        return None if self._norm is None else torch.tensor(self._norm, dtype=torch.float32, device="cpu")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a param_group, as torch's optimizers do.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults. With "storage", such
                as "states=f32" for embeddings, it overrides the optimizer's storage for the streams that it names.

        Raises:
            ValueError: A word of the group's storage is unknown, a parameter is in a group already, or the group says what
                the class does not take, such as an unknown norm.
            TypeError: A parameter is no tensor, or of a dtype that the storage does not take, or a key is another
                library's, such as Dion's "algorithm".
            RuntimeError: A parameter is a shard, and `max_grad_norm` is given without a `process_group`.
        """
        if isinstance(param_group, dict):
            check_group_keys(self._next_group(), param_group, self.defaults)
            if LINE in param_group:
                param_group = {**param_group, **self._own_storage(param_group[LINE])}
        own_line, where = isinstance(param_group, dict) and param_group.get(LINE), self._next_group()
        super().add_param_group(param_group)
        unshare(self.param_groups[-1], (COUNT, HISTORY, *self._step_states))
        try:
            if own_line:
                check_used(where, in_rule_names(own_line, self._keys), self, self.param_groups[-1:])
            check_params(self, self.param_groups[-1])
            check_ranks(self)
            check_offload(self)
            self._check_group(self.param_groups[-1], where)
        except (TypeError, ValueError, RuntimeError):
            del self.param_groups[-1]
            raise

    def _check_group(self, group, where):
        """Raises ValueError where a group says what the class does not take; `where` names it. Steps ask again after changes."""

    def _next_group(self):
        return f"altgrad.optim.{type(self).__name__}, group {len(self.param_groups)}"

    def _own_storage(self, line):
        """The entry of a group that says a storage of its own; the defaults get a seed where it is the first that draws."""
        where = self._next_group()
        check_streams(line, where, self._keys, self._spelled_with(), self._keys)
        words = self._storage_of({LINE: str(Storage(line))})
        check_words(words)
        if "rungs" in words and words["rungs"] != self._words.get("rungs"):
            raise ValueError(f"{where} has the grid {words['rungs']!r} in its storage: one grid is for all param_groups, and the "
                             "constructor takes it")
        if COUNT not in self.defaults:
            self.defaults.update(seeded(words, self._seed if is_stochastic(words) else None, self._draws))
        return storage_entry(words, self._keys)

    @watched
    def step(self, closure: Callable[[], Any] | None = None, *, scaler: "GradScaler | None" = None,
             inputs: "Mapping[str, Inputs] | None" = None) -> Any:
        """Performs one step on all parameters that have a gradient. Gradients stay as they are.

        Args:
            closure: Called first, with gradients enabled; it computes the loss and its gradients.
            scaler: The scaler of the loss, which gives itself in `scaler.step(optimizer)`.
            inputs: For each input of the rule, by name: a tensor for each parameter, in the order of the groups, or a
                mapping from parameters to tensors. They have the shapes of the parameters. None and missing ones are for
                parameters without a gradient.

        Returns:
            What `closure` returns, or None.

        Raises:
            TypeError, ValueError, RuntimeError, altgrad.Error, KeyError: A parameter, gradient, state or
                hyper-parameter does not fit, or a param_group lacks a key. Nothing has changed then.
        """
        if torch.compiler.is_dynamo_compiling() and closure is None and scaler is None and inputs is None and trace(self):
            return None
        return self._step(closure, scaler, inputs)

    @uncompiled
    def _step(self, closure, scaler, inputs=None):
        loss, self._opt_called = None, True  # which a scheduler asks for
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with self._lock, self._offload.threads(self.param_groups) if self._offload else nullcontext():
            if inputs is None:
                self._advance(scaler)
            else:
                with given_inputs(self, inputs):
                    self._advance(scaler)
        return loss

    def _advance(self, own=None):
        """Makes a step, whose scale and `found_inf` are those of a GradScaler of ours or, without one, those that torch's gives."""
        check_untraced(type(self).__name__)
        if not self.param_groups and self._ranks is None:
            return
        scale, found = getattr(self, "grad_scale", None), getattr(self, "found_inf", None)
        scaler = self.fused_amp or scale is not None or found is not None
        if own:
            scale, scaler = own._begin_step()
        scalars = {"scale": 1.0 if scale is None else number_of(scale), "flag": 0.0 if found is None else number_of(found)}
        if self._exchanged is not None:
            raise RuntimeError(f"altgrad.optim.{type(self).__name__}: step() was called within ema_weights()")
        if self._running:
            raise RuntimeError(f"altgrad.optim.{type(self).__name__}: step() was called while a step of this optimizer "
                               "runs; call it afterwards")
        scalars["max_norm"], clip = clip_of(self.param_groups[0]) if self._clips else (None, None)
        settings = self._settings_for(scaler)
        fit, changed, numbers = self._fit_of_step(clip) if self._watched and settings == self._settings else (STALE, None, None)
        if fit != FRESH:
            unasked = is_state_probe(self)
            with torch.no_grad():
                self._rebuild(fit, settings)
            if unasked and not self._fallback_part:
                return
        elif changed:
            self._take_groups(changed, *numbers)
        self._norm = 0.0 if self._group_rules.clipped else None
        self._running = True
        try:
            self._run(scalars, scaler, own)
        finally:
            self._running = False

    def _settings_for(self, scaler):
        """What the tables depend on beside the groups."""
        return (scaler, torch.is_inference_mode_enabled(), self._ranks, self.fallback, self.norm_in_backward, self._numerics)

    def _rebuild_for(self, scaler):
        """Makes the tables, and with them the states, though there is no step yet."""
        self._rebuild(STALE, self._settings_for(scaler))

    def _fit_of_step(self, clip):
        """(whether the tables fit this step, the groups that say something new, what `_take_groups` takes of them)."""
        watched, numbers = self._watched, ([], [])
        changed = watched.changed(self.param_groups)
        if changed is None or clip != self._group_rules.clip or (
                changed and not self._group_rules.hold(self.param_groups, changed, self._group_rule)):
            return STALE, changed, numbers
        # Before the tensors are looked at: a number may be an object whose code changes them, or lets go of the table.
        if changed and self._built:
            numbers = self._numbers_of(changed)
        return self._fit() if watched is self._watched else STALE, changed, numbers

    def _fit(self):
        """Whether the tables fit the parameters that kernels step."""
        if self._fallback_part and self._fallback_part.changed():
            return STALE
        if self.norm_in_backward:
            self._hooks.settle()
        if not self._built:
            return FRESH if all([p.grad is None for p in self._kernel_params]) else STALE
        if self._built.lying and self._built.moved(self.param_groups[0]):
            return STALE
        for table in self._built.tables:
            if (fit := table.validate(self._kernel_params, self.state)) != FRESH:
                return fit
        return FRESH

    def _run(self, scalars, scaler, own):
        results, tables = {}, self._built.tables if self._built else []
        if self._built and not self._built.on_host:
            self._built.check_capture(type(self).__name__, self.param_groups)
        if own:
            own._bind(tables)
        if self._is_joint:
            with torch.no_grad():
                results = joint_step(tables, self._fallback_part, self._step_ranks, scalars,
                                     self._group_rules.clipped, scaler, self._multiplied)
        elif tables:
            results = tables[0].run(scalars)
        self._norm = results.get("norm", self._norm)
        if own:
            scalars["flag"] = results.get("flag", 0.0)
            own._end_step(tables, scalars["flag"])
        self._counters.finish(tables, own, self._measures, scalars, self._norm)
        if self._built and self._built.uncounted:
            self._built.count(scalars["flag"])
        if "step" in vars(self):
            tell_accelerate(self, scalars["flag"])
        if self.norm_in_backward:
            self._hooks.warn_of_unused(tables)

    def _numbers_of(self, changed):
        """What these groups say now: (hyper-parameters, groups of the plan)."""
        check_tuples(type(self), [self.param_groups[index] for index in changed])
        cells = [cell for index in changed for cell in self._built.cells[index]]
        return self._watched.numbers(self.param_groups, cells), cells

    def _take_groups(self, changed, numbers, cells):
        if self._built:
            self._built.set_hypers(self.param_groups, numbers, cells)
        self._watched.remember(self.param_groups, changed)

    def _group_rule(self, group):
        """(rule, options, whether it is differentiable, its Storage or None, what decides); checks what the group says."""
        index = next((index for index, of in enumerate(self.param_groups) if of is plain(group)), len(self.param_groups))
        self._check_group(plain(group), f"altgrad.optim.{type(self).__name__}, group {index}")
        check_entries(self, group)
        check_capturable(group)
        rule = self._rule_of(group)
        if self._ema is not None:
            rule = averaged(rule, tuple(sorted({self._rule_of(of) for of in self.param_groups}, key=attrgetter("name"))))
        storage = self._storage_of(group) if dict.__contains__(group, LINE) else None  # a Reading takes `in` for all keys
        return rule, self._options_of(group), bool(group.get("differentiable")), storage, tuple(map(group.get, self._decides))

    def _every_rule(self):
        """The rules that groups of this class have, here or on another rank."""
        return [self._rule_of(group) for group in self.param_groups]

    def _matrices_of(self, group, param):
        """The Matrices of a parameter, where its group says that it has some; else None."""

    def _blocks_of(self, group, param, held):
        """The Blocks in which a parameter is stepped; [None]: as a whole. Raises ValueError where its states `held` are of others."""
        return [None]

    def _group_rule_with(self, group_rule, matrices, param):
        """What `_group_rule` says, for one of its parameters, which has these matrices."""
        return group_rule

    _reproducible = False  # whether sums over all ranks have the bits of one process

    def _rebuild(self, fit, settings):
        decode_all(self.state)
        self._hold()
        known, before = self._rows, self._fallback_part
        self._watched, self._built, self._rows, self._fallback_part = None, None, {}, None
        group_rules = GroupRules(self.param_groups, self._group_rule, self._clips)
        check_tuples(type(self), self.param_groups)
        check_ranks(self, group_rules.rules)
        watched = Groups(self.param_groups, {*group_rules.keys, *self._watched_keys})
        fallback_part = find_fallback(self) if self._falls_back else None
        fallback_ids = fallback_part.ids if fallback_part else ()
        kernel_params = [p for p in watched.params if id(p) not in fallback_ids]
        if fit != OTHER_GRADS or fallback_ids != (before.ids if before else ()):
            known = {}
        check_adaptive(self, group_rules.clip, self.param_groups[0], fallback_part, self._ranks)
        self._step_ranks = ranks_of(self)
        is_joint = fallback_part is not None or self._step_ranks
        compile_options = dict(clip=group_rules.clip, scaler=settings[0], statistics=self._measures, numerics=self._numerics,
                               keys=" ".join([f"{name}={key}" for name, key in self._keys.items()]),
                               multiplied=multiplies(group_rules.rules, watched.params), exchange=bool(is_joint))
        built = build(self, watched, group_rules.rules, kernel_params, fallback_ids, known, self._stepped,
                      compile_options, self._step_ranks)
        if built:
            self._rows = {row.tag: row for row in built.rows}
            self._stepped = {row.owner: row.grad_dtype for row in built.rows} if self._step_ranks else {}
            self._counters.bind(built.tables)
            bind_draws(self, built)
            bind_history(self.param_groups[0], built)
            bind_step_states(self.param_groups[0], built)
        self._sum_early(built)
        if fallback_part:
            warn_once(self, fallback_part)
        self._watched, self._built, self._fallback_part, self._kernel_params = watched, built, fallback_part, kernel_params
        self._is_joint = bool(is_joint or built and len(built.tables) > 1)
        self._group_rules, self._settings, self._multiplied = group_rules, settings, compile_options["multiplied"]

    def _sum_early(self, built):
        self._hooks.attach(type(self).__name__, built.tables if built and self.norm_in_backward else (), self._lock)
        if self._offload:
            self._offload.attach(built.tables if built else ())

    # Checkpoints, copies.

    def state_dict(self) -> dict[str, Any]:
        """torch's state_dict. Its first group also has the count of skipped steps, where there may be any.

        Returns:
            A dict with `state` and `param_groups`, as torch has it. A state that is stored as codes is
            `{"codes": tensor}` there, so that torch's class raises in its first step and does not take codes for
            numbers: `altgrad.transcode(state_dict, to="torch")` is for that class.
        """
        return encode_state_dict(self, super().state_dict())

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class or of torch's class of the same name. Every state keeps its dtype.

        torch would cast each state to the dtype of its parameter. The next step makes a state as wide as the storage
        says where it is narrower. A file without `max_grad_norm` leaves the bound as it is. States in
        another storage can be brought into this one with `altgrad.transcode`.

        Args:
            state_dict: What `state_dict()` gave.

        Raises:
            ValueError: The groups do not fit, or the file's states have another storage. Nothing has changed then.
            TypeError: It is no state_dict.
        """
        with preserve_dtypes(self):
            super().load_state_dict(state_dict)
        self._forget()  # not before: a file that is refused changes nothing

    def _forget(self):
        """Lets go of the table and of private step counts: the states are others now."""
        self._lock = self._lock or threading.RLock()
        register(self)
        self._watched, self._built, self._fallback_part = None, None, None
        self._hold()
        self._rows, self._counts = {}, {}
        self._counters = self._counters or StepCounters()
        self._hooks = self._hooks or NormHooks()
        self._hooks.remove()
        if self._offload:
            self._offload.remove()
        self._offload = Offload(self._lock, self.offload == "bound") if self.offload else None

    def __getstate__(self) -> dict[str, Any]:
        kept = super().__getstate__()
        kept.update(fused_amp=self.fused_amp, fallback=self.fallback, _measures=self._measures,
                    _left_behind=self._left_behind or self._ranks is not None,
                    norm_in_backward=self.norm_in_backward, offload=self.offload, _numerics=self._numerics,
                    _words=self._words, **self._ema_entries(), state=picklable(self),
                    param_groups=self._counters.encode(self.param_groups))
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "profile" in state:  # of altgrad before numerics= had its name
            state = {**state, "_numerics": state["profile"]}
            del state["profile"]
        super().__setstate__(state)
        self._forget()
        if state.get("_left_behind"):
            warn(f"altgrad.optim.{type(self).__name__}: a process_group is neither copied nor "
                 "pickled; set it again")
        fill_older(self)
        self._counters.take(self.param_groups)


document(Optimizer)
