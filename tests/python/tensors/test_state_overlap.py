"""States that share memory with one another or with a parameter are refused, in words that name both."""

import pytest
import torch
import twins

import altgrad
from altgrad.optim import _build



def trained(shapes=((8,), (8,)), **kwargs):
    params, = twins.make(shapes, count=1)
    optimizer = altgrad.optim.AdamW(params, lr=0.1, **kwargs)
    for _ in range(2):
        twins.give_grads(params)
        optimizer.step()
    return optimizer, params, [optimizer.state[p] for p in params]


def one_object(a, b, params):
    b["exp_avg"] = a["exp_avg"]


def overlapping_views(a, b, params):
    flat = torch.zeros(12)
    a["exp_avg"], b["exp_avg"] = flat[:8], flat[4:]


def two_of_one_row(a, b, params):
    b["exp_avg"] = b["exp_avg_sq"]


def its_parameter(a, b, params):
    b["exp_avg_sq"] = params[1].detach()


def another_parameter(a, b, params):
    b["exp_avg_sq"] = params[0].detach()[:]


def its_count(a, b, params):
    b["exp_avg"][3] = 1.0  # a number that a count can have
    b["step"] = b["exp_avg"][3:4]


CASES = {
    one_object: "'exp_avg' of parameter 0 of group 0 shares memory with state 'exp_avg' of parameter 1",
    overlapping_views: "'exp_avg' of parameter 0 of group 0 shares .* state 'exp_avg' of parameter 1",
    two_of_one_row: "'exp_avg' of parameter 1 of group 0 shares .* state 'exp_avg_sq' of parameter 1",
    its_parameter: "state 'exp_avg_sq' of parameter 1 of group 0 shares memory with parameter 1 of group",
    another_parameter: "state 'exp_avg_sq' of parameter 1 of group 0 shares memory with parameter 0 of",
    its_count: "state 'exp_avg' of parameter 1 of group 0 shares memory with state 'step' of parameter 1",
}


@pytest.mark.parametrize("share", CASES)
@pytest.mark.parametrize("late", [True, False])
def test_refused_before_anything_changes(share, late):
    optimizer, params, (a, b) = trained()
    if not late:
        optimizer.load_state_dict(optimizer.state_dict())
        a, b = (optimizer.state[p] for p in params)
    share(a, b, params)
    del a["exp_avg_sq"]
    twins.give_grads(params)
    before = [t.detach().clone() for t in (*params, *a.values(), *b.values())]
    for _ in range(2):
        with pytest.raises(RuntimeError, match=f"^altgrad.optim.AdamW: .*{CASES[share]}"):
            optimizer.step()
    assert "exp_avg_sq" not in a
    assert all(map(torch.equal, before, (*params, *a.values(), *b.values())))


def test_a_parameter_without_a_gradient_and_names():
    model = torch.nn.Linear(4, 4, bias=False)
    frozen = torch.nn.Parameter(torch.randn(4, 4))
    optimizer = altgrad.optim.SGD([("w", model.weight), ("frozen", frozen)], momentum=0.9)
    model.weight.grad = torch.ones(4, 4)
    optimizer.state[model.weight]["momentum_buffer"] = frozen.detach()
    with pytest.raises(RuntimeError, match="state 'momentum_buffer' of 'w' shares memory with 'frozen'"):
        optimizer.step()


def test_views_of_one_buffer_and_shared_counts_are_as_good_as_tensors_of_their_own():
    lists = twins.make([(8,), (3, 4), (0, 3), (0, 3), (5,)])
    whole = torch.randn(5, 2)
    lists[0][4].data, lists[1][4].data = whole[:, 0], whole[:, 0].clone()
    optimizers = [altgrad.optim.AdamW(ps, lr=0.1) for ps in lists]
    flat, matrix = torch.zeros(48), torch.zeros(5, 2)
    count, empty = torch.tensor(0.0), torch.zeros(0, 3)
    views = [flat[:8], flat[8:20].view(3, 4), empty, empty, matrix[:, 0]]
    seconds = [flat[20:28], torch.zeros(1).expand(3, 4), empty, empty, matrix[:, 1]]
    for p, first, second in zip(lists[0], views, seconds):
        optimizers[0].state[p].update(step=count, exp_avg=first, exp_avg_sq=second)
    twins.step(optimizers, lists, 3)
    assert all(map(torch.equal, *lists)) and flat[:28].all() and not flat[28:].any()


def test_nothing_is_compared_in_a_step_in_which_nothing_came(monkeypatch):
    compared = []
    whole = _build.check_states_no_overlap
    monkeypatch.setattr(_build, "check_states_no_overlap", lambda *a: compared.append(a) or whole(*a))
    optimizer, params, _ = trained()
    for missing in (None, 0, None):
        twins.give_grads(params)
        if missing is not None:
            params[missing].grad = None
        optimizer.step()
    assert len(compared) == 1, "a parameter that comes back has its row"
