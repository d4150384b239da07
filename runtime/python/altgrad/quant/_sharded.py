"""How torch.distributed's DTensors are rounded: each element on the rank that holds it."""

import sys
from functools import cache

import torch


def is_sharded(tensor):
    """Whether it is a DTensor; nothing of torch.distributed is imported to find out."""
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


def prepare(x, scale, block=None):
    """Tells torch how the operators are sharded. Raises ValueError where shards of `x` and of `scale` need not fit."""
    if not is_sharded(x) and not is_sharded(scale):
        return
    if block is not None:
        raise ValueError("x or scale is a DTensor, whose shards may cut blocks: give a scale for each element, one that "
                         "broadcasts, or quantize x.to_local()")
    if not is_sharded(x):
        raise ValueError("scale is a DTensor and x a plain tensor: give scale.full_tensor(), or distribute x")
    if isinstance(scale, torch.Tensor) and scale.dim() and not is_sharded(scale):
        raise ValueError(f"x is a DTensor and scale a plain tensor of shape {tuple(scale.shape)}: distribute_tensor(scale, "
                         "x.device_mesh), or give a number or a 0-dim tensor, which is the same for every rank")
    _register()


def _placements(tensor, shape):
    """Where a tensor that broadcasts to `shape` lies: whole, then as the result is cut along each of its dimensions."""
    from torch.distributed.tensor import Replicate, Shard
    ahead = len(shape) - len(tensor.shape)
    return [Replicate(), *[Shard(dim - ahead) if dim >= ahead and tensor.shape[dim - ahead] == extent else Replicate()
                           for dim, extent in enumerate(shape)]]


def _strategies(x, scale, *rest):
    """(placements of the result, those of the arguments): a partial sum has to be summed before it is rounded."""
    from torch.distributed.tensor import Replicate, Shard
    shape = torch.broadcast_shapes(x.shape, scale.shape)
    results = [Replicate(), *map(Shard, range(len(shape)))]
    return [([result], [of_x, None, of_scale, *rest])
            for result, of_x, of_scale in zip(results, _placements(x, shape), _placements(scale, shape))]


@cache
def _register():
    from torch.distributed.tensor.experimental import register_sharding
    ops = torch.ops.altgrad
    register_sharding(ops.quantize.default)(lambda x, fmt, scale, mask_saturated: _strategies(x, scale, None))
    register_sharding(ops.quantize_codes.default)(lambda x, fmt, scale: _strategies(x, scale))
    register_sharding(ops.numbers_of.default)(
        lambda codes, fmt: [([place], [place, None]) for place in _placements(codes, codes.shape)])
