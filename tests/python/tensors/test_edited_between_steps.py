"""What a user writes into groups and states between two steps: torch's result, or one error that names it."""

import pytest
import torch
import twins

import altgrad


def trained(name="AdamW", **kwargs):
    """(ours, torch's), their parameters; two groups, two steps."""
    lists = twins.make([(4,), (3, 2), (5,)])
    optimizers = [getattr(library.optim, name)([dict(params=ps[:2]), dict(params=ps[2:], lr=0.02)],
                                               lr=0.1, **kwargs)
                  for library, ps in zip((altgrad, torch), lists)]
    twins.step(optimizers, lists, 2)
    return optimizers, lists


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_decoupled_weight_decay_is_turned(name):
    optimizers, lists = trained(name, weight_decay=0.5)
    for value in (False, True, False):
        for optimizer in optimizers:
            optimizer.param_groups[0]["decoupled_weight_decay"] = value
        twins.step(optimizers, lists, 2)
        for p, q in zip(*lists):
            torch.testing.assert_close(p, q)


def test_every_group_is_taken_away():
    (ours, theirs), lists = trained()
    before = [p.detach().clone() for p in lists[0]]
    groups = list(ours.param_groups)
    for optimizer in (ours, theirs):
        optimizer.param_groups.clear()
    twins.step((ours, theirs), lists)
    assert all(map(torch.equal, before, lists[0]))
    ours.param_groups.extend(groups)
    twins.step((ours,), lists[:1])
    assert not any(map(torch.equal, before, lists[0]))


@pytest.mark.parametrize("key, value, words", [
    ("betas", (0.5,), r"betas is \(0.5,\); it has to be 2 numbers"),
    ("betas", None, "betas is None, not a number at place 0"),
    ("betas", ("a", 0.9), r"betas is \('a', 0.9\), not a number at place 0"),
    ("lr", "x", "lr is 'x', not a number"),
    ("eps", 1j, "eps is 1j, not a number"),
    ("weight_decay", 10 ** 400, "weight_decay is 1000.*, not a number"),
])
def test_what_is_no_number_is_named(key, value, words):
    (ours, _), (params, _) = trained()
    twins.give_grads(params)
    before = [p.detach().clone() for p in params]
    ours.param_groups[1][key] = value
    with pytest.raises((TypeError, ValueError), match=f"^{words}$"):
        ours.step()
    assert all(map(torch.equal, before, params))


@pytest.mark.parametrize("held", [None, 3, [1], "x"])
@pytest.mark.parametrize("late", [True, False])
def test_a_state_that_is_no_dict(held, late):
    params, = twins.make([(4,), (3, 2), (5,)], count=1)
    optimizer = altgrad.optim.AdamW(params)
    for _ in range(2 * late):
        twins.step((optimizer,), [params])
    optimizer.state[params[1]] = held
    twins.give_grads(params)
    with pytest.raises(TypeError, match="^altgrad.optim.AdamW: parameter 1 of group 0: its state is .*, not a dict"):
        optimizer.step()
    assert late or list(optimizer.state) == [params[1]]


@pytest.mark.parametrize("count", [torch.ones(7), "x", 1j, [2.0], torch.ones((), device="meta")])
def test_a_count_that_is_no_number(count):
    """No state is made for the parameter before it."""
    params, = twins.make([(4,), (3, 2)], count=1)
    optimizer = altgrad.optim.AdamW(params)
    optimizer.state[params[1]]["step"] = count
    twins.give_grads(params)
    with pytest.raises(TypeError, match="^altgrad.optim.AdamW: parameter 1 of group 0: a step count is .*, not a number$"):
        optimizer.step()
    assert list(optimizer.state) == [params[1]]


@pytest.mark.filterwarnings("ignore:altgrad.optim:UserWarning")
def test_a_scalar_keeps_its_dtype_under_a_norm_of_double():
    """Everything is torch's, whose norm of a double is a double: 0-dim gradients do not become one."""
    lists = [[torch.nn.Parameter(torch.ones(3, dtype=torch.float64)),
              *(torch.nn.Parameter(torch.ones(())) for _ in "ab")] for _ in "ab"]
    for ps in lists:
        ps[2].data = ps[1].data
    ours = altgrad.optim.SGD(lists[0], lr=0.1, max_grad_norm=0.5)
    theirs = torch.optim.SGD(lists[1], lr=0.1)
    for _ in range(2):
        for p in (*lists[0], *lists[1]):
            p.grad = torch.full_like(p, 3.0)
        torch.nn.utils.clip_grad_norm_(lists[1], 0.5)
        ours.step()
        theirs.step()
    assert all(map(torch.equal, *lists))


def test_one_number_for_two_betas_is_refused():
    a, = twins.make([(3,)], count=1)
    optimizer = altgrad.optim.AdamW(a)
    twins.give_grads(a)
    optimizer.step()
    optimizer.param_groups[0]["betas"] = 0.9
    with pytest.raises(TypeError, match="betas is 0.9, not a number at place 0"):
        optimizer.step()
