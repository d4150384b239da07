"""Parameters to make copies of, and the oracle's bytes of them."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "differential"))
import mx  # noqa: E402


def bytes_of(tensor):
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


def matrix_of(numbers):
    """All rows of a tensor's matrices, in float32."""
    return numbers.detach().float().reshape(-1, numbers.shape[-1] if numbers.dim() else 1).numpy()


def made(*shapes, dtype=torch.float32):
    """Parameters of normal numbers, with gradients."""
    torch.manual_seed(3)
    given = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    for param in given:
        param.grad = torch.randn_like(param)
    return given


__all__ = ["bytes_of", "made", "matrix_of", "mx"]
