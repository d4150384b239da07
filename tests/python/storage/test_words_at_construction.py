"""A word of storage that no compiler takes is refused by the constructor, however small the tensors are."""

import pytest
import torch

import altgrad


@pytest.mark.parametrize("storage, words", [
    ("m=ocp.e4m3fn:100", "m=ocp.e4m3fn:100, with blocks of 100 elements; expected a power of two from 16 to 256"),
    ("m=ocp.e4m3fn:512", "expected a power of two from 16 to 256"), ("m=ocp.e4m3:128", "'ocp.e4m3' is no format"),
    ("m=int8:32:bf16", "scales are in f32, f16"), ("copy=ocp.e4m3fn:100", "blocks of 100 elements"),
    ("param=f16 master=f16", r"storage says master=f16; a master is f32, or bf16\+i16 or bf16\+i8"), ("master=bf16", "a master is f32")])
def test_it_is_refused(storage, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.AdamW([torch.zeros(4, requires_grad=True)], storage=storage)


def test_a_negative_view_beside_an_fp8_copy():
    weight = torch.nn.Parameter(torch._neg_view(torch.randn(8, 8)))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=ocp.e4m3fn")
    weight.grad = torch.randn(8, 8)
    optimizer.step()
    expected = weight.detach().resolve_neg().to(torch.float8_e4m3fn)
    assert torch.equal(optimizer.state[weight]["copy"].view(torch.uint8), expected.view(torch.uint8))
