"""What every class has in its groups is what torch.distributed.checkpoint takes, and comes back from it and from old files."""

import copy
import inspect

import pytest
import torch
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_optimizer_state_dict,
                                                     set_optimizer_state_dict)

import altgrad
from altgrad.optim import NewtonSchulz

CLASSES = [kind for name in altgrad.optim.__all__ if inspect.isclass(kind := getattr(altgrad.optim, name))
           and issubclass(kind, altgrad.optim.Optimizer) and kind is not altgrad.optim.Optimizer
           and kind not in (altgrad.optim.AdaHessian,  # torch makes its states by a step without inputs
                            altgrad.optim.SinkGD)]  # has no states, which torch cannot load
OPTIONS = [dict(cpu_offload=True), dict(full_state_dict=True), dict(full_state_dict=True, cpu_offload=True),
           dict(flatten_optimizer_state_dict=True), dict(flatten_optimizer_state_dict=True, cpu_offload=True)]
# torch.distributed.checkpoint cannot load what has no states.
WITH_STATES = {"SGD": dict(momentum=0.9), "LARS": dict(momentum=0.9), "Scion": dict(momentum=0.1)}
MUON = dict(orthogonalize=NewtonSchulz(dtype=torch.float32), ns_coefficients=((3.0, -4.0, 2.0),) * 3, ns_steps=3,
            split=(20, 12), flatten=True)


def made(kind, **words):
    torch.manual_seed(0)
    model = torch.nn.Linear(16, 32, bias=False)
    return model, kind(model.parameters(), **words)


def step(model, optimizer):
    model(torch.ones(4, 16)).square().sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def said(optimizer):
    """What the groups say; torch.distributed.checkpoint makes lists of tuples."""
    plain = lambda value: tuple(map(plain, value)) if isinstance(value, (list, tuple)) else value
    return [{key: plain(value) for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def check_there_and_back(kind, options, **words):
    model, optimizer = made(kind, **words)
    step(model, optimizer)
    options = StateDictOptions(**options)
    saved = copy.deepcopy(get_optimizer_state_dict(model, optimizer, options=options))
    weights = {key: value.clone() for key, value in model.state_dict().items()}
    groups = copy.deepcopy(said(optimizer))
    step(model, optimizer)
    other, resumed = made(kind, **words)
    other.load_state_dict(weights)
    set_optimizer_state_dict(other, resumed, saved, options=options)
    assert said(resumed) == groups
    step(other, resumed)
    assert torch.equal(model.weight, other.weight)


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_class_goes_there_and_back(kind):
    check_there_and_back(kind, OPTIONS[2], **WITH_STATES.get(kind.__name__, {}))


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("kind", [altgrad.optim.Muon, altgrad.optim.NorMuon, altgrad.optim.FromRule("muon")])
def test_muon_with_every_option(kind, options):
    check_there_and_back(kind, options, **(MUON if issubclass(kind, altgrad.optim.Muon) else {}))


@pytest.mark.parametrize("kind", [altgrad.optim.Muon, altgrad.optim.NorMuon])
@pytest.mark.parametrize("said", [torch.float32, "torch.float32", "float32"])
def test_a_file_says_the_dtype_as_a_word_and_an_older_one_as_itself(kind, said):
    model, optimizer = made(kind, orthogonalize=NewtonSchulz(dtype=torch.float32))
    step(model, optimizer)
    saved = copy.deepcopy(optimizer.state_dict())
    assert saved["param_groups"][0]["ns_dtype"] == "torch.float32"
    saved["param_groups"][0]["ns_dtype"] = said
    other, resumed = made(kind)
    other.load_state_dict(model.state_dict())
    resumed.load_state_dict(saved)
    assert resumed.param_groups[0]["ns_dtype"] is torch.float32
    step(model, optimizer)
    step(other, resumed)
    assert torch.equal(model.weight, other.weight)


def test_a_word_that_somebody_writes_into_a_group_counts():
    """ZeroRedundancyOptimizer copies groups of a file into its optimizer's."""
    (model, optimizer), (other, beside) = (made(altgrad.optim.Muon, **words) for words in (dict(orthogonalize=NewtonSchulz(dtype=torch.float32)), {}))
    for place in range(2):
        beside.param_groups[0]["ns_dtype"] = "torch.float32"
        step(model, optimizer)
        step(other, beside)
    assert torch.equal(model.weight, other.weight)
    beside.param_groups[0]["ns_dtype"] = "float99"
    with pytest.raises(ValueError, match="ns_dtype is 'float99', none of torch.bfloat16"):
        step(other, beside)
