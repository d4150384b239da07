"""A step on the CPU asks Python little, and as much for a hundred tensors as for one."""

import os
import sys

import pytest
import torch

import altgrad

pytestmark = pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="a GPU's step knows streams and guards")


def calls_of(step):
    """The names of the functions that a call runs, in Python and in C, by the events of its profiler."""
    names = {"call": [], "c_call": []}

    def note(frame, event, called):
        if event in names:
            names[event].append(frame.f_code.co_name if event == "call" else called.__name__)
    sys.setprofile(note)
    try:
        step()
    finally:
        sys.setprofile(None)
    return names["call"], names["c_call"]


def optimizer_of(count, **words):
    params = [torch.nn.Parameter(torch.ones(64)) for _ in range(count)]
    for param in params:
        param.grad = torch.ones(64)
    optimizer = altgrad.optim.AdamW(params, **words)
    optimizer.step()
    return optimizer


@pytest.mark.parametrize("words", [{}, {"max_grad_norm": 1.0}])
def test_a_step_makes_few_calls(words):
    one, many = (calls_of(optimizer_of(count, **words).step) for count in (1, 100))
    assert one == many
    python, c = one
    assert len(python) <= 40 and len(c) <= 22, one
    # torch's modes are entered where one of its operators runs.
    assert not {"_set_grad_enabled", "set_grad_enabled"} & {*python, *c}


def test_a_step_that_copies_records_no_graph():
    """Masters and parameters that lie otherwise are copied by torch's operators."""
    param = torch.nn.Parameter(torch.ones(6, 8, dtype=torch.bfloat16)[:, ::2])
    optimizer = altgrad.optim.FromRule("adamw", storage="master=f32")([param])
    for _ in range(3):
        param.grad = torch.ones_like(param)
        optimizer.step()
        param.data.add_(0.5)  # an edit, which the master takes
        with torch.no_grad():
            param.mul_(2.0)
    tensors = [param, *optimizer.state[param].values()]
    assert all([tensor.grad_fn is None for tensor in tensors]) and not any([of.requires_grad for of in tensors[1:]])
