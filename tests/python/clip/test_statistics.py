"""optimizer.statistics(): norms and counts of every parameter against torch's on the same tensors."""

import math

import pytest
import torch
import twins

import altgrad


def changes(params, optimizer):
    """(gradients, parameters before, difference made) of one step, in float64."""
    grads = [p.grad.double() for p in params]
    before = [p.detach().double() for p in params]
    optimizer.step()
    return grads, before, [p.detach().double() - b for p, b in zip(params, before)]


def norms(tensors):
    return torch.stack([t.norm() for t in tensors]).float()


@pytest.mark.parametrize("bound", [None, 0.5])
@pytest.mark.parametrize("name", ["AdamW", "SGD", "LAMB"])
def test_norms_are_of_each_tensor_and_change_no_bit(name, bound):
    a, b = twins.make([(8,), (5, 3), (4097,), (0,)])
    ours = getattr(altgrad.optim, name)(a, lr=0.1, max_grad_norm=bound, statistics=True)
    plain = getattr(altgrad.optim, name)(b, lr=0.1, max_grad_norm=bound)
    for step in range(3):
        twins.give_grads(a, b)
        grads, before, moved = changes(a, ours)
        plain.step()
        said = ours.statistics()
        torch.testing.assert_close(said.grad_norm, norms(grads), rtol=1e-5, atol=0)
        torch.testing.assert_close(said.param_norm, norms(before), rtol=1e-5, atol=0)
        torch.testing.assert_close(said.update_norm, norms(moved), rtol=1e-3, atol=1e-6)
        assert said.nonfinite.tolist() == said.lost.tolist() == [0.0] * 4
    assert all(map(torch.equal, a, b)) and said.steps == 3
    assert said.clipped_steps == (3 if bound else 0)
    assert list(said.table()) == ["group", "param", "grad_norm", "param_norm", "update_norm",
                                  "nonfinite", "lost", "ratio"]


def test_updates_that_bfloat16_has_no_room_for_are_counted():
    param = torch.nn.Parameter(torch.ones(300, dtype=torch.bfloat16))
    optimizer = altgrad.optim.SGD([param], lr=1.0, statistics=True)
    param.grad = torch.where(torch.arange(300) < 100, 1e-4, 0.5).to(torch.bfloat16)
    param.grad[:7] = 0.0
    optimizer.step()
    assert optimizer.statistics().lost.tolist() == [93.0]
    with torch.no_grad():  # what is no number, or no finite one, is not lost
        param[7:9] = torch.tensor([math.inf, math.nan])
    optimizer.step()
    assert optimizer.statistics().lost.tolist() == [91.0]


def test_a_skipped_step_is_counted_with_what_stopped_it():
    params, = twins.make([(8,), (4097,)], count=1)
    optimizer = altgrad.optim.AdamW(params, lr=0.1, max_grad_norm=1e-3, statistics=True)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0)
    said = []
    for bad in (0, 3):
        twins.give_grads(params)
        scaler.scale(torch.ones(1))
        if bad:
            params[1].grad[:bad] = torch.tensor([math.inf, math.nan, -math.inf])
        scaler.step(optimizer)
        scaler.update()
        said.append(optimizer.statistics())
    assert said[1].nonfinite.tolist() == [0.0, 3.0] and said[1].skipped == 1 and said[1].steps == 2
    assert torch.equal(said[0].update_norm, said[1].update_norm) and said[0].clip_rate == 1.0
    torch.testing.assert_close(said[1].grad_norm[0], params[0].grad.norm() / 4)


def test_parameters_without_a_kernel_are_nan_and_groups_are_named():
    params = [torch.nn.Parameter(torch.ones(3, dtype=dtype))
              for dtype in (torch.float32, torch.float64, torch.bfloat16)]
    optimizer = altgrad.optim.SGD([{"params": params[:1]}, {"params": params[1:], "lr": 0.5}], lr=0.1,
                                  statistics=True)
    assert all(map(math.isnan, optimizer.statistics().grad_norm.tolist()))
    for p in params:
        p.grad = torch.full_like(p, 2.0)
    optimizer.step()
    said = optimizer.statistics().table()
    assert (said["group"], said["param"]) == ([0, 1, 1], [0, 0, 1])
    assert math.isnan(said["grad_norm"][1]) and said["update_norm"][2] == pytest.approx(3**0.5)
    with pytest.raises(RuntimeError, match="statistics=True"):
        altgrad.optim.SGD(params).statistics()
