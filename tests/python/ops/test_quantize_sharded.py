"""`quantize` of a DTensor: every rank rounds its shard, and a scale lies as its shape asks for."""

import pytest
import ranks
import torch

import altgrad

FP8 = "ocp.e4m3fn"
COUNT = 2


def check(rank, group):
    from torch.distributed.tensor import Partial, Replicate, Shard, DTensor, distribute_tensor, init_device_mesh
    mesh = init_device_mesh("cpu", (COUNT,))
    torch.manual_seed(0)
    whole, rows, columns = torch.randn(8, 6) * 3, torch.rand(8, 1) + 0.5, torch.rand(6) + 0.5
    for place in (Shard(0), Shard(1), Replicate()):
        x = distribute_tensor(whole, mesh, [place]).requires_grad_()
        for scale in (0.5, torch.tensor(0.25), rows, columns):
            given = distribute_tensor(scale, mesh, [Replicate()]) if torch.is_tensor(scale) and scale.dim() else scale
            y = altgrad.quantize(x, FP8, given)
            assert torch.equal(y.full_tensor(), altgrad.quantize(whole, FP8, scale))
            codes = altgrad.quant.quantize_codes(x.detach(), FP8, given)
            assert torch.equal(altgrad.dequantize(codes, given).full_tensor(), y.full_tensor())
            if not isinstance(place, Replicate):
                assert y.placements == (place,) and y.to_local().numel() == whole.numel() // COUNT
            x.grad = None
            y.sum().backward()
            assert torch.equal(x.grad.full_tensor(), torch.ones(8, 6))
    # A sum of which each rank has a part is added up before it is rounded.
    part = DTensor.from_local(whole / COUNT, mesh, [Partial()])
    assert torch.equal(altgrad.quantize(part, FP8).full_tensor(), altgrad.quantize(part.full_tensor(), FP8))
    for scale, block, words in ((rows, None, "distribute_tensor"), (torch.rand(8, 3), 2, "shards may cut blocks")):
        with pytest.raises(ValueError, match=words):
            altgrad.quantize(x, FP8, scale, block=block)
    with pytest.raises(ValueError, match="full_tensor"):
        altgrad.quantize(whole, FP8, distribute_tensor(rows, mesh, [Replicate()]))


def test_shards_are_rounded_where_they_are(tmp_path):
    assert ranks.run([check], tmp_path, COUNT) == [(None,) * COUNT]
