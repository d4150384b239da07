"""Newton-Schulz iterations as a function, forward and backward."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.library import custom_op

from .._coefficients import is_one, rows_of
from ..quant._arguments import is_transformed
from ._gram import check_matrices, in_dtype_of

JORDAN = 3.4445, -4.775, 2.0315


def newton_schulz(x: Tensor, coefficients: Sequence[float] | Sequence[Sequence[float]] = JORDAN, steps: int = 5, *,
                  eps: float = 1e-7, length: str = "clamped") -> Tensor:
    """The matrices near `x` whose singular values are all near 1.

    On the shorter side, in the dtype of `x`:

        X = X / max(|X|, eps);  A = X Xᵀ,  X = a X + (b A + c A A) X  for each step's a, b, c

    The formula is that of `altgrad.orthogonalize` in rules, and of torch.optim.Muon for bfloat16. In float16 norms are
    float32. A matrix of zeros gives zeros. The backward keeps X and A of each step.

    Args:
        x: A floating-point tensor of the shape (..., rows, columns), with any strides.
        coefficients: a, b, c; or three numbers for each step.
        steps: The number of steps, as many as there are rows of coefficients, if there are several.
        eps: The least norm by which a matrix is divided, or what is added to its norm.
        length: "clamped", max(|X|, eps), or "added", |X| + eps.

    Returns:
        A tensor of the shape and dtype of `x`, without gaps.

    Raises:
        TypeError: `x` is no tensor of real floating-point numbers.
        ValueError: `x` has fewer than two dimensions, or another argument is not what it has to be.

    Example:
        >>> o = altgrad.matrices.newton_schulz(torch.randn(64, 256))
    """
    name = "altgrad.matrices.newton_schulz"
    check_matrices(x, name)
    if not isinstance(steps, int) or steps < 1:
        raise ValueError(f"{name}: steps is {steps!r}, no whole number from 1 on")
    rows = rows_of(coefficients, f"{name}: coefficients")
    rows *= steps if is_one(coefficients) else 1
    if len(rows) != steps:
        raise ValueError(f"{name}: steps is {steps}, with coefficients for {len(rows)}")
    if length not in ("clamped", "added"):
        raise ValueError(f"{name}: length is {length!r}, neither 'clamped' nor 'added'")
    if isinstance(eps, int | float) and not eps >= 0:
        raise ValueError(f"{name}: eps is {eps!r}, below 0 or no number")
    iterate = _by_products if is_transformed() else _iterate
    return iterate(x, [number for row in rows for number in row], eps, length == "added")[0]


def _length(x, eps, added):
    norm = _norm(x)
    return norm + eps if added else norm.clamp(min=eps)


def _norm(x):
    # Of 4096 elements of 1024 it is no number of float16, and an eps of 1e-8 is 0 there.
    wide = torch.float32 if x.dtype == torch.float16 else None
    return torch.linalg.vector_norm(x, dim=(-2, -1), keepdim=True, dtype=wide)


def _fused(added, left, right, by, weight):
    """by * left right + weight * added, rounded once, for any number of batch dimensions."""
    count = math.prod(added.shape[:-2])
    flat = [part.reshape(count, *part.shape[-2:]) for part in (added, left, right)]
    return torch.baddbmm(*flat, beta=weight, alpha=by).view(added.shape)


def _iterates(x, coefficients, eps, added):
    """X before each step and behind the last one, on the shorter side."""
    y = (x.mT if x.shape[-2] > x.shape[-1] else x).contiguous()
    found = [(y / _length(y, eps, added)).to(y.dtype)]
    for a, b, c in zip(*[iter(coefficients)] * 3):
        y = found[-1]
        square = torch.matmul(y, y.mT)
        found.append(_fused(y, _fused(square, square, square, c, b), y, 1, a))
    return found


def _by_products(x: Tensor, coefficients: Sequence[float], eps: float, added: bool) -> tuple[Tensor, Tensor]:
    """The result, and X of each step on the shorter side, for the backward."""
    with in_dtype_of(x):
        *kept, y = _iterates(x, coefficients, eps, added)
    return (y.mT if x.shape[-2] > x.shape[-1] else y).contiguous(), torch.stack(kept)


_iterate = custom_op("altgrad::newton_schulz", _by_products, mutates_args=())


@_iterate.register_fake
def _(x, coefficients, eps, added):
    shorter, longer = (x.shape[-1], x.shape[-2]) if x.shape[-2] > x.shape[-1] else x.shape[-2:]
    return (torch.empty_like(x, memory_format=torch.contiguous_format),
            x.new_empty(len(coefficients) // 3, *x.shape[:-2], shorter, longer))


def _keep(ctx, inputs, output):
    x, ctx.coefficients, ctx.eps, ctx.added = inputs
    ctx.save_for_backward(x, output[1])
    ctx.set_materialize_grads(False)


def _backward(ctx, grad, _):
    x, kept = ctx.saved_tensors
    if grad is None:
        return None, None, None, None
    with in_dtype_of(x):
        # What was kept has no way back to x, which a second derivative takes.
        kept = _iterates(x, ctx.coefficients, ctx.eps, ctx.added)[:-1] if torch.is_grad_enabled() else kept.unbind()
        return _gradient(x, kept, grad, ctx), None, None, None


def _gradient(x, kept, grad, ctx):
    tall = x.shape[-2] > x.shape[-1]
    grad = grad.mT if tall else grad
    rows = list(zip(*[iter(ctx.coefficients)] * 3))
    for y, (a, b, c) in zip(reversed(kept), reversed(rows)):
        square = torch.matmul(y, y.mT)
        by_sum = torch.matmul(grad, y.mT)
        by_square = b * by_sum + c * (by_sum @ square + square @ by_sum)
        grad = a * grad + (b * square + c * square @ square) @ grad + (by_square + by_square.mT) @ y
    grad = grad.mT if tall else grad
    # Of x / length(|x|): along x the length changes, unless eps is the length.
    length = _length(x, ctx.eps, ctx.added)
    norm = _norm(x)
    along = (grad * x).sum(dim=(-2, -1), keepdim=True, dtype=norm.dtype) / (length * norm)
    moves = norm > 0 if ctx.added else norm > ctx.eps
    return ((grad - torch.where(moves, along, 0) * x) / length).to(x.dtype)


_iterate.register_autograd(_backward, setup_context=_keep)
