"""A clip of altgrad.distributed reads no gradient in the step: each is summed when its average has arrived."""

import os

import pytest
import ranks
import torch

import altgrad

SHAPES = (300, 400), (7,), (100_000,), (64, 64, 40), (90_000,)
WORDS = dict(lr=0.01, max_grad_norm=0.5)


def params_of():
    torch.manual_seed(0)
    return [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]


def grads_of(step):
    """The same on all ranks, so that their average is exact."""
    torch.manual_seed(step)
    return [torch.randn(shape) for shape in SHAPES]


def backward(params, grads):
    sum([(param * grad).sum() for param, grad in zip(params, grads) if grad is not None]).backward()


def steps(count, group, **words):
    """(parameters, norms, rows that were summed before the step and rows that were read again) of some steps."""
    params, norms, rows = params_of(), [], []
    if count:
        optimizer = altgrad.distributed.DistAdamW(params, reproducible=True, **WORDS, **words)
    else:
        optimizer = altgrad.optim.AdamW(params, **WORDS)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for step in range(9):
        grads = grads_of(step)
        if step == 3:
            grads[2] = None
        optimizer.zero_grad()
        scaled = scaler.get_scale() if step > 4 else 1.0  # where the scale changes, sums that were made by another are void
        backward(params, [None if grad is None else grad * scaled for grad in grads])
        if step == 2:  # a second part of the batch
            backward(params, grads_of(100))
        if step > 4:
            scaler.scale(torch.ones(()))
            scaler.step(optimizer), scaler.update()
        else:
            optimizer.step()
        norms.append(optimizer.grad_norm.item())
        if count:
            rows.append(optimizer.local_optimizer._built.tables[0].summed_rows())
    return [param.tolist() for param in params], norms, rows


def clipped(rank, group):
    return [steps(2, group, bucket_bytes=size, overlap=overlap) for size, overlap in ((400_000, True), (25 << 20, False))]


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="GPUs sum in the step")
def test_each_gradient_is_read_once(tmp_path):
    expected = steps(0, None)
    answers, = ranks.run([clipped], tmp_path)
    for answer in answers:
        assert not isinstance(answer, str), answer
        for params, norms, rows in answer:
            assert norms == expected[1] and params == expected[0]
            large = rows[1][0]
            assert large >= 2 and rows[0] == (0, 0)  # before the first step nothing is compiled
            assert rows[1:3] == [(large, 0)] * 2
            # Where other gradients are there than in the last step, and of a new program, all is summed in the step.
            assert rows[3:6] == [(0, 0)] * 3
            # A scale that has grown since makes the sums void.
            assert rows[6] == rows[8] == (large, 0) and rows[7][0] == 0, rows
