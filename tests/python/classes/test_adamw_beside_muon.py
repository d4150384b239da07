"""What the groups have that AdamW steps beside Muon: rates of their own, by `adamw`, a preset, or torch's default."""

import copy
import pickle

import altgrad
import pytest
import torch
from altgrad.optim import NewtonSchulz

KINDS = altgrad.optim.Muon, altgrad.optim.NorMuon


def is_matrix(param):
    return param.ndim == 2


def made(kind, is_apart=True, **given):
    """(Muon's group, AdamW's) of a matrix and a bias, parted by a function or given as two groups."""
    matrix, bias = (torch.nn.Parameter(torch.zeros(shape)) for shape in ((4, 3), (5,)))
    if is_apart:
        return kind([matrix, bias], use_muon=is_matrix, **given)
    return kind([{"params": [matrix]}, {"params": [bias], "use_muon": False}], **given)


def rates(optimizer):
    return [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_gives_adamw_its_own_rate(kind):
    assert rates(made(kind, lr=0.05)) == [0.05, 1e-3]
    assert rates(made(kind, lr=0.05, adamw={"lr": 3e-4})) == [0.05, 3e-4]


def test_a_rate_of_a_group_is_muons_if_both_are_in_it():
    optimizer = made(altgrad.optim.Muon)
    for shapes in ([(3, 2), (5,)], [(5,)]):
        params = [torch.nn.Parameter(torch.zeros(shape)) for shape in shapes]
        optimizer.add_param_group({"params": params, "lr": 0.03, "eps": 1e-9})
    assert rates(optimizer)[2:] == [0.03, 1e-3, 0.03] and [group["eps"] for group in optimizer.param_groups[2:]] == [1e-9] * 3


def test_a_scale_that_makes_the_rates_adamws_gives_both_the_same():
    for given in ({"adjust_lr_fn": "match_rms_adamw"}, {"orthogonalize": NewtonSchulz(scale="match_rms_adamw")}):
        assert rates(made(altgrad.optim.Muon, lr=2e-3, **given)) == [2e-3, 2e-3]
    optimizer = made(altgrad.optim.Muon, lr=2e-3)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))], "adjust_lr_fn": "match_rms_adamw",
                               "use_muon": lambda param: False})
    assert rates(optimizer) == [2e-3, 1e-3, 2e-3]


def test_a_presets_rate_is_adamws_even_where_muons_is_given():
    assert rates(made(altgrad.optim.Muon, lr=0.05, preset="kj")) == [0.05, 3e-4]
    assert rates(made(altgrad.optim.Muon, preset="kj", adamw={"lr": 1e-4})) == [0.02, 1e-4]
    assert rates(made(altgrad.optim.Muon, lr=4e-3, preset="moonlight")) == [4e-3, 4e-3]


@pytest.mark.parametrize("is_apart", [True, False])
def test_adamw_says_every_number(is_apart):
    words = {"lr": 3e-4, "betas": (0.8, 0.9), "eps": 1e-10, "weight_decay": 0.01}
    optimizer = made(altgrad.optim.NorMuon, is_apart, lr=0.02, adamw=words)
    one, other = optimizer.param_groups
    assert {name: other[name] for name in words} == words and one["lr"] == 0.02 and one["betas"] == (0.9, 0.95)
    for copied in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        copied.add_param_group({"params": [torch.nn.Parameter(torch.zeros(2))], "use_muon": False})
        assert copied.param_groups[2]["lr"] == 3e-4


@pytest.mark.parametrize("adamw, words", [
    ({"rate": 1e-3}, "adamw has 'rate'; it takes lr, betas, eps, weight_decay"), (3e-4, "adamw is 0.0003, not a dict"),
    ({"lr": -1.0}, "Invalid learning rate: -1.0"), ({"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1")])
def test_what_is_refused(adamw, words):
    with pytest.raises((TypeError, ValueError), match=words):
        made(altgrad.optim.Muon, adamw=adamw)
