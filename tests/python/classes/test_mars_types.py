"""mars_type="mars-shampoo" of MARS beside its authors' formula in float64, and what a group says of its type."""

import pytest
import torch
import twins

import altgrad
import published

SHAPES = (33, 17), (8, 8), (5, 40), (7,), (3, 4, 5)


@pytest.mark.parametrize("words", [dict(lr=0.01), dict(weight_decay=0.1, gamma=0.1, maximize=True), dict(optimize_1d=True, lr=0.01)], ids=str)
def test_matrices_of_mars_shampoo_step_by_singular_values_of_one(words):
    params, = twins.make(SHAPES, count=1)
    theirs, first = [[param.detach().double() for param in params] for _ in range(2)]
    optimizer = altgrad.optim.MARS(params, mars_type="mars-shampoo", **words)
    beta, gamma, lr = 0.95, words.get("gamma", 0.025), words.get("lr", 3e-3)
    averages, last, others = {}, {}, altgrad.optim.MARS([p.detach().clone().requires_grad_() for p in params[3:]], **words)
    for _ in range(20):
        twins.give_grads(params)
        for ours, param in zip(others.param_groups[0]["params"], params[3:]):
            ours.grad = param.grad.clone()
        optimizer.step()
        others.step()
        for at, param in enumerate(params[:3]):
            g = param.grad.double() * (-1 if words.get("maximize") else 1)
            c = g + gamma * beta / (1 - beta) * (g - last.get(at, 0.0))
            averages[at], last[at] = beta * averages.get(at, 0.0) + (1 - beta) * c / max(1.0, float(c.norm())), g
            u = max(1.0, g.shape[0] / g.shape[1]) ** 0.5 * published.newton_schulz(averages[at] / (1 - beta), eps=1e-8)
            theirs[at] = theirs[at] - lr * (u + words.get("weight_decay", 0.0) * theirs[at])
    for param, begun, other in zip(params[:3], first, theirs):
        assert (param.double() - other).norm() <= 0.03 * (other - begun).norm()
    assert all(map(torch.equal, params[3:], others.param_groups[0]["params"])) and len(optimizer._built.tables) == 1
    assert {*optimizer.state[params[0]]} == {"exp_avg", "last_grad"}


def test_groups_of_three_types_make_one_step_and_go_on_from_a_file():
    kinds = "mars-adamw", "mars-lion", "mars-shampoo"
    whole, half = twins.make((SHAPES[0], SHAPES[3]) * 3)
    make = lambda params: altgrad.optim.MARS([dict(params=params[2 * at:2 * at + 2], mars_type=kind) for at, kind in enumerate(kinds)])
    one, two = make(whole), make(half)
    twins.step([one, two], [whole, half], 2)
    again = make(half)
    again.load_state_dict(two.state_dict())
    twins.step([one, again], [whole, half], 2)
    assert all(map(torch.equal, whole, half)) and len(one._built.tables) == 1
    assert "exp_avg_sq" not in one.state[whole[2]] and "exp_avg_sq" in one.state[whole[3]]


def test_the_exact_form_of_mars_shampoo_compares_gradients_of_one_batch():
    params, = twins.make(((8, 6),), count=1)
    optimizer = altgrad.optim.MARS(params, mars_type="mars-shampoo", is_approx=False)
    twins.step([optimizer], [params])
    twins.give_grads(params)
    optimizer.update_previous_grad()
    optimizer.update_last_grad()
    assert torch.equal(optimizer.state[params[0]]["last_grad"], params[0].grad)


def test_an_unknown_type_is_refused_and_leaves_no_group():
    params, = twins.make(SHAPES, count=1)
    optimizer = altgrad.optim.MARS(params[:1])
    with pytest.raises(ValueError, match="group 1: mars_type is 'adamw', none of 'mars-adamw', 'mars-lion', 'mars-shampoo'"):
        optimizer.add_param_group(dict(params=params[1:], mars_type="adamw"))
    assert len(optimizer.param_groups) == 1
