"""offload=True of every class: the bits and states of the same class on the CPU, products of matrices included."""

import pytest
import torch
from conftest import KIND

import altgrad

SHAPES = (40, 24), (24,), (70, 130)
KINDS = [kind for name in altgrad.optim.__all__ if isinstance(kind := getattr(altgrad.optim, name), type)
         and issubclass(kind, altgrad.optim.Optimizer) and kind is not altgrad.optim.Optimizer]
OF_MATRICES = "Muon", "NorMuon", "Scion", "SinkGD"
WORDS = {"SGD": dict(lr=0.01, momentum=0.9), "GridOptim": dict(lr=1.0, seed=1), "Muon": dict(max_grad_norm=1.0)}
CASES = [(kind, WORDS.get(kind.__name__, {})) for kind in KINDS] + [
    (altgrad.optim.Muon, dict(ema=0.9)), (altgrad.optim.Muon, dict(storage="param=bf16 master=f32 momentum_buffer=bf16")),
    (altgrad.optim.FromRule("adamw", storage="m=bf16"), dict(statistics=True))]


def inputs_of(kind, params):
    return {"hess": [torch.full_like(param, 0.5) for param in params]} if kind is altgrad.optim.AdaHessian else None


@pytest.mark.filterwarnings("ignore:.*(max_grad_norm only changes|stays 0|beta)")
@pytest.mark.parametrize("kind, words", CASES, ids=[f"{kind.__name__}-{'-'.join(words)}" for kind, words in CASES])
def test_bits_are_the_cpus(kind, words):
    dtype = torch.bfloat16 if "master" in str(words) else torch.float32
    shapes = [shape for shape in SHAPES if kind.__name__ not in OF_MATRICES or len(shape) > 1]
    here = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    there = [torch.nn.Parameter(param.detach().to(f"{KIND}:0")) for param in here]
    optimizers = kind(there, offload=True, **words), kind(here, **words)
    for _ in range(3):
        for a, b in zip(there, here):
            b.grad = torch.randn_like(b)
            a.grad = b.grad.to(a.device)
        for optimizer, params in zip(optimizers, (there, here)):
            given = inputs_of(kind, params)
            optimizer.step(inputs=given) if given else optimizer.step()
    for a, b in zip(there, here):
        assert torch.equal(a.detach().cpu(), b.detach())
        mine, its = [optimizer.state[param] for optimizer, param in zip(optimizers, (a, b))]
        assert list(mine) == list(its) and not any([value.device.type == KIND for value in mine.values() if isinstance(value, torch.Tensor)])
        for key, value in mine.items():
            assert not isinstance(value, torch.Tensor) or torch.equal(value, its[key]), key
