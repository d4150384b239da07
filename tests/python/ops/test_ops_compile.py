"""The operators of torch.library: opcheck, fake tensors, and compiled functions that call the public ones."""

import os
import shutil

import lists
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import altgrad
import altgrad.ops

OPS = torch.ops.altgrad


def two(dtype=torch.float32):
    return [torch.randn(5, 7).to(dtype), torch.randn(9)]


CASES = {
    "norm": lambda: (OPS.grad_norm.default, (two(), 2.0, False)),
    "norms": lambda: (OPS.grad_norm.default, (two(torch.bfloat16), 1.0, True)),
    "clip": lambda: (OPS.clip_grads_by_norm_.default, (two(), 0.5, 2.0, False, False)),
    "value": lambda: (OPS.clip_grads_by_value_.default, (two(torch.float16), 0.1)),
    "unscale": lambda: (OPS.unscale_clip.default, (two(), 0.5, torch.tensor(0.5), 2.0, False)),
    "unscale_": lambda: (OPS.unscale_clip_.default, (two(), 0.5, torch.tensor(0.5), 2.0, True)),
    "scale": lambda: (OPS.loss_scale_update.default, (
        torch.tensor(0.0), torch.tensor(8.0), torch.tensor(1, dtype=torch.int32), 3, 0.5)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_opcheck(case):
    torch.library.opcheck(*case())


def unscaled(grads, scale):
    clipped, norm, found = altgrad.fused_grad_unscale_clip(grads, 0.5, scale)
    return [g * 2 for g in clipped], norm + 1, found


@pytest.mark.parametrize("backend", ["aot_eager", "eager", pytest.param("inductor", marks=pytest.mark.skipif(
    not shutil.which("g++") or "ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="inductor wants g++"))])
def test_a_compiled_function_gives_the_same_bits(backend):
    # Whatever $CXX says: torch's headers want the OpenMP that comes with g++.
    import torch._inductor.config
    torch._inductor.config.cpp.cxx = None, "g++"
    compiled = torch.compile(unscaled, backend=backend, fullgraph=True)
    for scale in (2.0, torch.tensor(4.0)):
        grads = two()
        expected, norm, found = unscaled(grads, scale)
        got = compiled(grads, scale)
        assert lists.same(got[0], expected) and (got[1], got[2]) == (norm, found)


def test_a_compiled_clip_changes_the_gradients():
    params = lists.params(two())
    expected = lists.params([p.grad for p in params])
    clip = torch.compile(lambda: altgrad.clip_grad_norm_(params, 0.5), backend="aot_eager", fullgraph=True)
    assert clip() == altgrad.clip_grad_norm_(expected, 0.5)
    assert lists.same([p.grad for p in params], [p.grad for p in expected])


def test_fake_tensors_have_shapes_and_no_memory():
    with FakeTensorMode():
        grads = [torch.empty(5, 7, dtype=torch.bfloat16), torch.empty(9)]
    clipped, norms, found = altgrad.fused_grad_unscale_clip(grads, 1.0, 2.0, per_tensor=True)
    assert [g.shape for g in clipped] == [(5, 7), (9,)] and norms.shape == (2,) and found.shape == ()
    assert altgrad.compute_global_grad_norm(grads).dtype == torch.float32
