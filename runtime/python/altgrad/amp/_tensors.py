"""Casts to bfloat16 that round once where that is possible."""

import torch


def is_bf16_tensor(value: object) -> bool:
    """Whether something is a tensor in bfloat16. `AmpConfig.autocast` makes such tensors of a run."""
    return isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16


def safe_to_bf16(tensor: torch.Tensor) -> torch.Tensor:
    """A tensor in bfloat16, rounded to nearest even. It is differentiable.

    float64 is rounded once, where torch's own cast rounds to float32 first. Integers and
    booleans go through float32 as in torch, so an integer beyond 2^24 (int32, int64) may be
    rounded twice, to the second nearest of two neighbours. In a training run `AmpConfig.autocast` casts.

    Args:
        tensor: A real tensor of any shape.

    Raises:
        TypeError: It is complex, or no tensor.
    """
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"safe_to_bf16: expected a tensor, not {type(tensor).__name__}")
    if tensor.is_complex():
        raise TypeError(f"safe_to_bf16: {tensor.dtype} has an imaginary part that bfloat16 has not; "
                        "pass .real")
    if tensor.dtype == torch.float64:
        return _Once.apply(tensor)
    return (tensor if tensor.is_floating_point() else tensor.float()).to(torch.bfloat16)


class _Once(torch.autograd.Function):
    """Casts float64 to bfloat16 through a float32 that is rounded to odd, so the result is rounded once."""

    @staticmethod
    def forward(ctx, exact):
        near = exact.float()
        back = near.double()
        # As integers, floats of one sign are ordered by magnitude: one less is toward zero.
        bits = near.view(torch.int32) - (back.abs() > exact.abs()).int()
        return (bits | (back != exact).int()).view(torch.float32).to(torch.bfloat16)

    @staticmethod
    def backward(ctx, grad):
        return grad.double()
