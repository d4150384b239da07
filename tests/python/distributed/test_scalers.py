"""Loss scalers over several ranks: what one of them finds, all know; the scale and the parameters are the same."""

import functools
import warnings

import pytest
import ranks
import torch
from torch.distributed.fsdp import fully_shard

import altgrad

SHAPES = (40, 90), (7,), (3, 50, 64), (5000,)
DTYPES = torch.float32, torch.bfloat16, torch.float32, torch.bfloat16
SCALERS = {"altgrad": altgrad.amp.GradScaler, "torch": torch.amp.GradScaler}
SCALE = dict(init_scale=64.0, growth_interval=2)
STEPS, BROKEN = 6, 3


class Model(torch.nn.Module):
    """The gradients of its loss are what it is called with."""

    def __init__(self, dtypes=DTYPES):
        super().__init__()
        torch.manual_seed(0)
        self.params = torch.nn.ParameterList([torch.randn(shape).to(dtype) for shape, dtype in zip(SHAPES, dtypes)])

    def forward(self, grads):
        return sum([(param * grad.to(param.dtype)).float().sum() for param, grad in zip(self.params, grads)])


def grads_of(step, rank, count):
    """Whole numbers, whose averages over up to four ranks are exact in bfloat16, in whatever order; a NaN on rank 1."""
    torch.manual_seed(100 * step + rank)
    grads = [torch.randint(-10, 11, shape).float() * count for shape in SHAPES]
    if step == BROKEN and rank == 1:
        grads[0][0, 0] = torch.nan
    return grads


def zero2(model, **words):
    return altgrad.distributed.DistAdamW(model.parameters(), bucket_bytes=30000, **words)


def narrow(model, **words):
    return zero2(model, reduce_dtype=torch.bfloat16, **words)


def fsdp2(model, **words):
    fully_shard(model)
    return altgrad.optim.AdamW(model.parameters(), **words)


def unfused(model, **words):
    return fsdp2(model, fused_amp=False, **words)


CLIP = dict(max_grad_norm=1.0)
CASES = [(zero2, "altgrad", {}), (zero2, "torch", CLIP), (narrow, "altgrad", CLIP), (narrow, "torch", {}),
         (fsdp2, "altgrad", CLIP), (fsdp2, "torch", {}), (unfused, "torch", CLIP)]


def train(make, words, scaler, grads, dtypes):
    """(parameters, scales, whether a step was made) of some steps; `grads(step)` are those of this process."""
    model = Model(dtypes)
    optimizer, scales, made = make(model, lr=0.01, **words), [], []
    for step in range(STEPS):
        optimizer.zero_grad()
        before = [numbers(param) for param in model.parameters()]
        scaler.scale(model(grads(step))).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        made.append(before != [numbers(param) for param in model.parameters()])
    return [numbers(param) for param in model.parameters()], scales, made


def numbers(param):
    whole = param.full_tensor() if hasattr(param, "full_tensor") else param
    return whole.detach().float().flatten().tolist()


def dtypes_of(make):
    return DTYPES if make in (zero2, narrow) else (torch.float32,) * 4


def on_ranks(rank, group):
    warnings.simplefilter("ignore", FutureWarning)
    return [train(make, words, SCALERS[kind]("cpu", **SCALE), lambda step: grads_of(step, rank, group.size()),
                  dtypes_of(make)) for make, kind, words in CASES]


def unscaled(rank, group):
    """What a step says after unscale_, which sees no gradient."""
    said = []
    for kind in SCALERS.values():
        model, scaler = Model(), kind("cpu", **SCALE)
        optimizer = zero2(model)
        scaler.scale(model(grads_of(0, rank, group.size()))).backward()
        scaler.unscale_(optimizer)
        with pytest.raises(RuntimeError) as raised:
            scaler.step(optimizer)
        said.append(str(raised.value))
    return said


@functools.cache
def alone(count, dtypes, clipped):
    """One process with the averages of `count`."""
    def average(step):
        return [sum(of) / count for of in zip(*[grads_of(step, rank, count) for rank in range(count)])]
    plain = lambda model, **words: altgrad.optim.AdamW(model.parameters(), **words)
    return train(plain, CLIP if clipped else {}, torch.amp.GradScaler("cpu", **SCALE), average, dtypes)


@pytest.mark.parametrize("count", [3, 4])
def test_a_nan_on_one_rank_skips_the_step_of_all(count, tmp_path):
    answers, said = ranks.run([on_ranks, unscaled], tmp_path, count)
    for answer in answers:
        assert not isinstance(answer, str), answer
        for (make, kind, words), (params, scales, made) in zip(CASES, answer):
            expected = alone(count, dtypes_of(make), bool(words))
            assert scales == expected[1] == [64.0, 128.0, 128.0, 64.0, 64.0, 128.0], (make, kind)
            assert made == expected[2] == [step != BROKEN for step in range(STEPS)], (make, kind)
            if not words:
                assert params == expected[0], (make, kind)
            for a, b in zip(params, expected[0]):
                assert a == pytest.approx(b, rel=1e-2 if make in (zero2, narrow) else 1e-5, abs=1e-6), (make, kind)
    for answer in said:
        assert len(answer) == 2 and all("leave it out, for the step unscales" in one for one in answer), answer
