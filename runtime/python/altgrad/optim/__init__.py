"""torch.optim classes that run compiled rules on CPU tensors."""

from ._from_rule import FromRule
from ._grid import GridOptim
from ._named import ADOPT, LAMB, SGD, Adagrad, Adam, AdamW, AdEMAMix, Lion, ManifoldAdamW, RMSprop
from ._narrow import AdamWFp8, LionFp8
from ._optimizer import Optimizer
from ._record import Record, plot_run

__all__ = ["ADOPT", "Adagrad", "Adam", "AdamW", "AdamWFp8", "AdEMAMix", "FromRule", "GridOptim", "LAMB",
           "Lion", "LionFp8", "ManifoldAdamW", "Optimizer", "RMSprop", "Record", "SGD", "plot_run"]
