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


def test_sophia_is_told_the_hessian_by_gradients():
    param = torch.nn.Parameter(torch.ones(3, 5))
    optimizer = altgrad.optim.SophiaG([param], max_grad_norm=1e-3)
    param.grad = torch.randn(3, 5)
    optimizer.step()  # the diagonal is 0, so each element moves by the rate
    torch.testing.assert_close(param.data, 1 - 1e-5 - 1e-4 * param.grad.sign())
    optimizer.update_hessian()  # which is not clipped
    torch.testing.assert_close(optimizer.state[param]["hessian"], 0.01 * param.grad.square())
