"""A matrix times its transpose, and how its gradient goes back."""

import torch
from torch import Tensor
from torch.library import custom_op

from ..quant._arguments import is_transformed


def gram(x: Tensor) -> Tensor:
    """X Xᵀ of each matrix, in the dtype of `x`. Its backward is (G + Gᵀ) X, one product for both factors.

    Args:
        x: A floating-point tensor of the shape (..., n, m), with any strides.

    Returns:
        A tensor of the shape (..., n, n), without gaps.

    Raises:
        TypeError: `x` is no tensor of real floating-point numbers.
        ValueError: `x` has fewer than two dimensions.

    Example:
        >>> altgrad.matrices.gram(torch.tensor([[1.0, 2.0], [0.0, 1.0]]))
        tensor([[5., 2.],
                [2., 1.]])
    """
    check_matrices(x, "altgrad.matrices.gram")
    return (_product if is_transformed() else _gram)(x)


def check_matrices(x, name):
    """Raises for what is no batch of matrices."""
    if not isinstance(x, Tensor) or not x.is_floating_point() or x.layout is not torch.strided:
        kind = type(x).__name__ if not isinstance(x, Tensor) else x.dtype if x.layout is torch.strided else x.layout
        raise TypeError(f"{name}: x is {kind}, no tensor of real floating-point numbers")
    if x.ndim < 2:
        raise ValueError(f"{name}: x has the shape {tuple(x.shape)}, no matrices; it needs two dimensions or more")


def in_dtype_of(x):
    """A context without autocast: an operator's result has the dtype that its fake has."""
    return torch.autocast(x.device.type, enabled=False)


def _product(x: Tensor) -> Tensor:
    with in_dtype_of(x):
        return torch.matmul(x, x.mT).contiguous()


_gram = custom_op("altgrad::gram", _product, mutates_args=())


@_gram.register_fake
def _(x):
    return x.new_empty(*x.shape[:-1], x.shape[-2])


def _backward(ctx, grad):
    x, = ctx.saved_tensors
    with in_dtype_of(x):
        return torch.matmul(grad + grad.mT, x)


_gram.register_autograd(_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
