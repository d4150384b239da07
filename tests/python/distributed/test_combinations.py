"""What altgrad.distributed takes one by one it takes together, with the bits of one process."""

import pytest
import ranks
import torch

import altgrad

SHAPES = (100, 96), (7,), (40_000,), (48, 256), (12, 12)
DTYPES = torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.bfloat16
LATE = 4  # has gradients from the third step on
CASES = {
    ("AdamW8bit", "altgrad"): dict(max_grad_norm=0.1, statistics=True),
    ("LAMB", "altgrad"): dict(),
    ("LAMB", "torch"): dict(max_grad_norm=0.1),
    ("AdamW4bit", "torch"): dict(max_grad_norm=1.0),
    ("Lion", "altgrad"): dict(storage="m=bf16,stochastic", seed=5),
}


def grads_of(step, part):
    """Whole numbers, whose averages over two and three ranks are exact, times a scale that is a power of two."""
    torch.manual_seed(10 * step + part)
    grads = [(6 * torch.randint(-6, 7, shape)).to(dtype) for shape, dtype in zip(SHAPES, DTYPES)]
    if step == 3:
        grads[0][-1, -1] = torch.inf
    return grads[:LATE] if step < 2 else [None, *grads[1:]] if step == 4 else grads


def backward(params, grads, scale):
    sum([(param * (grad * scale)).float().sum() for param, grad in zip(params, grads) if grad is not None]).backward()


def train(name, scaler, words, make, rank=0):
    """(parameters, norms, scales) after six steps of two parts each, of which the first stays at home."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape, dtype in zip(SHAPES, DTYPES)]
    optimizer = make(getattr(altgrad.optim, name), params, lr=0.01, **words)
    scaler, said = (altgrad if scaler == "altgrad" else torch).amp.GradScaler("cpu", init_scale=4.0, growth_interval=2), []
    for step in range(6):
        scaler.scale(torch.ones(()))
        optimizer.zero_grad()
        if hasattr(optimizer, "no_sync"):
            with optimizer.no_sync():
                backward(params, grads_of(step, 0), scaler.get_scale())
        else:
            backward(params, grads_of(step, 0), scaler.get_scale())
        backward(params, grads_of(step, 1), scaler.get_scale())
        scaler.step(optimizer), scaler.update()
        norm = optimizer.grad_norm
        said.append((scaler.get_scale(), norm if norm is None else repr(norm.item())))
    return [param.detach().float().flatten().tolist() for param in params], said


def together(rank, group):
    return {case: train(*case, words, lambda kind, params, **words: altgrad.distributed.Sharded(
        kind, params, bucket_bytes=50_000, reproducible=True, **words)) for case, words in CASES.items()}


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.filterwarnings("ignore")
def test_as_one_process(count, tmp_path):
    answers, = ranks.run([together], tmp_path, count)
    for answer in answers:
        assert not isinstance(answer, str), answer
        for case, (params, said) in answer.items():
            expected = train(*case, CASES[case], lambda kind, params, **words: kind(params, **words))
            assert said == expected[1], (case, said, expected[1])
            assert params == expected[0], case

