"""The straight-through estimator: the gradient of what is rounded is that of the result."""

import torch

from ._scales import bounds


class StraightThrough(torch.autograd.Function):
    """The operator with the gradient that it has, for transforms that ask a Function."""

    @staticmethod
    def forward(x, fmt, scale, masked):
        return torch.ops.altgrad.quantize(x, fmt, scale, masked)

    @staticmethod
    def setup_context(ctx, inputs, output):
        keep(ctx, inputs, output)
        ctx.save_for_forward(*inputs[::2] * inputs[3])

    @staticmethod
    def backward(ctx, grad):
        return pass_through(ctx, grad)

    @staticmethod
    def jvp(ctx, tangent, *_):
        return masked_by(ctx, tangent.expand(ctx.shapes[1]))

    @staticmethod
    def vmap(info, in_dims, x, fmt, scale, masked):
        x, scale, place = batched(in_dims, x, scale)
        return StraightThrough.apply(x, fmt, scale, masked), place


def keep(ctx, inputs, output):
    x, fmt, scale, masked = inputs
    ctx.set_materialize_grads(False)
    ctx.bounds, ctx.shapes = bounds(fmt) if masked else None, (x.shape, output.shape)
    ctx.save_for_backward(*[x, scale] * masked)


def pass_through(ctx, grad):
    if grad is None:
        return None, None, None, None
    grad = masked_by(ctx, grad)
    # A scale with more elements has repeated those of `x`.
    return grad.sum_to_size(ctx.shapes[0]) if grad.shape != ctx.shapes[0] else grad, None, None, None


def masked_by(ctx, grad):
    if ctx.bounds is None:
        return grad
    (x, scale), (least, greatest) = ctx.saved_tensors, ctx.bounds
    given = x.float() / scale
    return torch.where((least <= given) & (given <= greatest), grad, 0.0)


def batched(in_dims, x, scale):
    """(x, scale, place of the batch in the result) that broadcast as those of each example do."""
    place, _, of_scale, *_ = in_dims
    if of_scale is None and scale.dim() == 0:
        return x, scale, place
    rank = max(x.dim() - (place is not None), scale.dim() - (of_scale is not None))

    def front(tensor, dim):
        if dim is None:
            return tensor
        tensor = tensor.movedim(dim, 0)
        return tensor.view(len(tensor), *[1] * (rank + 1 - tensor.dim()), *tensor.shape[1:])
    return front(x, place), front(scale, of_scale), 0
