"""Parameters to make copies of, and the oracle's bytes of them."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "differential"))
import mx  # noqa: E402


def bytes_of(tensor):
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


def made(*shapes, dtype=torch.float32):
    """Parameters of normal numbers, with gradients."""
    torch.manual_seed(3)
    given = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    for param in given:
        param.grad = torch.randn_like(param)
    return given


__all__ = ["bytes_of", "made", "mx"]
