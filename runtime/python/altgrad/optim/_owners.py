"""DTensors of optimizers of whole matrices: their owners step them, as altgrad.distributed does it."""

from typing import Any

import torch

from .._binding.layout import PLAIN, is_dtensor
from .._binding.ranks import ranks_of
from ._optimizer import Optimizer


class MatrixOwners(Optimizer):
    """An optimizer of whole matrices. Where some are DTensors, an altgrad.distributed.Sharded steps, of the same groups.

    `_sharded` is that, or None; a copy cannot have it, because it exchanges with other ranks.
    """

    _sharded, _steps_wholes = None, True

    def _is_shared(self):
        # Each step asks: of plain tensors a set of their types says it.
        return any([is_dtensor(param) for group in self.param_groups if group.get("use_muon", True)
                    and not PLAIN.issuperset(map(type, group["params"])) for param in group["params"]])

    def _over_ranks(self):
        """The Sharded that steps for this optimizer; None without DTensors among the matrices. All ranks ask at once."""
        if self._sharded is None and self._is_shared():
            from ..distributed import Sharded  # late: it is made of this package
            owner, ranks = f"altgrad.optim.{type(self).__name__}", ranks_of(self)
            if self.process_group is not None or ranks and ranks.everyone is None:
                raise ValueError(f"{owner}: its matrices are DTensors, and no mesh has all ranks that step them: give each part of "
                                 "the model that has ranks of its own an optimizer of its own, without process_group")
            group = ranks.everyone.one_group() if ranks else next(
                param for of in self.param_groups for param in of["params"] if is_dtensor(param)).device_mesh.get_group(0)
            words = dict(numerics=self.numerics, statistics=self._measures, fused_amp=self.fused_amp)
            if not self._fixed_storage:
                words["storage"] = str(self._words)
            made = Sharded(type(self), self.param_groups, process_group=group, **words,
                           **({} if self._ema is None else {"ema": self._ema}))
            made.param_groups, self._sharded, self._counters = self.param_groups, made, made.local_optimizer._counters
            self._share_states()
        return self._sharded

    def _share_states(self):
        self.state.update(self._sharded.state)

    def _advance(self, own=None):
        sharded = self._over_ranks()
        if sharded is None:
            super()._advance(own)
            return
        grads = [(param, param.grad) for group in self.param_groups for param in group["params"]]
        inner = sharded.local_optimizer
        scaled = {key: getattr(self, key) for key in ("grad_scale", "found_inf") if getattr(self, key, None) is not None}
        vars(inner).update(scaled)
        try:
            sharded._step_parts(lambda: inner._step(None, own))
        finally:
            for key in scaled:
                delattr(inner, key)
            for param, grad in grads:
                param.grad = grad
        self._norm = inner._norm
        self._share_states()

    def statistics(self) -> Any:
        """The norms and counts of the last step, as altgrad.optim.Optimizer has them; of this rank's parts of DTensors."""
        return super().statistics() if self._sharded is None else self._sharded.local_optimizer.statistics()

    def ema_weights(self) -> Any:
        """Within it parameters are their averages, as altgrad.optim.Optimizer has it."""
        return super().ema_weights() if self._sharded is None else self._sharded.ema_weights()

    def state_dict(self) -> dict[str, Any]:
        """torch's state_dict; of DTensors that of altgrad.distributed.Sharded, with the states that this rank has."""
        return super().state_dict() if self._over_ranks() is None else self._sharded.state_dict()

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads what `state_dict()` gave, as altgrad.optim.Optimizer does; of DTensors all ranks call it.

        Args:
            state_dict: What `state_dict()` gave.
        """
        if self._over_ranks() is None:
            super().load_state_dict(state_dict)
            return
        self._sharded.load_state_dict(state_dict)
        self.state.clear()
        self._share_states()

    def __getstate__(self) -> dict[str, Any]:
        if self._sharded is not None:
            raise TypeError(f"altgrad.optim.{type(self).__name__}: an optimizer of DTensors is neither copied nor pickled, because "
                            "it exchanges matrices with other ranks: make another one, and give it state_dict()")
        return super().__getstate__()
