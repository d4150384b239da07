"""AdamW and Muon over several processes, by names of their own."""

from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from .. import optim
from ._sharded import Sharded


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
    """Muon over several processes, `Sharded(altgrad.optim.Muon, params, ...)`: one rank steps each parameter.

    Gradients are averaged on their owners, and the results are broadcast. Matrices are given to ranks by the products
    that they take, the dearest first. The bits are those of one process with the same averages, on any number of ranks.
    Matrices of FSDP2 go to their owners, whose copies are whole, and back; their gradients are averages already. What
    AdamW updates of FSDP2 is stepped by the ranks that have its parts.

    Args:
        params: Parameters or param_groups, the same on all ranks; groups with `use_muon=False` are updated by AdamW.
            DTensors are of any meshes of ranks of `process_group`. Plain ones beside them are the same on every rank,
            with gradients that are averages already.
        lr: The learning rate.
        words: What Sharded and altgrad.optim.Muon take besides.

    Example:
        >>> rest = {"params": biases, "use_muon": False}
        >>> optimizer = altgrad.distributed.DistMuon([{"params": matrices}, rest], lr=0.02)
    """

    def __init__(self, params: ParamsT, lr: float | torch.Tensor = 1e-3, **words: Any):
        super().__init__(optim.Muon, params, lr=lr, **words)
