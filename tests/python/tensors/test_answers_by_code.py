"""What answers by code of the user's is asked that code, whoever looks at the tensors."""

import collections

import pytest
import torch
import twins

import altgrad


class WithMain(torch.nn.Parameter):
    """A parameter whose gradient is kept elsewhere."""

    @property
    def grad(self):
        return self.main

    @grad.setter
    def grad(self, grad):
        self.main = grad


class Decayed(dict):
    """A group that knows its learning rate."""

    lr = 0.1

    def __getitem__(self, key):
        return self.lr if key == "lr" else super().__getitem__(key)


class Made(collections.UserDict):
    def __missing__(self, param):
        return self.setdefault(param, {})


def group_of_its_own(optimizer):
    if type(optimizer.param_groups[0]) is dict:
        optimizer.param_groups[0] = Decayed(optimizer.param_groups[0])
    optimizer.param_groups[0].lr /= 10


def tuples(optimizer):
    optimizer.param_groups[0]["params"] = tuple(optimizer.param_groups[0]["params"])
    optimizer.param_groups = tuple(optimizer.param_groups)


def keys(optimizer):
    optimizer.param_groups[0]["params"] = dict.fromkeys(
        optimizer.param_groups[0]["params"]).keys()


def mapping(optimizer):
    optimizer.state = Made(optimizer.state)


def entries(optimizer):
    for param, held in list(optimizer.state.items()):
        optimizer.state[param] = collections.UserDict(held)
        if "exp_avg" in held:
            optimizer.state[param]["exp_avg"] = torch.full((5,), 3.0)


@pytest.mark.parametrize("change", [group_of_its_own, tuples, keys, mapping, entries])
@pytest.mark.parametrize("kind", [torch.nn.Parameter, WithMain])
def test_as_torch_asks_it(change, kind):
    values = torch.randn(3, 5)
    params = [[kind(v.clone()) for v in values] for _ in "ab"]
    optimizers = [library.optim.AdamW(ps, lr=0.1) for library, ps in zip((altgrad, torch), params)]
    if kind is WithMain:
        for p in (*params[0], *params[1]):
            torch.Tensor.grad.__set__(p, torch.full((5,), -9.0))
    for _ in range(4):
        twins.give_grads(*params)
        for optimizer in optimizers:
            optimizer.step()
            change(optimizer)
    for p, q in zip(*params):
        torch.testing.assert_close(p.detach(), q.detach())
