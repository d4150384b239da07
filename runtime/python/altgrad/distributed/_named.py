"""AdamW and Muon over several processes, by names of their own."""

from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from .. import optim
from .._binding.layout import is_dtensor
from ._dtensors import make_dtensors
from ._sharded import Sharded
from ._owned import cost_of, make_owned


class DistAdamW(Sharded):
    """AdamW over several processes, as ZeRO-2 has it: `Sharded(altgrad.optim.AdamW, params, ...)`.

    Args:
        params: Parameters or param_groups, the same on all ranks.
        lr: The learning rate.
        words: What Sharded and altgrad.optim.AdamW take besides.

    Example:
        >>> optimizer = altgrad.distributed.DistAdamW(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    """

    def __init__(self, params: ParamsT, lr: float | torch.Tensor = 1e-3, **words: Any):
        super().__init__(optim.AdamW, params, lr=lr, **words)


class DistMuon(Sharded):
    """Muon over several processes: each parameter is stepped as a whole by one rank, its owner.

    Gradients are averaged on their owners, and the results are broadcast. Matrices are given to ranks by the products
    that they take, the dearest first. The bits are those of one process with the same averages, on any number of ranks.
    Matrices of FSDP2 go to their owners, whose copies are whole, and back; their gradients are averages already. What
    AdamW updates of FSDP2 is stepped by the ranks that have its parts.

    Args:
        params: Parameters or param_groups, the same on all ranks; groups with `use_muon=False` are updated by AdamW.
            All are plain, or all are DTensors of meshes of the ranks of `process_group`.
        lr: The learning rate.
        words: What Sharded and altgrad.optim.Muon take besides.

    Example:
        >>> rest = {"params": biases, "use_muon": False}
        >>> optimizer = altgrad.distributed.DistMuon([{"params": matrices}, rest], lr=0.02)
    """

    _whole = True

    def __init__(self, params: ParamsT, lr: float | torch.Tensor = 1e-3, **words: Any):
        self._muon = words.get("use_muon", True)
        if callable(self._muon):
            raise TypeError("altgrad.distributed.DistMuon: use_muon is a function, which ranks cannot compare: give groups")
        super().__init__(optim.Muon, params, lr=lr, **words)

    def _made(self, owner, params, group, most, reduce_dtype):
        groups = {param: {"use_muon": self._muon, **of} for of in self.param_groups for param in of["params"]}
        if any(map(is_dtensor, params)):
            return make_dtensors(owner, params, groups, group, reduce_dtype, self._reproducible)
        costs = [cost_of(param, groups[param]) for param in params]
        return make_owned(params, costs, group, reduce_dtype, self._reproducible)[::self._backward]
