"""What tests of Lightning share: a module on the digits, and a short way to fit it."""

from functools import partial

import digits
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers.logger import DummyLogger

import altgrad
from altgrad.amp import AmpConfig

CLIP = 0.25

# (config, class of the scaler): float16 with torch's and with altgrad's, where there is one.
CASES = [(AmpConfig(torch.float16), kind) for kind in (torch.amp.GradScaler, altgrad.amp.GradScaler)]
CASES += [(AmpConfig(torch.bfloat16), None), (AmpConfig(torch.float32), None)]


def name_of(case):
    """What pytest calls a case."""
    return case[0].precision + (f"-{case[1].__module__.partition('.')[0]}" if case[1] else "")


class Digits(LightningModule):
    """`make` makes the optimizer; notes the dtypes and gradients that it sees."""

    def __init__(self, make=altgrad.optim.AdamW, **options):
        super().__init__()
        self.net, self._make = digits.network(), partial(make, lr=digits.LR, **options)
        self.seen, self.norms = set(), []

    def training_step(self, batch, index):
        out = self.net(batch[0])
        self.seen.add(out.dtype)
        return torch.nn.functional.cross_entropy(out, batch[1])

    def on_before_zero_grad(self, optimizer):
        self.norms.append(getattr(optimizer, "grad_norm", None))

    def configure_optimizers(self):
        return self._make(self.net.parameters())


class Log(DummyLogger):
    """Keeps what was logged."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def log_metrics(self, metrics, step):
        self.lines.append(metrics)

    def column(self, name):
        return [line[name] for line in self.lines if name in line]


def trainer_of(plugin, **options):
    return Trainer(**{**dict(
        accelerator="cpu", devices=1, plugins=[plugin] if plugin else None, gradient_clip_val=CLIP, max_epochs=2,
        accumulate_grad_batches=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, log_every_n_steps=1), **options})


def fit(module, plugin, checkpoint=None, **options):
    trainer = trainer_of(plugin, **options)
    trainer.fit(module, digits.Batches(), ckpt_path=checkpoint, weights_only=False)
    return trainer


def same(net, other):
    """Whether all weights have the same bits."""
    return all(map(torch.equal, net.state_dict().values(), other.state_dict().values()))
