"""NeMo Automodel's factory and its schedules: classes of ours by their path, each as torch's in the same place."""

import copy
from types import SimpleNamespace

import pytest

for package in ("sklearn", "nemo_automodel"):
    pytest.importorskip(package, reason=f"{package} is not installed (tools/trainers.sh)")

import digits  # noqa: E402
import torch  # noqa: E402
from nemo_automodel.components.optim.optimizer import LRSchedulerConfig, build_optimizer  # noqa: E402

STEPS = 6
WORDS = dict(lr=digits.LR, weight_decay=0.1, param_group_overrides=[{"pattern": "bias", "lr_mult": 0.5, "wd_mult": 0.0}])


def made(path, net, **words):
    optimizer, = build_optimizer(net, (path, dict(words)))
    schedule, = LRSchedulerConfig(lr_warmup_steps=2).build(optimizer, SimpleNamespace(epoch_len=STEPS, num_epochs=1, max_steps=None))
    return optimizer, schedule


def fit(net, optimizer, schedule, first=0, last=STEPS):
    for step, batch in enumerate(digits.Batches()):
        if first <= step < last:
            optimizer.zero_grad()
            digits.loss_of(net, batch).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step(), schedule.step(1)


def test_a_fit_is_torchs():
    nets = [digits.network() for _ in range(2)]
    for net, path in zip(nets, ("altgrad.optim.AdamW", "torch.optim.AdamW")):
        optimizer, schedule = made(path, net, **WORDS)
        assert [len(group["params"]) for group in optimizer.param_groups] == [2, 2]
        fit(net, optimizer, schedule)
    for ours, theirs in zip(*[net.parameters() for net in nets]):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["AdamW", "AdamW8bit", "Lion"])
def test_a_fit_goes_on_with_its_bits(name):
    net, other = digits.network(), digits.network()
    optimizer, schedule = made(f"altgrad.optim.{name}", net, **WORDS)
    fit(net, optimizer, schedule, last=3)
    other.load_state_dict(net.state_dict())
    resumed, again = made(f"altgrad.optim.{name}", other, **WORDS)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    again.load_state_dict(schedule.state_dict())
    for of in (net, optimizer, schedule), (other, resumed, again):
        fit(*of, first=3)
    assert all(map(torch.equal, net.state_dict().values(), other.state_dict().values()))
