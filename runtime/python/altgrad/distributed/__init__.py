"""Optimizers over several processes without FSDP: each rank keeps the states of its own part (ZeRO-2), or of the
matrices that it owns (Muon).

    torch.distributed.init_process_group("nccl")
    optimizer = altgrad.distributed.DistAdamW(model.parameters(), lr=1e-3, max_grad_norm=1.0)

Parameters of FSDP2 need nothing of this, but for Muon: every other class of altgrad.optim takes DTensors.
"""

from typing import TYPE_CHECKING

from .._warn import moved
from ._files import merge_state_dicts
from ._memory import Memory, memory
from ._named import DistAdamW, DistMuon
from ._sharded import Sharded

__all__ = ["DistAdamW", "DistMuon", "Memory", "Sharded", "memory", "merge_state_dicts"]

if not TYPE_CHECKING:
    def __getattr__(name):
        return moved(__name__, name, {"joined": f"{__name__}:merge_state_dicts"})

    def __dir__():
        return sorted(__all__)
