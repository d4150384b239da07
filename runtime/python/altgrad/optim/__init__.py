"""Optimizers to put in place of those of torch.optim; each step is one compiled program, on CPUs and GPUs.

- Classes that torch.optim has, too, such as AdamW, have its arguments, param_groups and states.
- Others, such as Lion and Prodigy, have those of their authors.
- Adam8bit, AdamW4bit, LionFp8 and the other classes with such an ending keep their states in 4 or 8 bits. Every
  class takes `storage=` for any other storage.
- FromRule makes a class from a rule of your own, from_torch one from another optimizer in PyTorch, and by_group one
  whose groups have different rules.
- Storage is the typed form of a storage line, and NewtonSchulz says how Muon orthogonalizes.
- Record and plot_run collect and draw statistics of a run.

Every keyword that all classes share is described once, in Optimizer.
"""

from typing import TYPE_CHECKING

from .._storage.line import Storage
from .._warn import moved
from . import (_adam_mini, _dion, _factored, _mars, _narrow, _of_adam, _of_papers, _of_torch, _preconditioned, _schedule_free, _scion,
               _second_order, _without_rate)
from ._by_group import by_group
from ._dion import *
from ._factored import *
from ._from_rule import FromRule
from ._grid import GridOptim
from ._muon import Muon, NorMuon
from ._narrow import *
from ._adam_mini import *
from ._mars import *
from ._of_adam import *
from ._of_papers import *
from ._of_torch import *
from ._newton_schulz import NewtonSchulz
from ._optimizer import Optimizer
from ._preconditioned import *
from ._record import Record, plot_run
from ._from_torch import from_torch
from ._schedule_free import *
from ._scion import *
from ._second_order import *
from ._without_rate import *

__all__ = ["FromRule", "GridOptim", "Muon", "NewtonSchulz", "NorMuon", "Optimizer", "Record", "Storage", "by_group", "from_torch", "plot_run"]
__all__ += _factored.__all__
__all__ += _narrow.__all__
__all__ += _adam_mini.__all__
__all__ += _dion.__all__
__all__ += _mars.__all__
__all__ += _of_adam.__all__
__all__ += _of_papers.__all__
__all__ += _of_torch.__all__
__all__ += _preconditioned.__all__
__all__ += _schedule_free.__all__
__all__ += _scion.__all__
__all__ += _second_order.__all__
__all__ += _without_rate.__all__

if not TYPE_CHECKING:
    def __getattr__(name):
        if name in ("DistAdamW", "DistMuon"):  # which need this package, and torch.distributed
            from .. import distributed
            return getattr(distributed, name)
        return moved(__name__, name, {"StateError": "altgrad", "transcode": "altgrad"})

    def __dir__():
        return sorted(__all__)
