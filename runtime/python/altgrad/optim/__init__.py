"""Optimizers that torch.optim users can put in place of theirs; each step is one compiled program, on CPUs and GPUs."""

from ._from_rule import FromRule
from ._grid import GridOptim
from ._narrow import Adam4bit, Adam8bit, AdamFp8, AdamW4bit, AdamW8bit, AdamWFp8, Lion8bit, LionFp8
from ._of_papers import ADOPT, LAMB, AdEMAMix, Lion, ManifoldAdamW
from ._of_torch import SGD, Adagrad, Adam, AdamW, RMSprop
from ._optimizer import Optimizer
from ._record import Record, plot_run
from ._transcode import StateError, transcode

__all__ = ["ADOPT", "Adagrad", "Adam", "Adam4bit", "Adam8bit", "AdamFp8", "AdamW", "AdamW4bit", "AdamW8bit", "AdamWFp8", "AdEMAMix", "FromRule", "GridOptim",
           "LAMB", "Lion", "Lion8bit", "LionFp8", "ManifoldAdamW", "Optimizer", "RMSprop", "Record", "SGD",
           "StateError", "plot_run", "transcode"]
