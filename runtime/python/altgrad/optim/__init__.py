"""torch.optim classes that run compiled rules on CPU tensors."""

from ._from_rule import FromRule
from ._named import ADOPT, LAMB, SGD, Adagrad, Adam, AdamW, AdEMAMix, Lion, RMSprop
from ._narrow import AdamWFp8, LionFp8
from ._optimizer import Optimizer
from ._record import Record, plot_run
from ._transcode import StateError, transcode

__all__ = ["ADOPT", "Adagrad", "Adam", "AdamW", "AdamWFp8", "AdEMAMix", "FromRule", "LAMB",
           "Lion", "LionFp8", "Optimizer", "RMSprop", "Record", "SGD", "StateError", "plot_run", "transcode"]
