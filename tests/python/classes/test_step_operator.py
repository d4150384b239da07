"""torch.ops.altgrad.step: forward, backward and step in one graph, with the bits of an eager run."""

import copy
import shutil

import pytest
import torch
import torch._inductor.config
from torch._dynamo import config
from torch._dynamo.utils import counters
from torch.library import opcheck

import altgrad
from altgrad.optim._traced import flatten_groups

pytestmark = pytest.mark.skipif(not hasattr(config, "trace_autograd_ops"), reason="torch traces no backward")
CLASSES = [("AdamW", {}), ("AdamW", dict(amsgrad=True, max_grad_norm=0.5)), ("Adam", {}), ("SGD", {}),
           ("SGD", dict(momentum=0.9)), ("Adagrad", {}), ("RMSprop", dict(centered=True)), ("Lion", {}), ("LAMB", {}),
           ("ADOPT", {}), ("AdEMAMix", {}), ("AdamW", dict(storage="master=f32 param=bf16"))]


def train(model, optimizer, x):
    optimizer.zero_grad()
    loss = (model(x) ** 2).sum()
    loss.backward()
    optimizer.step()
    return loss.detach()


def pair(name, dtype=torch.float32, lr=0.01, **kwargs):
    """A model and its optimizer, with a group of its own for the second layer; twice."""
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)).to(dtype)
    models = model, copy.deepcopy(model)
    return [(own, getattr(altgrad.optim, name)([dict(params=own[0].parameters()),
                                                dict(params=own[1].parameters(), weight_decay=0.1)],
                                               lr=copy.deepcopy(lr), **kwargs)) for own in models]


def tensors_of(model, optimizer):
    return [*model.parameters(), *[value for held in optimizer.state.values() for value in held.values()]]


@pytest.fixture
def compiled():
    """train as one graph. No graph breaks, whatever is done with it."""
    torch._dynamo.reset()
    counters.clear()
    with config.patch(trace_autograd_ops=True):
        yield torch.compile(train, fullgraph=True, backend="aot_eager")
    assert not counters["graph_break"]


@pytest.mark.parametrize("name, kwargs", CLASSES)
def test_one_graph_has_the_bits_of_eager_steps(name, kwargs, compiled):
    dtype = torch.bfloat16 if "storage" in kwargs else torch.float32
    one, other = pair(name, dtype, **kwargs)
    for _ in range(3):
        x = torch.randn(5, 4, dtype=dtype)
        assert torch.equal(compiled(*one, x), train(*other, x))
    mine, theirs = tensors_of(*one), tensors_of(*other)
    assert len(mine) == len(theirs) and all(map(torch.equal, mine, theirs))
    assert one[1].grad_norm == other[1].grad_norm


@pytest.mark.parametrize("kwargs", [{}, dict(max_grad_norm=0.5, ns_coefficients=((3.4445, -4.775, 2.0315),) * 5)])
def test_muon_with_adamw_beside_it_is_one_graph(kwargs, compiled):
    torch.manual_seed(1)
    models = [torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))]
    models.append(copy.deepcopy(models[0]))
    one, other = [(own, altgrad.optim.Muon([dict(params=[layer.weight for layer in own]),
                                            dict(params=[layer.bias for layer in own], use_muon=False)], **kwargs))
                  for own in models]
    for _ in range(3):
        x = torch.randn(5, 4)
        assert torch.equal(compiled(*one, x), train(*other, x))
    for mine, theirs in zip(one[0].parameters(), other[0].parameters()):
        assert torch.equal(mine, theirs)
        assert one[1].state[mine].keys() == other[1].state[theirs].keys()
        assert all(torch.equal(one[1].state[mine][key], state) for key, state in other[1].state[theirs].items())


def test_a_rate_in_a_tensor_needs_one_graph(compiled):
    one, other = pair("AdamW", lr=torch.tensor(0.1))
    x = torch.randn(5, 4)
    for step in range(5):
        for _, optimizer in (one, other):
            for group in optimizer.param_groups:
                group["lr"].fill_(0.1 * step)
        compiled(*one, x), train(*other, x)
    assert counters["stats"]["unique_graphs"] == 2, "the first step makes states"
    assert all(map(torch.equal, tensors_of(*one), tensors_of(*other)))


def test_steps_outside_and_files_come_between(compiled):
    one, other = pair("AdamW")
    x = torch.randn(5, 4)
    for run in (compiled, train, compiled, compiled):
        run(*one, x), train(*other, x)
        for _, optimizer in (one, other):
            optimizer.param_groups[0]["lr"] *= 0.5
    one[1].load_state_dict(copy.deepcopy(other[1].state_dict()))
    compiled(*one, x), train(*other, x)
    assert all(map(torch.equal, tensors_of(*one), tensors_of(*other)))


@pytest.mark.skipif(not shutil.which("g++"), reason="inductor needs a compiler with OpenMP")
def test_inductor_compiles_it():
    torch._dynamo.reset()
    one, other = pair("AdamW")
    x = torch.ones(5, 4)
    with config.patch(trace_autograd_ops=True), torch._inductor.config.patch({"cpp.cxx": (None, "g++")}):
        run = torch.compile(train, fullgraph=True)
        for _ in range(3):
            run(*one, x), train(*other, x)
    for mine, theirs in zip(tensors_of(*one), tensors_of(*other)):
        torch.testing.assert_close(mine, theirs)  # inductor adds in another order


def test_the_operator_is_what_it_says():
    (_, optimizer), _ = pair("AdamW")
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer.step()
    numbers, rates, words = flatten_groups(optimizer.param_groups)
    states = [state for p in params for state in optimizer.state[p].values()]
    opcheck(torch.ops.altgrad.step, (params, [p.grad for p in params], states, numbers, rates, list(range(4)),
                                     optimizer._name, words))


@pytest.mark.parametrize("strict", [False, True])
def test_export_is_refused_in_words(strict):
    (model, optimizer), _ = pair("AdamW")

    class Whole(torch.nn.Module):
        def forward(self, x):
            for param in model.parameters():
                param.grad = torch.ones_like(param)
            optimizer.step()
            return x

    with config.patch(trace_autograd_ops=True), pytest.raises(Exception, match="call (it|step\\(\\)) outside of what is"):
        torch.export.export(Whole(), (torch.ones(2, 4),), strict=strict)


def test_what_the_operator_cannot_do_runs_beside_the_graph():
    torch._dynamo.reset()
    one, other = pair("AdamW", statistics=True)
    x = torch.randn(5, 4)
    with config.patch(trace_autograd_ops=True):
        run = torch.compile(train, backend="eager")
        for _ in range(3):
            run(*one, x), train(*other, x)
    assert all(map(torch.equal, tensors_of(*one), tensors_of(*other)))
    assert torch.equal(one[1].statistics().grad_norm, other[1].statistics().grad_norm)


def test_a_graph_of_other_groups_is_refused():
    (_, optimizer), _ = pair("AdamW")
    numbers, rates, words = flatten_groups(optimizer.param_groups)
    param = optimizer.param_groups[0]["params"][0]
    call = lambda words, name=optimizer._name: torch.ops.altgrad.step(
        [param.detach()], [torch.ones_like(param)], [], numbers, rates, [0], name, words)
    with pytest.raises(RuntimeError, match="has other groups, states or options now"):
        call(words.replace("maximize=False", "maximize=True"))
    with pytest.raises(RuntimeError, match="is gone"):
        call(words, "0")
