"""ZeRO-2: every rank has all parameters, and the gradients and states of its own part of them."""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import ParamsT

from .. import optim
from .._binding.layout import is_dtensor, local_of
from .._binding.rank_sets import check_reach
from .._binding.early_norm import EarlyNorm
from .._storage.draws import COUNT
from .._storage.history import HISTORY
from .._storage.lacking import may_lack
from .._storage.storage_line import LINE
from .._warn import warn_renamed
from ..optim._integrations import warn_of_ddp
from ._agreement import Change, are_same, check_changes, check_same, hook, find_change, parameters_of
from ._buckets import Bucket, check_kind, make_buckets, piggyback_words, take_reduce_dtype, way_of
from ._dtensors import ShardedParameters, make_dtensors
from ._files import REMEDY, encode_shards, gather_states, decode_shards
from ._coming import Coming
from ._flat_shard import PartOf
from ._replicas import take_ranks
from ._scaled import check_scaler, step_part
from ._sending import Sending
from ._owned import cost_of, make_owned, remote_parameter

_ASIDE = "params",


class Sharded(Sending, torch.optim.Optimizer):
    """An optimizer of altgrad.optim whose states are spread over the ranks of a process group, as ZeRO-2 has it.

    Every rank has the whole model and computes gradients of its own batch. While backward runs, gradients are averaged
    in flat buckets, of which each rank keeps its part and lets go of the rest: `param.grad` is None afterwards. The
    step updates that part, with the norm of all parts, and the ranks then exchange what they have updated. Parameters
    and states have the bits that one process would have with the same averages; the norm is within its last bits, or
    has its bits with `reproducible`.
    Tensors may have any shape; frozen and unused parameters are left alone, and so is a parameter that has a
    gradient on no rank. DTensors are stepped where their parts lie, as altgrad.optim does it, of whatever meshes of these
    ranks. Plain parameters beside them are the same on every rank, with gradients that are averages already.

    Args:
        kind: A class of altgrad.optim. With Muon, NorMuon and the classes with numbers of rows and columns, such as
            Adafactor, one rank updates each parameter as a whole, as in DistMuon; any other rule updates each element by
            itself.
        params: Parameters or param_groups, the same on all ranks. Their memory moves into the buckets, and
            they become those of the first rank.
        process_group: The ranks that share the work, None: all; or a DeviceMesh of these. A mesh of
            two dimensions is replicas x ranks that share the work, as fully_shard takes it for HSDP: parameters are sent
            within a row of the mesh, such as a node, and each rank sends its part of the gradients to the other rows.
        bucket_bytes: The most bytes of parameters in a bucket; a larger parameter has its own.
        reduce_dtype: The dtype in which gradients travel, torch.float32 or torch.bfloat16; None: that of the
            parameters.
        overlap: Whether gradients travel during backward, or all of them at its end. The last bucket travels when the
            step begins, with what ranks say of their gradients.
        order: In which order backward is expected to finish gradients: "reversed", that of `params` from the last one
            on, or "given", that of `params`. Buckets are sent in this order, and come back in the other one.
        reproducible: Whether norms have the bits of one process, too, on any number of ranks: they exchange one
            partial sum per 4,096 elements (4 bytes) instead of one number. A DTensor whose shards do not end on
            multiples of 4,096 elements is stepped by one rank as a whole.
        model: The model whose parameters these are. Updated parameters are then sent while its next forward runs: each
            module waits for its own, `model.state_dict()` and the next step for all. Parameters that are read in another
            way, such as by `model.parameters()`, may be those before the step until `wait_parameters()` is called.
        words: What the class takes besides.

    Raises:
        RuntimeError: There is no process group.
        TypeError: `kind` is no class of altgrad.optim, or `process_group` no process group.
        ValueError: This rank is not in the group, the ranks have different parameters, or the group has no backend for the
            device of one.

    Example:
        >>> optimizer = altgrad.distributed.Sharded(altgrad.optim.AdamW8bit, model.parameters(), lr=1e-3)
    """

    def __init__(self, kind: type[optim.Optimizer], params: ParamsT, *, process_group: Any = None,
                 bucket_bytes: int = 25 << 20, reduce_dtype: torch.dtype | None = None, overlap: bool = True,
                 reproducible: bool = False, order: str = "reversed", model: torch.nn.Module | None = None, **words: Any):
        owner = f"altgrad.distributed.{type(self).__name__}"
        reduce_dtype, words = take_reduce_dtype(owner, reduce_dtype, words)
        if not (dist.is_available() and dist.is_initialized()):
            raise RuntimeError(f"{owner} needs a process group: call torch.distributed.init_process_group first")
        group, self._replicas, self._ranks = take_ranks(owner, process_group)
        check_kind(owner, kind)
        self._whole = kind._steps_wholes
        if self._whole and callable(words.get("use_muon")):
            raise TypeError(f"{owner}: use_muon is a function, which ranks cannot compare: give groups")
        if reduce_dtype not in (None, torch.float32, torch.bfloat16):
            raise ValueError(f"{owner}: reduce_dtype is {reduce_dtype}; gradients travel in torch.float32 or torch.bfloat16")
        self._backward = way_of(owner, order)
        if reproducible and issubclass(kind, optim.Muon):
            words["reproducible"] = True
        self._reproducible = reproducible
        self._inner, self._overlap, self._syncs, self._hooks = None, overlap, True, ()
        super().__init__(params, {})
        self._group = group
        self._settings = kind, words, bucket_bytes, reduce_dtype
        self._model, self._coming = model, Coming(model)
        self._bind()

    def _bind(self):
        """Lays out the parameters that the groups have now, and makes the optimizer of this rank's part."""
        owner, (kind, words, most, reduce_dtype) = f"altgrad.distributed.{type(self).__name__}", self._settings
        every = [param for of in self.param_groups for param in of["params"] if param.requires_grad]
        for group in filter(None, (self._group, self._replicas)):
            check_reach(owner, [param for param in every if not is_dtensor(param)], group)
        check_same(owner, self.param_groups, self._ranks, words, kind, most, reduce_dtype, self._reproducible, self._backward)
        self._buckets = self._made(owner, every, self._group, most, reduce_dtype)
        for bucket in self._buckets:
            bucket.share()
        self._frozen = [param for of in self.param_groups for param in of["params"] if not param.requires_grad]
        self._laid, self._whole_states, self._stepped = parameters_of(self.param_groups), None, False
        self._at = {param: (bucket, place) for bucket in self._buckets for place, param in enumerate(bucket.params)}
        self._parts = {param: bucket.part_of(place) for param, (bucket, place) in self._at.items()}
        self._elsewhere = {self._parts[param] for param, (bucket, place) in self._at.items() if not bucket.is_here(place)}
        self._order, self._used = {param: index for index, param in enumerate(every)}, set()
        # Frozen ones as they are: the place in the list says which random bits a parameter gets.
        self._inner = kind(self._groups_of_parts(), process_group=self._group, **words)
        self._inner._reproducible = self._reproducible
        for bucket in self._buckets:
            bucket.fallbacks = self._inner._counters.fallbacks
        self.defaults: dict[str, Any] = self._inner.defaults
        for mine, inner in zip(self.param_groups, self._inner.param_groups):
            for key in mine.keys() - inner.keys():  # what has become other entries, as orthogonalize and min_8bit_size
                del mine[key]
            mine.update({key: value for key, value in inner.items() if key not in mine or key == LINE})
        self._sent, self._backward_of, self._early_norm, self._waits = 0, None, EarlyNorm(), False
        self._tells = bool(self._buckets) and isinstance(self._buckets[-1], Bucket)
        if self._tells:
            self._buckets[-1].words = piggyback_words(len(self._ranks.members), len(self._order))
        for handle in self._hooks:
            handle.remove()
        self._travels = not any(map(is_dtensor, every))
        self._device = local_of(every[0]).device if every else torch.device("cpu")
        self._hooks = [hook(param, weakref.WeakMethod(self._ready)) for param in every if self._travels]

    def _groups_of_parts(self):
        """The groups with what this rank steps of each parameter."""
        return [{**of, "params": [self._parts[param] if param in self._parts else remote_parameter(param) if is_dtensor(param) else
                                  param for param in of["params"]]} for of in self.param_groups]

    _whole = False  # whether parameters are stepped as wholes, by their owners
    # torch's scaler gives itself to a step that takes it, and otherwise looks at gradients that are elsewhere.
    _step_supports_amp_scaling = True

    def _made(self, owner, params, group, most, reduce_dtype):
        default = {"use_muon": self._whole and self._settings[1].get("use_muon", True)}
        groups = {param: {**default, **of} for of in self.param_groups for param in of["params"]}
        if self._replicas and (self._whole or any(map(is_dtensor, params))):
            raise ValueError(f"{owner}: process_group is a mesh with replicas, which are for rules that update elements and for "
                             "plain parameters: give the group of all ranks")
        if any(map(is_dtensor, params)):
            return make_dtensors(owner, params, groups, group, reduce_dtype, self._reproducible, bool(self._settings[0]._of_units))
        if not self._whole:
            return make_buckets(params[::self._backward], group, most, reduce_dtype, self._replicas)
        costs = [cost_of(param, groups[param]) for param in params]
        return make_owned(params, costs, group, reduce_dtype, self._reproducible)[::self._backward]

    @property
    def grad_norm(self) -> torch.Tensor | None:
        """The global norm of the last step's averaged gradients before clipping, as altgrad.optim.Optimizer has it."""
        return self._inner.grad_norm

    @property
    def local_optimizer(self) -> optim.Optimizer:
        """The optimizer of this rank's part, whose `state` and `statistics()` are of that part and of all ranks."""
        return self._inner

    @property
    def own(self) -> optim.Optimizer:
        """The old name of `local_optimizer`."""
        warn_renamed("optimizer.own", "optimizer.local_optimizer")
        return self._inner

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a param_group while the optimizer is made; later on it is refused, because the buckets are full."""
        if self._inner is not None:
            raise RuntimeError(f"altgrad.distributed.{type(self).__name__} takes all param_groups when it is made")
        super().add_param_group(param_group)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which backward adds to `param.grad` and sends nothing; the next backward outside sends the sum."""
        before, self._syncs = self._syncs, False
        try:
            yield
        finally:
            self._syncs = before

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None, grad_scaler: torch.amp.GradScaler | None = None) -> Any:
        """Updates this rank's part by the averaged gradients, and gives every rank all parts. All ranks call it.

        Args:
            closure: Called first, with gradients enabled; it computes the loss and its gradients.
            grad_scaler: The scaler of the loss, which gives itself in `scaler.step(optimizer)`. A gradient that
                is not finite on one rank skips the step of all, and the scale changes on all of them.

        Returns:
            What `closure` returns, or None.

        Raises:
            RuntimeError: A parameter's memory was replaced, as `model.to()` does; a parameter that was frozen when the
                optimizer was made requires a gradient; the scaler's `unscale_` was called; or another rank ended, or
                did not come within the timeout of the process group.
        """
        check_scaler(f"altgrad.distributed.{type(self).__name__}", self, closure, grad_scaler)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._step_parts(lambda: step_part(self._inner, self._ranks, grad_scaler))
        return loss

    def _step_parts(self, run):
        """Brings gradients where they are stepped, has `run` step this rank's part, and gives every rank all parts."""
        self._coming.wait()
        if not self._stepped and self._travels:
            warn_of_ddp(f"altgrad.distributed.{type(self).__name__}", self._at)
        used, self._whole_states, self._stepped = self._meet(), None, True
        for bucket in self._buckets:
            self._arrive(bucket)
        for param, part in self._parts.items():
            if not used[self._order[param]]:
                part.grad = None
        self._tell_groups()
        run()
        for mine, inner in zip(self.param_groups, self._inner.param_groups):  # steps count in tensors that all groups share
            mine.update({key: inner[key] for key in (COUNT, HISTORY, *self._inner._step_states) if key in inner})
        self._exchange_parameters()
        self._clear()
        self._show_states()

    def _exchange_parameters(self):
        """Gives every rank what the others have stepped. Those that forward needs first come first."""
        self._coming.send(list(reversed(self._buckets)))

    def wait_parameters(self) -> None:
        """Waits until this rank has all that others have updated, which with `model` is not so when `step` returns."""
        self._coming.wait()

    @contextmanager
    def ema_weights(self) -> Iterator[None]:
        """Within it parameters are their averages on every rank, as altgrad.optim.Optimizer has it. All ranks enter it."""
        try:
            with self._inner.ema_weights():
                self._exchange_parameters()
                self._coming.wait()
                yield
        finally:
            self._exchange_parameters()
            self._coming.wait()

    def _tell_groups(self):
        for mine, inner in zip(self.param_groups, self._inner.param_groups):
            for key in {*inner} - {*mine, *_ASIDE}:
                del inner[key]
            inner.update({key: value for key, value in mine.items() if key not in _ASIDE})

    def _meet(self):
        """Sends what backward has not sent, and follows what became of the parameters; who has a gradient on some rank.

        Every rank learns what the others found before it raises, so that none is left waiting.
        """
        change, why = find_change(self)
        if self._travels:  # before all else: others may have sent theirs during backward
            self._send_rest(change <= Change.REGROUPED)
        used = [param in self._used or param.grad is not None for param in self._order]
        edited = not self._travels and any([bucket.is_edited() for bucket in self._buckets])
        changes, (edited, *used) = self._exchange_changes(change, [edited, *used])
        check_changes(f"altgrad.distributed.{type(self).__name__}", changes, change, why)
        if change == Change.OTHERS:
            self._clear()
            self._bind()
            return self._meet()
        if change == Change.REGROUPED:
            self._regroup()
        if not self._travels:
            for bucket in self._buckets:
                bucket.edited = edited
            self._send_rest(True)
        return used

    def _regroup(self):
        """Gives the optimizer of this rank's part the groups that the same parameters have now."""
        self._inner.param_groups[:] = self._groups_of_parts()
        self._laid = parameters_of(self.param_groups)

    def _clear(self):
        for bucket in self._buckets:
            bucket.clear()
        for part in self._parts.values():
            part.grad = None
        self._used, self._waits = set(), False

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Lets go of all gradients, those on their way included."""
        super().zero_grad(set_to_none)
        self._clear()

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError(f"altgrad.distributed.{type(self).__name__} is neither copied nor pickled, because its gradients and "
                        "parameters travel: make another one for a copy of the model, and give it state_dict()")

    def state_dict(self) -> dict[str, Any]:
        """The states of this rank's part, each of which says where it is in the whole.

        torch.distributed.checkpoint saves and loads them by the names of parameters, with any number of ranks. With
        torch.save each rank has a file of its own; `altgrad.distributed.merge_state_dicts` makes one of all of them.
        After `consolidate_state_dict()` it has whole states.

        Returns:
            A dict as torch has it, with `ranks`: (this rank, number of ranks).

        Raises:
            RuntimeError: The groups have other parameters now, and there are states of those that they had.
        """
        change, why = find_change(self)
        if change == Change.OTHERS:  # before they are laid out there are no states
            return {**super().state_dict(), "ranks": PartOf(self._rank_and_size())}
        if not are_same(self._laid, self.param_groups):
            if why:
                raise RuntimeError(f"altgrad.distributed.{type(self).__name__}: {why}")
            self._regroup()
        self._tell_groups()  # a scheduler may have changed them since the last step
        given = self._inner.state_dict()
        if self._whole_states is not None:
            return {**self._whole_states, "param_groups": given["param_groups"]}
        owners = {part: param for param, part in self._parts.items() if isinstance(self._at[param][0], ShardedParameters)}
        given = may_lack(self._inner, encode_shards(self._inner, given, owners, self._elsewhere if self.state else ()))
        return {**given, "ranks": PartOf(self._rank_and_size())}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the states of all ranks to one, where `state_dict()` is whole until the next step. All ranks call it.

        It is for trainers that save on one rank alone. Lightning calls it by itself, as it does of torch's
        ZeroRedundancyOptimizer.

        Args:
            to: The rank that saves. The states are in the memory of its host.
        """
        self._whole_states = None
        self._whole_states = gather_states(self.state_dict(), self._group, to)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads what `state_dict()` gave on this rank, or whole states. Parameters are not in it: load the model's,
        too.

        All ranks call it, and where the file of one does not fit, nothing has changed on any.

        Args:
            state_dict: What `state_dict()` gave on this rank, with as many ranks; what `merge_state_dicts` made of all
                ranks' files; or the state_dict of one process.

        Raises:
            ValueError: It is of another rank, or of another number of ranks or other buckets, or does not fit.
        """
        owner = f"altgrad.distributed.{type(self).__name__}"
        change = Change.NONE if are_same(self._laid, self.param_groups) else Change.OTHERS
        check_changes(owner, self._gather_numbers(change)[:, 0].tolist(), change, None)
        if change:
            self._bind()
        given, error = None, None
        try:
            given = self._decode(owner, state_dict)
        except ValueError as refusal:
            error = refusal
        refused = self._gather_numbers(error is not None)[:, 0].tolist()
        if error is not None:
            raise error
        if any(refused):
            raise ValueError(f"{owner}: the file of rank {refused.index(1.0)} does not fit there, as that rank says")
        self._whole_states = None
        self._inner.load_state_dict(given)
        for mine, inner in zip(self.param_groups, self._inner.param_groups):
            mine.update({key: value for key, value in inner.items() if key not in _ASIDE})
        self.state.clear()
        self._show_states(begun=bool(state_dict["state"]))

    def _decode(self, owner, given):
        if (saved := tuple(given.get("ranks", self._rank_and_size()))) != self._rank_and_size():
            raise ValueError(f"{owner}: the file is of (rank, ranks) {saved}, and this is {self._rank_and_size()}: {REMEDY}")
        return decode_shards(owner, self._inner, {key: value for key, value in given.items() if key != "ranks"}, self._elsewhere)

    def _show_states(self, begun=True):
        """Under the parameters, for torch.distributed.checkpoint asks which keys there are, and whether there are any: where
        some rank has states (`begun`), one that keeps nothing has entries, too, or it alone would make a step to have some."""
        elsewhere = self._elsewhere if begun else ()
        if len(self.state) < len(self._inner.state) + len(elsewhere):
            self.state.update({param: {} if part in elsewhere else self._inner.state[part] for param, part in
                               self._parts.items() if part in elsewhere or part in self._inner.state and part not in self._elsewhere})
