"""No stock narrow class throws a model away: no update is much more than the learning rate."""

import pytest
import torch

import altgrad
from narrowmodels import NARROW, largest_update



@pytest.mark.parametrize("name", NARROW)
def test_an_update_is_at_most_two_learning_rates(name):
    """Five of the 500 models of tools/soak.sh narrow."""
    for seed in range(5):
        assert largest_update(getattr(altgrad.optim, name), seed, steps=60) <= 2, seed


def test_the_models_find_a_storage_that_does():
    """torchao's bytes: a second moment of 0 leaves a moment over eps."""
    plain = lambda params, **given: altgrad.optim.AdamW(params, storage="m=bnb8:256 v=bnb8u:256", **given)
    assert max(largest_update(plain, seed, steps=60) for seed in range(5)) > 10


def test_torchaos_own_test_model():
    """Linear, ReLU, Linear; weights moved by 19.6 and 55.7 in steps 2 and 3 under bytes like torchao's."""
    torch.manual_seed(42)
    model = torch.nn.Sequential(torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, 32))
    optimizer = altgrad.optim.AdamW8bit(model.parameters(), lr=1e-3)
    for _ in range(5):
        before = [param.detach().clone() for param in model.parameters()]
        optimizer.zero_grad()
        model(torch.randn(4, 32)).sum().backward()
        optimizer.step()
        assert max((now - then).abs().max() for now, then in zip(model.parameters(), before)) < 2.1e-3
