"""offload=True: the bits of the CPU, with states on the host; gradients are summed as they come."""

import copy
import io
import os

import pytest
import torch
from test_devices import twins

import altgrad

CASES = [
    ("AdamW", dict(lr=1e-2, max_grad_norm=0.5), torch.float32),
    ("AdamW", dict(lr=1e-2, max_grad_norm=0.5, storage="param=bf16 master=f32 states=f32"), torch.bfloat16),
    ("AdamW8bit", dict(lr=1e-2), torch.float32),
    ("SGD", dict(lr=1e-2, momentum=0.9, statistics=True, max_grad_norm="agc:0.1"), torch.float16),
    ("Lion", dict(lr=1e-2, storage="param=bf16,stochastic", seed=3), torch.bfloat16),
]


@torch.no_grad()
def backward(params, reference, step):
    """As two passes of backward, whose gradients add up, the same on both sides; torch's engine runs none on the device."""
    for part in range(2):
        torch.manual_seed(10 * step + part)
        for there, here in zip(reversed(params), reversed(reference)):
            grad = torch.randn(here.shape).to(here.dtype)
            for param in (there, here):
                given = grad.to(param.device)
                param.grad = given if param.grad is None else param.grad.add_(given)
                for hook in (param._post_accumulate_grad_hooks or {}).values():
                    hook(param)


def same(params, reference, optimizers):
    for there, here in zip(params, reference):
        assert torch.equal(there.detach().cpu(), here.detach())
        mine, its = [optimizer.state[p] for optimizer, p in zip(optimizers, (there, here))]
        assert list(mine) == list(its)
        for key, value in mine.items():
            assert value.device.type == "cpu" and torch.equal(value, its[key]), key


@pytest.mark.parametrize("mix", ["one", "two", "and the CPU"])
@pytest.mark.parametrize("kind, words, dtype", CASES)
def test_bits_are_the_cpus_and_states_stay_there(mix, kind, words, dtype):
    params, reference = twins(mix, dtype)
    kind = getattr(altgrad.optim, kind)
    optimizers = kind(params, offload=True, **words), kind(reference, **words)
    for step in range(5):
        backward(params, reference, step)
        if step == 1:
            for param in (params[2], reference[2]):
                param.grad = None
        if step == 2:  # from outside, between steps
            with torch.no_grad():
                for param in (params[0], reference[0]):
                    param.mul_(0.5), param.grad.mul_(0.5)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if step == 3:
            file = io.BytesIO()
            torch.save(optimizers[0].state_dict(), file)
            optimizers[0].load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    same(params, reference, optimizers)
    if optimizers[1].grad_norm is not None:
        assert optimizers[0].grad_norm == optimizers[1].grad_norm


def test_the_norm_costs_no_pass_and_nobody_waits_in_backward(notes):
    params, reference = twins("one")
    optimizer = altgrad.optim.AdamW(params, lr=1e-2, max_grad_norm=0.5, offload=True)
    for step in range(3):
        backward(params, reference, step)
        came = notes()
        optimizer.step()
        optimizer.zero_grad()
    assert [note for note in came if note.startswith("wait")] == []
    assert "copy to the host" in came and "record 0 on stream 1" in came
    # Where the device does nothing before somebody waits, the last gradient is on its way when backward ends.
    late = int(os.environ.get("FAKE_CUDA_RACES") == "1")
    assert optimizer._built.tables[0].summed_rows() == (len(params) - late, late)
    other = copy.deepcopy(optimizer)
    assert other.offload and all(value.device.type == "cpu" for held in other.state.values() for value in held.values())
