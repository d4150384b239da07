"""Sharded(..., reproducible=True): norms, and what follows from them, have the bits of one process on any number of ranks."""

import pytest
import ranks
import torch

import altgrad

SHAPES = (100, 90), (7,), (3, 50, 64), (50_000,), (12, 12), (64, 300)
CASES = {
    "AdamW": dict(lr=0.01, max_grad_norm=0.1),
    "LAMB": dict(lr=0.01, max_grad_norm=0.1),
    "SGD": dict(lr=0.1, momentum=0.9, max_grad_norm=0.5),
    "AdamW8bit": dict(lr=0.01, max_grad_norm=0.1, statistics=True),
}


def params_of():
    torch.manual_seed(0)
    dtypes = [torch.float32] * 4 + [torch.bfloat16] * 2
    return [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape, dtype in zip(SHAPES, dtypes)]


def grads_of(params, step):
    """The same on all ranks, so that their average is exact. The last parameter has none in the second step."""
    torch.manual_seed(step)
    grads = [(torch.randn(param.shape) * 10.0 ** torch.randint(-3, 3, param.shape)).to(param.dtype) for param in params]
    return grads[:-1] if step == 1 else grads


def steps(name, words, make):
    params, norms = params_of(), []
    optimizer = make(getattr(altgrad.optim, name), params, **words)
    for step in range(3):
        for param, grad in zip(params, grads_of(params, step)):
            param.grad = grad
        optimizer.step()
        norms.append(optimizer.grad_norm)
        for param in params:
            param.grad = None
    return [param.detach().float().tolist() for param in params], [norm.item() for norm in norms if norm is not None]


def scaled(make):
    """Under a loss scaler, with a step that it skips and scales that change."""
    params = params_of()[:4]
    optimizer, norms = make(altgrad.optim.AdamW, params, lr=0.01, max_grad_norm=0.1), []
    scaler = altgrad.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    for step in range(5):
        scaler.scale(torch.ones(()))
        for param, grad in zip(params, grads_of(params, 0)):
            param.grad = grad * (float("inf") if step == 3 else scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()
        norms.append(optimizer.grad_norm.item())
        for param in params:
            param.grad = None
    return [param.detach().tolist() for param in params], norms


def every(make):
    return [*[steps(name, words, make) for name, words in CASES.items()], scaled(make)]


def sharded(rank, group):
    return every(lambda kind, params, **words: altgrad.distributed.Sharded(kind, params, bucket_bytes=60_000,
                                                                           reproducible=True, **words))


@pytest.mark.parametrize("count", [2, 4])
def test_norms_have_the_bits_of_one_process(tmp_path, count):
    alone = every(lambda kind, params, **words: kind(params, **words))
    answers, = ranks.run([sharded], tmp_path, count)
    for found in answers:
        assert not isinstance(found, str), found
        for name, one, other in zip([*CASES, "scaler"], found, alone):
            assert one[1] == other[1], (name, one[1], other[1])
            assert one[0] == other[0], name


def muon(rank, group):
    try:
        altgrad.distributed.DistMuon([torch.nn.Parameter(torch.ones(8, 8))], reproducible=True)
    except ValueError as error:
        return str(error)


def test_whole_matrices_on_one_rank_each_are_refused(tmp_path):
    answers, = ranks.run([muon], tmp_path)
    assert all(["reproducible=True is for classes" in answer for answer in answers]), answers
