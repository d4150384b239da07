"""torch.optim classes that run compiled rules on CPU tensors."""

from ._from_rule import FromRule
from ._named import ADOPT, LAMB, SGD, Adagrad, Adam, AdamW, AdEMAMix, Lion, RMSprop
from ._optimizer import Optimizer
from ._record import Record, plot_run

__all__ = ["ADOPT", "Adagrad", "Adam", "AdamW", "AdEMAMix", "FromRule", "LAMB", "Lion",
           "Optimizer", "RMSprop", "Record", "SGD", "plot_run"]
