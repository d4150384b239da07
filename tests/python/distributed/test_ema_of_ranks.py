"""Averages of weights lie where the parts lie: the bits of one process, for DTensors, for DistAdamW and for DistMuon."""

import pytest
import ranks
import torch
from meshes import SHAPES, place, places
from torch.distributed.tensor import DTensor

import altgrad


def whole(tensor):
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).detach().tolist()


def train(make, homes=None, shapes=SHAPES[:7]):
    """(the averages within ema_weights, the parameters behind it) after three steps."""
    torch.manual_seed(0)
    homes = homes or [()] * len(shapes)
    params = [torch.nn.Parameter(place(torch.randn(shape), home)) for shape, home in zip(shapes, homes)]
    optimizer = make(params)
    for _ in range(3):
        for param, home, shape in zip(params, homes, shapes):
            param.grad = place(torch.randn(shape), home)
        optimizer.step()
    with optimizer.ema_weights():
        averages = list(map(whole, params))
    return averages, list(map(whole, params))


MAKERS = {
    "AdamW": (altgrad.optim.AdamW, altgrad.distributed.DistAdamW, dict(lr=0.1, ema=0.9)),
    "Muon": (altgrad.optim.Muon, altgrad.distributed.DistMuon, dict(lr=0.1, ema=0.9, reproducible=True)),
}
MATRICES = (64, 48), (30, 40), (7, 9)


def on_ranks(rank, group):
    kind, words = altgrad.optim.AdamW, MAKERS["AdamW"][2]
    return [train(lambda params: kind(params, **words), places(group.size(), rank)[:7]),
            *[train(lambda params: of(params, **words), shapes=MATRICES) for _, of, words in MAKERS.values()]]


@pytest.mark.parametrize("count", [2, 4])
def test_as_one_process(count, tmp_path):
    expected = [train(lambda params: altgrad.optim.AdamW(params, **MAKERS["AdamW"][2])),
                *[train(lambda params: kind(params, **words), shapes=MATRICES) for kind, _, words in MAKERS.values()]]
    answers, = ranks.run([on_ranks], tmp_path, count)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer == expected
