"""torchtitan's container of optimizers and NeMo Automodel's factory, by what their sources ask of an optimizer."""

import copy
import inspect
import re

import digits
import pytest
import torch
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_optimizer_state_dict,
                                                     set_optimizer_state_dict)

import altgrad

FLAT = StateDictOptions(flatten_optimizer_state_dict=True)


class Container(torch.optim.Optimizer):
    """torchtitan's: an optimizer for each part of the model, groups by patterns with param_names, files by names."""

    def __init__(self, parts, factory, patterns):
        self.parts, self.optimizers = parts, []
        for part in parts:
            groups, claimed = [], set()
            for pattern, options in patterns:
                named = [(name, param) for name, param in part.named_parameters()
                         if name not in claimed and re.search(pattern, name)]
                claimed |= {name for name, _ in named}
                groups.append({"params": [param for _, param in named], "param_names": [name for name, _ in named],
                               "fused": False, "foreach": False, **options})
            self.optimizers.append(factory([group for group in groups if group["params"]]))
        super().__init__([param for part in parts for param in part.parameters()], {})

    def step(self, closure=None):
        for optimizer in self.optimizers:
            optimizer.step()

    def zero_grad(self, set_to_none=True):
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none)

    def state_dict(self):
        return {key: value for part, optimizer in zip(self.parts, self.optimizers)
                for key, value in get_optimizer_state_dict(part, optimizer, options=FLAT).items()}

    def load_state_dict(self, state):
        for part, optimizer in zip(self.parts, self.optimizers):
            set_optimizer_state_dict(part, optimizer, state, options=FLAT)


def parts_of(net):
    """Two stages with names of their own, as a pipeline's have them."""
    return [torch.nn.ModuleDict({"first": net[0]}), torch.nn.ModuleDict({"last": net[2]})]


def steps(net, container, count, schedule=None):
    for _, batch in zip(range(count), digits.Batches()):
        container.zero_grad()
        digits.loss_of(net, batch).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        container.step()
        if schedule:
            schedule()


ADAMW = [("bias", {"lr": 3e-3, "weight_decay": 0.0}), (".*", {"lr": 3e-3, "weight_decay": 0.1})]
MUON = [("bias", {"lr": 3e-3, "use_muon": False}), (".*", {"lr": 0.02})]


def test_a_container_of_torchtitan_steps_as_with_torchs():
    nets = [digits.network() for _ in range(2)]
    for net, factory in zip(nets, (altgrad.optim.AdamW, torch.optim.AdamW)):
        steps(net, Container(parts_of(net), factory, ADAMW), 6)
    for ours, theirs in zip(nets[0].parameters(), nets[1].parameters()):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("factory, patterns", [(altgrad.optim.AdamW, ADAMW), (altgrad.optim.Muon, MUON)],
                         ids=["AdamW", "Muon"])
def test_a_container_of_torchtitan_goes_on_from_its_file(factory, patterns):
    """With the bits of a run that was not interrupted."""
    net = digits.network()
    container = Container(parts_of(net), factory, patterns)
    steps(net, container, 3)
    saved, weights = copy.deepcopy(container.state_dict()), copy.deepcopy(net.state_dict())
    assert any(key.startswith("state.first.weight.") for key in saved)
    steps(net, container, 3)
    other = digits.network()
    other.load_state_dict(weights)
    resumed = Container(parts_of(other), factory, patterns)
    resumed.load_state_dict(saved)
    steps(other, resumed, 3)
    assert all(map(torch.equal, net.state_dict().values(), other.state_dict().values()))


def automodel(factory, net, **kwargs):
    """NeMo Automodel's OptimizerFromFactoryConfig: foreach where the signature has it, groups with multipliers."""
    assert "foreach" in inspect.signature(factory).parameters
    groups = [{"params": [net[0].weight, net[2].weight]},
              {"params": [net[0].bias, net[2].bias], "lr_mult": 0.5, "wd_mult": 0.0}]
    return factory(params=groups, foreach=False, **kwargs)


def scheduled(optimizer):
    """What its scheduler writes into every group, at first and after each step."""
    count = iter(range(100))

    def schedule():
        done = next(count)
        for group in optimizer.param_groups:
            group["lr"] = 3e-3 * (1 + done) / 10 * group.get("lr_mult", 1.0)
            group["weight_decay"] = 0.1 * group.get("wd_mult", 1.0)
    schedule()
    return schedule


def test_a_factory_of_automodel_steps_as_with_torchs():
    nets = [digits.network() for _ in range(2)]
    for net, factory in zip(nets, (altgrad.optim.AdamW, torch.optim.AdamW)):
        optimizer = automodel(factory, net, lr=3e-3, weight_decay=0.1)
        steps(net, optimizer, 6, scheduled(optimizer))
    for ours, theirs in zip(nets[0].parameters(), nets[1].parameters()):
        torch.testing.assert_close(ours, theirs)


class LoraPlus:
    """peft's factory: groups with rates of their own, and bitsandbytes where a class has one of its names."""

    def __init__(self, optimizer_cls, optimizer_kwargs, lowers, uppers, ratio):
        rates = (optimizer_kwargs["lr"], ratio * optimizer_kwargs["lr"])
        groups = [{"params": params, "lr": lr, "weight_decay": optimizer_kwargs.get("weight_decay", 0.0)}
                  for params, lr in zip((lowers, uppers), rates)]
        self.made = optimizer_cls([*groups, {"params": [], "lr": 1e-6}], **optimizer_kwargs)
        if optimizer_cls.__name__ in ("Adam8bit", "AdamW8bit", "PagedAdam8bit", "PagedAdamW8bit"):
            raise ImportError("bitsandbytes")


def test_a_storage_is_adamw8bit_under_a_name_that_peft_does_not_take_for_its_own():
    torch.manual_seed(0)
    start, grads = torch.randn(2, 64, 128), torch.randn(3, 2, 64, 128)
    words = {"lr": 1e-2, "storage": "states=bnb8u:256,keep_positive m=bnb8:256"}
    factory = lambda lower, upper: LoraPlus(altgrad.optim.AdamW, words, [lower], [upper], 16).made
    named = lambda lower, upper: altgrad.optim.AdamW8bit([{"params": [lower]}, {"params": [upper], "lr": 0.16}], lr=1e-2,
                                                         weight_decay=0.0)
    results = []
    for make in (factory, named):
        params = [torch.nn.Parameter(part.clone()) for part in start]
        optimizer = make(*params)
        for grad in grads:
            params[0].grad, params[1].grad = grad
            optimizer.step()
        results.append([(param.detach(), optimizer.state[param]["exp_avg_sq"]) for param in params])
    for (param, square), (other, same) in zip(*results):
        assert torch.equal(param, other) and torch.equal(square, same) and square.dtype == torch.uint8
    with pytest.raises(ImportError, match="bitsandbytes"):
        LoraPlus(altgrad.optim.AdamW8bit, {"lr": 1e-2}, [params[0]], [params[1]], 16)
