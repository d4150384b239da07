"""Sharded sends each gradient once, whatever backward passes run inside backward."""

import ranks
import torch
from torch.utils.checkpoint import checkpoint

import altgrad

WAYS = None, False, True  # no layer is computed again in backward; by hooks; by a backward pass inside backward


def model_of():
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(40, 40) for _ in range(6)])


def loss_of(model, rank, reentrant=None):
    torch.manual_seed(1 + rank)
    x = torch.randn(8, 40, requires_grad=True)
    for index, layer in enumerate(model):
        again = index % 2 and reentrant is not None
        x = torch.tanh(checkpoint(layer, x, use_reentrant=reentrant) if again else layer(x))
    return x.square().sum()


def sharded(rank, reentrant):
    model = model_of()
    optimizer = altgrad.distributed.Sharded(altgrad.optim.AdamW, model.parameters(), bucket_bytes=8000, lr=0.01)
    for _ in range(3):
        loss_of(model, rank, reentrant).backward()
        optimizer.step()
    return [param.tolist() for param in model.parameters()]


def ways(rank, group):
    return [sharded(rank, reentrant) for reentrant in WAYS]


def test_checkpointed_layers_step_as_others_do(tmp_path):
    answers, = ranks.run([ways], tmp_path)
    model = model_of()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        (sum([loss_of(model, rank) for rank in range(2)]) / 2).backward()
        optimizer.step()
    for answer in answers:
        assert isinstance(answer, list), answer
        for found in answer:
            for param, numbers in zip(model.parameters(), found):
                torch.testing.assert_close(torch.tensor(numbers), param.detach(), rtol=1e-4, atol=1e-5)
