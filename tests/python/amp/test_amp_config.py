"""AmpConfig: by the weakest device, or as asked for; one line of the log says which and why."""

import logging

import pytest
import ranks
import torch
from machines import A100, H100, T4, Machine

import altgrad
from altgrad.amp import AmpConfig


@pytest.mark.parametrize("machine, device, precision, loss_scale", [
    (Machine(H100), "cuda", "bf16-mixed", "none"),
    (Machine(H100, T4), "cuda", "16-mixed", "dynamic"),
    (Machine(flags="avx512_bf16"), "cpu", "bf16-mixed", "none"),
    (Machine(), "cpu", "32-true", "none")])
def test_auto_chooses_by_the_weakest_device_and_says_why(machine, device, precision, loss_scale, caplog):
    caplog.set_level(logging.INFO, "altgrad.amp")
    config = AmpConfig.auto(query=machine)
    assert (config.device_type, config.precision, config.loss_scale) == (device, precision, loss_scale)
    line, = caplog.messages
    assert line == f"{precision} on {device}: {config.reason}" and " has " in line
    assert loss_scale == "dynamic" or not config.scaler().is_enabled()


def test_an_explicit_choice_is_never_overridden(caplog):
    caplog.set_level(logging.INFO, "altgrad.amp")
    machine = Machine(H100)
    assert AmpConfig.force_fp32(query=machine).dtype == torch.float32
    assert AmpConfig.force_fp16(query=machine).dtype == torch.float16
    assert AmpConfig.force_bf16(query=machine).dtype == torch.bfloat16
    assert caplog.messages == [f"{word} on cuda: asked for" for word in ("32-true", "16-mixed", "bf16-mixed")]
    assert AmpConfig(torch.float32).dtype == torch.float32
    for wrong in (torch.float64, "auto", "bf16"):
        with pytest.raises(ValueError, match="AmpConfig: dtype is .*; it may be torch.float32, torch.float16"):
            AmpConfig(wrong)


@pytest.mark.parametrize("machine, words", [
    (Machine(A100, T4), "cuda:1 .T4. has capability 7.5"), (Machine(), "cpu .Old Faithful. has neither")])
def test_bf16_is_emulated_only_when_that_is_said(machine, words, caplog):
    with pytest.raises(RuntimeError, match=f"{words}.*would emulate bfloat16; emulate=True accepts that"):
        AmpConfig.force_bf16(query=machine)
    caplog.set_level(logging.INFO, "altgrad.amp")
    assert AmpConfig.force_bf16(query=machine, emulate=True).dtype == torch.bfloat16
    assert "asked for and emulated" in caplog.messages[0]


def weights(amp, **options):
    torch.manual_seed(1)
    model = torch.nn.Linear(5, 3)
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=0.1, **options)
    scaler = amp.scaler(init_scale=256.0)
    for _ in range(3):
        optimizer.zero_grad()
        with amp.autocast():
            out = model(torch.randn(4, 5))
        assert out.dtype == amp.dtype
        scaler.scale(out.float().square().sum()).backward()
        scaler.step(optimizer)
        scaler.update()
    return model.weight.detach(), scaler.get_scale()


def test_one_loop_serves_every_dtype():
    plain, scale = weights(AmpConfig(torch.float32))
    assert scale == 1.0
    for config in (AmpConfig(torch.bfloat16), AmpConfig(torch.float16)):
        found, scale = weights(config, fused_amp=True, max_grad_norm=1e9)
        assert scale == (256.0 if config.dtype == torch.float16 else 1.0)
        torch.testing.assert_close(found, plain, rtol=0.05, atol=0.05)


def test_no_setting_of_an_optimizer_follows_the_dtype():
    """Fewer mantissa bits are no reason for a larger learning rate, nor for another eps."""
    names = {name for name in dir(AmpConfig) if not name.startswith("_")}
    assert names == {"auto", "autocast", "force_bf16", "force_fp16", "force_fp32", "loss_scale",
                     "precision", "device_type", "reason", "scaler"}


def _chosen(rank, group):
    machine = Machine(H100) if rank else Machine(A100, T4)
    return AmpConfig.auto(query=machine, process_group=group).precision


def test_every_rank_has_what_the_weakest_rank_can(tmp_path):
    answers, = ranks.run([_chosen], tmp_path)
    assert answers == ("16-mixed", "16-mixed"), answers
    assert AmpConfig.auto(query=Machine(H100)).precision == "bf16-mixed"
