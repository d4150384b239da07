"""FusedPrecision under Lightning's Trainer: the same bits as a plain loop, in every dtype and with every clip."""

import math

import pytest
import torch

import altgrad

for package in ("sklearn", "lightning"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/packages.sh)")

import digits  # noqa: E402
from altgrad.amp import AmpConfig  # noqa: E402
from altgrad.amp.lightning import FusedPrecision  # noqa: E402
from fits import CASES, CLIP, Digits, fit, name_of, same  # noqa: E402
from lightning.pytorch.plugins.precision import MixedPrecision  # noqa: E402
from lightning.pytorch.utilities.exceptions import MisconfigurationException  # noqa: E402

HALF = AmpConfig.force_fp16("cpu")
CONFIGS = [HALF, AmpConfig(torch.bfloat16), AmpConfig(torch.float32)]


def scaler(kind=torch.amp.GradScaler):
    """Its first scale overflows float16 for some steps."""
    return kind("cpu", init_scale=2.0**22, growth_interval=5)


def without_a_pass(kind):
    """A scaler that may not read and write all gradients once more."""
    def unscale_(self, optimizer):
        raise AssertionError("a pass over the gradients")

    return scaler(type(kind.__name__, (kind,), {"unscale_": unscale_}))


def adamw(params, **options):
    return altgrad.optim.AdamW(params, lr=digits.LR, **options)


@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_fit_has_the_bits_of_a_plain_loop(case):
    """Accumulation, with a last incomplete group; clipping; scale and verdict in the step."""
    config, kind = case
    half, module = kind is not None, Digits(weight_decay=0.1)
    trainer = fit(module, FusedPrecision(config, without_a_pass(kind) if half else None))
    net, optimizer, other = digits.plain(
        lambda params: adamw(params, weight_decay=0.1, max_grad_norm=CLIP, fused_amp=half), config, 2, 2,
        scaler() if half else None)
    assert same(module.net, net) and module.seen == {config.dtype}
    ours, = trainer.optimizers
    assert ours.max_grad_norm == CLIP and ours.fused_amp is half
    assert (ours.param_groups[0]["lr"], ours.param_groups[0]["eps"]) == (digits.LR, 1e-8), "no dtype changes them"
    assert torch.equal(ours.grad_norm, optimizer.grad_norm) and trainer.global_step == 16
    assert any(norm > CLIP for norm in module.norms[1:]), "nothing is clipped"
    if half:
        state = trainer.precision_plugin.state_dict()
        assert state["scale"] < 2.0**22 and other.state_dict().items() <= state.items()


def test_digits_are_learnt_in_float16_with_clip_and_scale():
    module = Digits()
    fit(module, FusedPrecision(HALF), max_epochs=30)
    assert digits.accuracy(module.net) > 0.9


def test_without_a_clip_nothing_is_bounded():
    module = Digits()
    trainer = fit(module, FusedPrecision(HALF, scaler()), gradient_clip_val=None)
    assert trainer.optimizers[0].max_grad_norm is None
    assert same(module.net, digits.plain(lambda p: adamw(p, fused_amp=True), HALF, 2, 2, scaler())[0])


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.precision)
def test_clip_by_value_is_torchs(config):
    def clip(optimizer, scale, step):
        scale.unscale_(optimizer)
        torch.nn.utils.clip_grad_value_(optimizer.param_groups[0]["params"], 0.01)

    module, half = Digits(), config is HALF
    fit(module, FusedPrecision(config, scaler() if half else None), gradient_clip_val=0.01,
        gradient_clip_algorithm="value")
    net, *_ = digits.plain(lambda p: adamw(p, fused_amp=half), config, 2, 2, scaler() if half else None, clip)
    assert same(module.net, net)


def test_torchs_fused_optimizer_is_clipped_too():
    """Lightning's own plugin has an error for it."""
    def clip(optimizer, scale, step):
        scale.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], CLIP)

    make = dict(make=torch.optim.AdamW, fused=True)
    module = Digits(**make)
    fit(module, FusedPrecision(HALF, scaler()))
    net, *_ = digits.plain(lambda p: torch.optim.AdamW(p, lr=digits.LR, fused=True), HALF, 2, 2, scaler(), clip)
    assert same(module.net, net)
    with pytest.raises(RuntimeError, match="does not allow for gradient clipping"):
        fit(Digits(**make), MixedPrecision("16-mixed", "cpu", scaler()))


