"""Parameters that rules move on a number format's grid: `rungs=FORMAT` in a storage."""

import torch

from .._binding.layout import WIDE_DTYPES, check_kind
from .._binding.shards import check_placements
from .._core import dtype_of
from .word import word_of


def code_dtypes(words):
    """Dtypes of parameters that hold codes: () unless `words` have a grid."""
    return (dtype_of(word_of(words["rungs"]).format),) if "rungs" in words else ()


def check_params(optimizer, group):
    """Raises TypeError where a parameter of a new group has a dtype that neither kernels nor torch update."""
    words = optimizer._storage_of(group)
    more = WIDE_DTYPES if optimizer._falls_back and not words else code_dtypes(words)
    for param in group["params"]:
        check_placements(type(optimizer).__name__, param)
        if param.requires_grad:
            check_kind(type(optimizer).__name__, param, more)
    take_gradients(group["params"], words)


def take_gradients(params, words):
    """Lets parameters that hold codes have gradients of float32, unless another dtype was set."""
    for param in params:
        if param.dtype in code_dtypes(words) and getattr(param, "grad_dtype", None) == param.dtype:
            param.grad_dtype = torch.float32


def clear_counts(tables):
    """Sets the counts of moves to 0 before a step, because a skipped step does not write them."""
    for table in tables:
        for key in ("flips", "updates"):
            table.statistics()[key].mul_(0.0)  # a NaN stays one


@torch.no_grad()
def count(tables, key):
    """The sum of a statistic over all parameters, a 0-dim int64 tensor. Does not wait for the device."""
    parts = [table.statistics()[key].double().nansum() for table in tables]
    if not parts:
        return torch.zeros((), dtype=torch.int64, device="cpu")
    first = parts[0].device
    total = sum([part.to(first, non_blocking=first.type != "cpu") for part in parts])
    return total.to(torch.int64)
