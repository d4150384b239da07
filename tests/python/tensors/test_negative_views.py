"""A parameter that is a negative view says nothing of the gradients of others."""

import torch
import twins

import altgrad


def test_every_gradient_is_negated_where_it_is_a_view():
    values = [torch.randn(4), torch.randn(4)]
    params = [[torch.nn.Parameter(torch._neg_view(values[0].clone())),
               torch.nn.Parameter(values[1].clone())] for _ in "ab"]
    optimizers = [library.optim.AdamW(ps, lr=0.1)
                  for library, ps in zip((altgrad, torch), params)]
    for _ in range(3):
        twins.give_grads(*params)
        for equals in zip(*params):
            for p in equals:
                p.grad = torch._neg_view(p.grad)
        for optimizer in optimizers:
            optimizer.step()
    for p, q in zip(*params):
        torch.testing.assert_close(p.detach(), q.detach())
