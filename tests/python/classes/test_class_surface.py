"""What tools see of a class: signatures, types, pickles, groups; and construction under torch.compile."""

import inspect
import pickle
from pathlib import Path

import pytest
import torch
import twins

import altgrad

NAMES = ["Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Lion", "LAMB", "ADOPT", "AdEMAMix"]
Turned = altgrad.optim.FromRule("adamw", "m=bf16", options=["amsgrad"])


@pytest.mark.parametrize("name", NAMES)
def test_signature_of_the_constructor(name):
    cls = getattr(altgrad.optim, name)
    names = list(inspect.signature(cls.__init__).parameters)
    assert names[:3] == ["self", "params", "lr"] and "max_grad_norm" in names
    assert names[1:] == list(inspect.signature(cls).parameters)
    theirs = getattr(torch.optim, name, None)
    if theirs:
        expected = inspect.signature(theirs.__init__).parameters
        assert [n for n in names if n in expected] == list(expected)


def test_the_package_says_that_it_is_typed():
    assert (Path(altgrad.__file__).parent / "py.typed").is_file()


def test_classes_from_rules_pickle():
    again = pickle.loads(pickle.dumps(Turned))
    assert again is Turned
    a, b = twins.make([(8,)])
    first, second = Turned(a, lr=0.1), again(b, lr=0.1)
    twins.give_grads(a, b)
    first.step()
    second.step()
    assert torch.equal(a[0], b[0])


def test_a_class_made_elsewhere_arrives_by_pickle():
    from test_import import run
    program = f"import pickle, altgrad.optim; cls = pickle.loads({pickle.dumps(Turned)!r}); " \
              "print(cls.__name__, cls.__signature__)"
    done = run(program)
    assert done.stdout.strip() == f"Adamw {Turned.__signature__}", done.stderr


def test_the_bound_travels_in_the_groups():
    a, b = twins.make([(8,)])
    optimizer = altgrad.optim.SGD(a, max_grad_norm=0.5)
    saved = optimizer.state_dict()
    assert saved["param_groups"][0]["max_grad_norm"] == 0.5
    other = altgrad.optim.SGD(b)
    other.load_state_dict(saved)
    assert other.max_grad_norm == 0.5
    # A file of torch's says nothing of it: the bound stays.
    optimizer.load_state_dict(torch.optim.SGD(b).state_dict())
    assert optimizer.max_grad_norm == 0.5
    optimizer.add_param_group(dict(params=[torch.nn.Parameter(torch.ones(3))]))
    optimizer.max_grad_norm = None
    assert all("max_grad_norm" not in group for group in optimizer.param_groups)
    assert set(altgrad.optim.SGD(b).state_dict()["param_groups"][0]) == set(
        torch.optim.SGD(b).state_dict()["param_groups"][0])


def test_groups_that_disagree_about_the_bound():
    a, = twins.make([(8,), (3,)], count=1)
    optimizer = altgrad.optim.SGD([dict(params=a[:1]), dict(params=a[1:])], max_grad_norm=0.5)
    twins.give_grads(a)
    optimizer.step()
    before = [p.detach().clone() for p in a]
    optimizer.param_groups[1]["max_grad_norm"] = 0.25
    with pytest.raises(ValueError, match="one max_grad_norm for all param_groups, not 0.25, 0.5"):
        optimizer.step()
    assert all(map(torch.equal, before, a))
    optimizer.max_grad_norm = 0.25
    optimizer.step()


@pytest.mark.parametrize("make", [altgrad.optim.AdamW, altgrad.optim.Lion, Turned])
def test_construction_inside_a_compiled_function(make):
    a, b = twins.make([(8,), (5, 3)])

    def train(params):
        optimizer = make(params, lr=0.1)
        loss = sum((p ** 2).sum() for p in params)
        loss.backward()
        optimizer.step()
        return loss

    assert torch.equal(torch.compile(train, backend="eager")(a), train(b))
    assert all(map(torch.equal, a, b))
