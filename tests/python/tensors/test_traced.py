"""A step inside of what is traced is refused in words: the graph would lack it."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
import twins

import altgrad


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("make", [lambda ps: altgrad.optim.AdamW(ps), lambda ps: altgrad.optim.SGD(ps),
                                  lambda ps: altgrad.optim.GridOptim(ps)])
@pytest.mark.parametrize("tracer", ["make_fx", "fake", "jit"])
def test_it_is_refused_and_nothing_moves(tracer, make, grad):
    params, = twins.make([(4, 3)], count=1)
    optimizer = make(params)
    twins.give_grads(params)
    optimizer.step()
    before, calls = params[0].detach().clone(), []

    def step(x):
        with torch.set_grad_enabled(grad), pytest.raises(RuntimeError, match="a tracer .* cannot record"):
            optimizer.step()
        calls.append(1)
        return x * 2
    if tracer == "jit":
        torch.jit.trace(step, torch.ones(2), check_trace=False)
    else:
        make_fx(step, tracing_mode="real" if tracer == "make_fx" else "fake")(torch.ones(2))
    assert calls and torch.equal(before, params[0])
    optimizer.step()
    assert not torch.equal(before, params[0])
