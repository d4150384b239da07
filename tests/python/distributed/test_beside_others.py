"""torch's own wrappers of models and optimizers over 50 steps: with altgrad's AdamW they train as with torch's."""

import functools
import warnings

import ranks
import torch
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP1
from torch.distributed.optim import ZeroRedundancyOptimizer, _apply_optimizer_in_backward
from torch.nn.parallel import DistributedDataParallel

import altgrad

STEPS, WORDS = 50, dict(lr=3e-3, weight_decay=0.1)


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(48, 32), torch.nn.Tanh(), torch.nn.Linear(32, 5))


def train(model, optimizer, rank, clip=None):
    """`clip`: what is called before each step; parameters after all steps."""
    for step in range(STEPS):
        torch.manual_seed(10 * step + rank)
        if optimizer:
            optimizer.zero_grad()
        model(torch.randn(8, 48)).square().mean().backward()
        if clip:
            clip()
        if optimizer:
            optimizer.step()


def numbers(model):
    return [param.tolist() for param in model.parameters()]


def ddp(kind, rank, hook=None, **words):
    model = DistributedDataParallel(model_of(), **words)
    if hook:
        model.register_comm_hook(None, hook)
    train(model, kind(model.parameters(), **WORDS), rank)
    return numbers(model)


def clipped(kind, rank):
    """The norm of all ranks' parts bounds each part, as clip_grad_norm_ does before torch's."""
    ours, model = kind is altgrad.optim.AdamW, DistributedDataParallel(model_of())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), kind, **WORDS, **(dict(max_grad_norm=0.05) if ours else {}))
    train(model, optimizer, rank, None if ours else lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 0.05))
    return numbers(model)


def fsdp1(kind, rank):
    ours = kind is altgrad.optim.AdamW
    model = FSDP1(model_of(), use_orig_params=True, device_id=torch.device("cpu"))
    more = dict(max_grad_norm=0.05, process_group=torch.distributed.group.WORLD) if ours else {}
    train(model, kind(model.parameters(), **WORDS, **more), rank, None if ours else lambda: model.clip_grad_norm_(0.05))
    with FSDP1.summon_full_params(model):
        return numbers(model)


def in_backward(kind, rank):
    model = model_of()
    _apply_optimizer_in_backward(kind, model.parameters(), WORDS)
    train(model, None, rank)
    return numbers(model)


CASES = {
    "ddp, a static graph": functools.partial(ddp, static_graph=True),
    "ddp, gradients are views": functools.partial(ddp, gradient_as_bucket_view=True),
    "ddp, a hook": functools.partial(ddp, hook=bf16_compress_hook),
    "zero, clipped": clipped,
    "fsdp1, clipped": fsdp1,
    "in backward": in_backward,
}


def trained(rank, group):
    warnings.simplefilter("ignore")
    return {name: [case(kind, rank) for kind in (altgrad.optim.AdamW, torch.optim.AdamW)] for name, case in CASES.items()}


def test_as_with_torchs_own(tmp_path):
    answers, = ranks.run([trained], tmp_path)
    for answer in answers:
        assert not isinstance(answer, str), answer
        for name, (ours, theirs) in answer.items():
            for a, b, first in zip(ours, theirs, model_of().parameters()):
                a, b = torch.tensor(a), torch.tensor(b)
                assert not torch.equal(a, first)
                # Where gradients travel in bfloat16, a last bit of a parameter moves some of them by 1/256.
                exact = dict(rtol=1e-2, atol=1e-4) if name == "ddp, a hook" else dict(rtol=1e-4, atol=1e-5)
                torch.testing.assert_close(a, b, **exact, msg=lambda said, name=name: f"{name}: {said}")
