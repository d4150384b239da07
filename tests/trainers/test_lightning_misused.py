"""What modules and users do around the plugin that the Trainer does not: clips of their own, several fits."""

import pytest
import torch

for package in ("sklearn", "lightning"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/packages.sh)")

import digits  # noqa: E402
from altgrad.amp import AmpConfig  # noqa: E402
from altgrad.amp.lightning import FusedPrecision  # noqa: E402
from fits import CLIP, Digits, fit, same, trainer_of  # noqa: E402
from lightning.pytorch.utilities.exceptions import MisconfigurationException  # noqa: E402

HALF = AmpConfig(torch.float16)


class Kept(Digits):
    """Its optimizer is the same in every fit."""

    def configure_optimizers(self):
        self.kept = getattr(self, "kept", None) or super().configure_optimizers()
        return self.kept

    def validation_step(self, batch, index):
        pass


@pytest.mark.parametrize("bound", [2 * CLIP, None])
def test_a_bound_of_the_trainer_is_not_the_users_for_another_plugin(bound):
    module = Kept()
    fit(module, FusedPrecision(HALF), max_epochs=1)
    fit(module, FusedPrecision(HALF), max_epochs=1, gradient_clip_val=bound)
    assert module.kept.max_grad_norm == (bound or float("inf"))


def test_a_validation_between_two_fits_changes_no_bound():
    module, plugin = Kept(), FusedPrecision(HALF)
    fit(module, plugin, max_epochs=1)
    trainer_of(plugin).validate(module, digits.Batches(), verbose=False)
    fit(module, plugin, max_epochs=1, gradient_clip_val=2 * CLIP)
    assert module.kept.max_grad_norm == 2 * CLIP


class Twice(Digits):
    """Clips by value twice, or after it has looked at the unscaled gradients."""

    def __init__(self, unscales=False, kinds=("value",)):
        super().__init__()
        self.unscales, self.kinds = unscales, kinds

    def on_before_optimizer_step(self, optimizer):
        if self.unscales:
            self.trainer.precision_plugin.scaler.unscale_(optimizer)

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        for kind in self.kinds:
            self.clip_gradients(optimizer, 0.01, kind)


def test_gradients_are_unscaled_once_whoever_clips():
    nets = []
    for options in (dict(), dict(unscales=True), dict(kinds=("value", "value"))):
        module = Twice(**options)
        fit(module, FusedPrecision(HALF), gradient_clip_val=None)
        nets.append(module.net)
    assert same(nets[0], nets[1]) and same(nets[0], nets[2])


def test_a_clip_by_value_after_one_by_norm_is_an_error():
    """The norm's is to come in the step, behind it."""
    with pytest.raises(MisconfigurationException, match="cannot be clipped by value after they were to be clipped by norm"):
        fit(Twice(kinds=("norm", "value")), FusedPrecision(HALF), gradient_clip_val=None)
    fit(Twice(kinds=("value", "norm")), FusedPrecision(HALF), gradient_clip_val=None, max_epochs=1)
