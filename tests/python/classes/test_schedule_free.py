"""Schedule-Free classes: the two views of the weights, beside the average of the paper."""

import copy

import pytest
import torch

import altgrad


@pytest.mark.parametrize("kind, beta", [(altgrad.optim.AdamWScheduleFree, dict(betas=(0.8, 0.9))),
                                        (altgrad.optim.SGDScheduleFree, dict(momentum=0.8))])
def test_eval_shows_the_average_and_train_goes_on(kind, beta):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in ((5, 7), (9,))]
    optimizer, average = kind(params, lr=0.1, **beta), [param.detach().double().clone() for param in params]
    optimizer.eval(), optimizer.train()  # there is nothing to turn yet
    for step in range(1, 6):
        for param in params:
            param.grad = torch.randn(param.shape)
        optimizer.step()
        for x, param in zip(average, params):
            x.lerp_(optimizer.state[param]["z"].double(), 1 / step)  # of one rate
    y = [param.detach().clone() for param in params]
    optimizer.eval(), optimizer.eval()
    for x, param in zip(average, params):
        torch.testing.assert_close(param.double(), x, atol=1e-6, rtol=0)
    with pytest.raises(RuntimeError, match=r"step\(\) after eval\(\): call train\(\) first"):
        optimizer.step()
    saved = copy.deepcopy(optimizer.state_dict())
    other = kind([torch.nn.Parameter(param.detach().clone()) for param in params])
    other.load_state_dict(saved)
    for one in (optimizer, other):
        one.train()
        torch.testing.assert_close([p.data for p in one.param_groups[0]["params"]], y, atol=1e-6, rtol=0)


@pytest.mark.parametrize("storage", ["", "hessian=ocp.e5m2:128,keep_positive exp_avg=bf16"])
def test_sophia_takes_a_number_of_labels_for_each_step_and_group(storage):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(64, 128)) for _ in range(2)]
    optimizer = altgrad.optim.SophiaG([dict(params=params[:1], bs=4.0), dict(params=params[1:])], bs=2.0, lr=0.01, storage=storage)
    theirs, m = [param.detach().double() for param in params], [0.0, 0.0]
    for param in params:
        param.grad = torch.randn(param.shape)
    optimizer.update_hessian()
    h = [0.01 * param.grad.double().square() for param in params]
    for given in (None, 7.0, None):
        optimizer.step() if given is None else optimizer.step(bs=given)
        for place, param in enumerate(params):
            m[place] = 0.965 * m[place] + 0.035 * param.grad.double()
            ratio = m[place].abs() / (0.04 * (given or (4.0, 2.0)[place]) * h[place] + 1e-15)
            theirs[place] = theirs[place] * (1 - 1e-3) - 0.01 * m[place].sign() * ratio.clamp(max=1.0)
    for param, other in zip(params, theirs):
        torch.testing.assert_close(param.double(), other, atol=5e-3 if storage else 1e-5, rtol=0)
    assert optimizer.param_groups[0]["bs"] == 4.0


def test_sophia_is_told_the_hessian_by_gradients():
    param = torch.nn.Parameter(torch.ones(3, 5))
    optimizer = altgrad.optim.SophiaG([param], max_grad_norm=1e-3)
    param.grad = torch.randn(3, 5)
    optimizer.step()  # the diagonal is 0, so each element moves by the rate
    torch.testing.assert_close(param.data, 1 - 1e-5 - 1e-4 * param.grad.sign())
    optimizer.update_hessian()  # which is not clipped
    torch.testing.assert_close(optimizer.state[param]["hessian"], 0.01 * param.grad.square())