class Sometimes(Digits):
    """Clips every other step."""

    steps = 0

    def configure_gradient_clipping(self, optimizer, gradient_clip_val=None, gradient_clip_algorithm=None):
        self.steps += 1
        if self.steps % 2:
            self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)


def test_a_module_that_does_not_clip_every_step():
    def bound(optimizer, scale, step):
        optimizer.max_grad_norm = math.inf if step % 2 else CLIP

    module = Sometimes()
    fit(module, FusedPrecision(HALF, scaler()))
    net, *_ = digits.plain(lambda p: adamw(p, max_grad_norm=CLIP, fused_amp=True), HALF, 2, 2, scaler(), bound)
    assert same(module.net, net)


def test_two_processes_with_the_same_batches_have_the_bits_of_one():
    """Their gradients' mean is exact."""
    nets = []
    for options in ({}, dict(strategy="ddp_spawn", devices=2)):
        module = Digits()
        fit(module, FusedPrecision(HALF, scaler()), **options)
        nets.append(module.net)
    assert same(*nets)


class Skipping(Digits):
    """Has no loss for some batches."""

    def training_step(self, batch, index):
        return super().training_step(batch, index) if index % 3 else None


@pytest.mark.parametrize("config", CONFIGS[:2], ids=lambda config: config.precision)
def test_a_module_without_a_loss_for_some_batches(config):
    nets = []
    for plugin in (FusedPrecision(config), MixedPrecision(config.precision, "cpu")):
        module = Skipping()
        fit(module, plugin, accumulate_grad_batches=1, gradient_clip_val=None)
        nets.append(module.net)
    assert same(*nets)


class Manual(Digits):
    """Steps two optimizers itself, and clips one of them."""

    automatic_optimization = False

    def configure_optimizers(self):
        return [self._make(self.net[0].parameters()), self._make(self.net[2].parameters())]

    def training_step(self, batch, index):
        first, second = self.optimizers()
        first.zero_grad(), second.zero_grad()
        self.manual_backward(super().training_step(batch, index))
        self.clip_gradients(first, CLIP, "norm")
        first.step()
        second.step()


def test_manual_optimization_of_two_optimizers():
    module = Manual()
    trainer = fit(module, FusedPrecision(AmpConfig(torch.bfloat16)), gradient_clip_val=None, accumulate_grad_batches=1)
    assert [optimizer.max_grad_norm for optimizer in trainer.optimizers] == [CLIP, None]
    net, config = digits.network(), CONFIGS[1]
    pair = adamw(net[0].parameters(), max_grad_norm=CLIP), adamw(net[2].parameters())
    batches = digits.Batches()
    for batch in [*batches, *batches]:
        net.zero_grad()
        with config.autocast(cache_enabled=False):
            loss = digits.loss_of(net, batch)
        loss.backward()
        pair[0].step(), pair[1].step()
    assert same(module.net, net)


def test_two_bounds_are_an_error():
    with pytest.raises(MisconfigurationException, match="to 0.25, and AdamW was made with max_grad_norm=2.0; give"):
        fit(Digits(max_grad_norm=2.0), FusedPrecision(HALF))
    fit(Digits(max_grad_norm=CLIP), FusedPrecision(HALF), max_epochs=1)


class Kept(Digits):
    """Its optimizer is the same in every fit."""

    def configure_optimizers(self):
        self.kept = getattr(self, "kept", None) or super().configure_optimizers()
        return self.kept


def test_a_second_fit_may_have_another_bound():
    module, plugin = Kept(), FusedPrecision(HALF)
    for bound in (CLIP, 2 * CLIP):
        fit(module, plugin, max_epochs=1, gradient_clip_val=bound)
        assert module.kept.max_grad_norm == bound


def test_a_config_for_another_device_no_config_and_a_scaler_without_float16():
    words = r"for cuda, the model is on cpu; pass AmpConfig.auto\(\['cpu'\]\)"
    with pytest.raises(MisconfigurationException, match=words):
        fit(Digits(), FusedPrecision(AmpConfig(torch.bfloat16, "cuda")))
    with pytest.raises(TypeError, match="config is an AmpConfig or None, not '16-mixed'"):
        FusedPrecision("16-mixed")
    with pytest.raises(MisconfigurationException, match="32-true has no loss scale; a scaler was given: GradScaler"):
        FusedPrecision(AmpConfig(torch.float32), scaler())
