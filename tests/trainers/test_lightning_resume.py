"""A fit that is stopped and resumed ends with the bits of one that was not; statistics go on, too."""

import pytest
import torch

for package in ("sklearn", "lightning"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/packages.sh)")

import altgrad  # noqa: E402
from altgrad.amp import AmpConfig  # noqa: E402
from altgrad.amp.lightning import FusedPrecision, StepStatistics  # noqa: E402
from fits import CASES, CLIP, Digits, Log, fit, name_of, same  # noqa: E402
from lightning.pytorch.callbacks import ModelCheckpoint  # noqa: E402
from lightning.pytorch.plugins.precision import MixedPrecision  # noqa: E402

HALF, BF16 = AmpConfig(torch.float16), AmpConfig(torch.bfloat16)


class Scheduled(Digits):
    """With a learning rate that changes in every step."""

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def scaler(kind=torch.amp.GradScaler):
    """Its scale overflows float16 in the first steps."""
    return kind("cpu", init_scale=2.0**24, growth_interval=5)


def run(case, **options):
    config, kind = case
    module, statistics = Scheduled(weight_decay=0.1), StepStatistics()
    plugin = FusedPrecision(config, scaler(kind) if kind else None)
    trainer = fit(module, plugin, callbacks=[statistics, *options.pop("callbacks", [])], **options)
    return module, trainer, statistics


@pytest.mark.parametrize("step", [2, 5, 8, 11], ids="step{}".format)
@pytest.mark.parametrize("case", CASES, ids=name_of)
def test_a_resumed_fit_has_the_bits_of_an_uninterrupted_one(case, step, tmp_path):
    """In the first epoch, while steps are skipped; at its end (8); in the second."""
    whole, trainer, counts = run(case)
    keep = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=step)
    first, *_ = run(case, callbacks=[keep], max_steps=step, max_epochs=-1, enable_checkpointing=True)
    assert not same(whole.net, first.net)
    resumed, again, counted = run(case, checkpoint=keep.best_model_path)
    assert same(whole.net, resumed.net) and again.global_step == trainer.global_step == 16
    for mine, other in zip(trainer.optimizers[0].state.values(), again.optimizers[0].state.values()):
        assert all(map(torch.equal, mine.values(), other.values()))
    assert trainer.precision_plugin.state_dict() == again.precision_plugin.state_dict()
    assert counts.state_dict() == counted.state_dict()
    if case[1]:
        assert 2 < counted.skipped[0] == 16 - trainer.optimizers[0].state[whole.net[0].weight]["step"]


def test_another_bound_after_resuming(tmp_path):
    """The Trainer's bound is not the optimizer's, and not in its checkpoint."""
    keep = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=5)
    run((BF16, None), callbacks=[keep], max_steps=5, max_epochs=-1, enable_checkpointing=True)
    _, trainer, _ = run((BF16, None), checkpoint=keep.best_model_path, gradient_clip_val=2 * CLIP)
    assert trainer.optimizers[0].max_grad_norm == 2 * CLIP
    _, trainer, _ = run((BF16, None), checkpoint=keep.best_model_path, gradient_clip_val=None)
    assert trainer.optimizers[0].max_grad_norm is None


def test_a_checkpoint_of_lightnings_own_plugin(tmp_path):
    """It has the scale under another name."""
    keep, theirs = ModelCheckpoint(tmp_path, "{step}", every_n_train_steps=5), MixedPrecision("16-mixed", "cpu", scaler())
    fit(Digits(), theirs, callbacks=[keep], gradient_clip_val=None, enable_checkpointing=True, max_epochs=1)
    whole, resumed = Digits(), Digits()
    fit(whole, MixedPrecision("16-mixed", "cpu", scaler()), gradient_clip_val=None)
    trainer = fit(resumed, FusedPrecision(HALF), checkpoint=keep.best_model_path, gradient_clip_val=None)
    assert same(whole.net, resumed.net)
    assert trainer.precision_plugin.scaler.get_growth_interval() == 5


@pytest.mark.parametrize("case", CASES[:-2], ids=name_of)
def test_statistics_are_numbers_in_the_log_of_every_step(case):
    log = Log()
    module, trainer, statistics = run(case, logger=log)
    norms, scales, skipped = (log.column(f"altgrad/{name}") for name in ("grad_norm", "loss_scale", "skipped_steps"))
    assert len(norms) == len(scales) == len(skipped) == 16
    assert skipped[-1] == statistics.skipped[0] > 2 and skipped == sorted(skipped)
    assert norms[-1] == trainer.optimizers[0].grad_norm.item()
    assert scales[-1] == trainer.precision_plugin.scaler.get_scale()
    fell = [scale < before for before, scale in zip([2.0**24, *scales], scales)]
    assert fell == [count > before for before, count in zip([0, *skipped], skipped)]
    assert not trainer.optimizers[0]._optimizer_step_post_hooks, "a hook is left behind"


def test_statistics_of_what_has_none():
    log, module = Log(), Digits(make=torch.optim.AdamW)
    fit(module, FusedPrecision(BF16), callbacks=[StepStatistics("step/")], logger=log)
    assert not any(name.startswith("step/") for line in log.lines for name in line)
    for fused in (True, False):
        log = Log()
        fit(Digits(make=torch.optim.AdamW, fused=fused), FusedPrecision(HALF, scaler()),
            callbacks=[StepStatistics()], logger=log)
        assert len(log.column("altgrad/loss_scale")) == 16
        assert [count > 2 for count in log.column("altgrad/skipped_steps")[-1:]] == [True] * fused
    log = Log()
    run((BF16, None), logger=log)
    assert len(log.column("altgrad/grad_norm")) == 16 and not log.column("altgrad/loss_scale")


@pytest.mark.parametrize("per_tensor", [False, True])
def test_an_optimizer_that_measures_has_its_statistics_logged(per_tensor):
    log, module = Log(), Scheduled(statistics=True)
    trainer = fit(module, FusedPrecision(HALF, scaler(altgrad.amp.GradScaler)), logger=log,
                  callbacks=[StepStatistics(per_tensor=per_tensor)])
    said = trainer.optimizers[0].statistics()
    summary = said.summary()
    for name in ("param_norm", "update_norm", "ratio", "nonfinite", "lost", "lost_share", "clip_rate"):
        column = log.column(f"altgrad/{name}")
        assert len(column) == 16 and column[-1] == pytest.approx(summary[name].item(), rel=1e-6)
    assert log.column("altgrad/nonfinite")[0] > 0
    assert log.column("altgrad/grad_norm")[-1] == trainer.optimizers[0].grad_norm.item()
    ratios = [log.column(f"altgrad/ratio/net.{name}")[-1:] for name, _ in module.net.named_parameters()]
    assert ratios == ([[ratio] for ratio in said.ratio.tolist()] if per_tensor else [[]] * len(ratios))
