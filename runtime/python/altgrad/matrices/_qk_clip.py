"""MuonClip's bound of attention logits, by the weights of queries and keys."""

from collections.abc import Sequence

import torch
from torch import Tensor

from .._binding.layout import is_dtensor, local_of

Weights = Tensor | Sequence[Tensor]


@torch.no_grad()
def qk_clip_(query: Weights, key: Weights, max_logits: Tensor, tau: float = 100.0, alpha: float = 0.5, *,
             rotary: Weights = ()) -> Tensor:
    """Shrinks, in place, the weights of those heads whose attention logits were larger than `tau`.

    For each head h, after the optimizer's step (Kimi K2, 2025, algorithm 1):

        gamma_h = min(1, tau / max_logits_h);  query_h *= gamma_h^alpha;  key_h *= gamma_h^(1 - alpha)

    Query heads that share a key head take the least gamma of them all. A head whose largest logit is infinite or
    NaN stays as it is. Nothing waits for a GPU. An optimizer of altgrad takes the change into its master copies.

    Args:
        query: What makes the queries: a weight, or several of as many rows, such as weight and bias. Dimension 0
            holds the heads one behind the other; a view of the shape (heads, rows, ...) is fine, too.
        key: What makes the keys, with as many rows in a head. Its heads are as many, or a divisor of them.
        max_logits: The largest logit of each query head since the last step, divided by sqrt(d) as the softmax
            takes it: a tensor of the shape (heads,). Of several ranks that share the weights, the maximum.
        tau: The bound, above 0.
        alpha: The share of the queries, from 0 to 1.
        rotary: Rows of the queries that meet one key for all heads, as in multi-head latent attention: they
            take gamma as a whole, and that key stays.

    Returns:
        gamma of each query head, a float32 tensor of the shape (heads,).

    Raises:
        TypeError: A weight is no tensor of floating-point numbers.
        ValueError: Rows do not divide into heads, or a number is out of its range.

    Example:
        >>> query, key = torch.ones(4, 3), torch.ones(4, 3)
        >>> altgrad.matrices.qk_clip_(query, key, torch.tensor([400.0, 50.0]))
        tensor([0.2500, 1.0000])
        >>> query[:, 0]
        tensor([0.5000, 0.5000, 1.0000, 1.0000])
    """
    if not 0.0 < tau < float("inf") or not 0.0 <= alpha <= 1.0:
        raise ValueError(f"altgrad.matrices.qk_clip_: tau is {tau} and alpha {alpha}; tau is above 0, and alpha from 0 to 1")
    if not isinstance(max_logits, Tensor) or max_logits.ndim != 1 or not len(max_logits):
        raise ValueError("altgrad.matrices.qk_clip_: max_logits is no tensor with one number for each head")
    heads = len(max_logits)
    queries, keys, rotaries = _listed(query, "query"), _listed(key, "key"), _listed(rotary, "rotary")
    rows = _rows_of(queries, heads, "query")
    _rows_of(rotaries, heads, "rotary")
    key_heads = keys[0].shape[0] // rows if keys and rows else 0
    if not key_heads or heads % key_heads or _rows_of(keys, key_heads, "key") != rows:
        raise ValueError(f"altgrad.matrices.qk_clip_: a query head has {rows} rows, and the keys of shape "
                         f"{[tuple(weight.shape) for weight in keys]} are no heads of which {heads} is a multiple")
    logits = max_logits.float()
    gamma = torch.where((logits > tau) & logits.isfinite(), tau / logits, 1.0)
    of_keys = gamma.view(key_heads, -1).amin(1)
    gamma = of_keys.repeat_interleave(heads // key_heads)
    for weights, factor in ((queries, gamma ** alpha), (keys, of_keys ** (1.0 - alpha)), (rotaries, gamma)):
        for weight in weights:
            _scale(weight, factor)
    return gamma


def _listed(given, name):
    weights = [given] if isinstance(given, Tensor) else list(given)
    for weight in weights:
        if not isinstance(weight, Tensor) or not weight.is_floating_point() or not weight.ndim:
            raise TypeError(f"altgrad.matrices.qk_clip_: {name} is no tensor of floating-point numbers, and no list of them")
    return weights


def _rows_of(weights, heads, name):
    """How many rows each head has, 0 without any."""
    counts = {weight.shape[0] for weight in weights}
    if len(counts) > 1 or any(count % heads for count in counts):
        raise ValueError(f"altgrad.matrices.qk_clip_: {name} has {' and '.join(map(str, sorted(counts)))} rows, which are not "
                         f"{heads} heads of the same size")
    return counts.pop() // heads if counts else 0


def _scale(weight, factor):
    """Multiplies each head, also where only a part of a DTensor lies here."""
    local, first = local_of(weight), 0
    if is_dtensor(weight):
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
        first = compute_local_shape_and_global_offset(weight.shape, weight.device_mesh, weight.placements)[1][0]
    rows = factor.to(local.device).repeat_interleave(weight.shape[0] // len(factor))[first:first + local.shape[0]]
    # Rounded once: the factor is float32, whatever the weight is.
    local.copy_(local * rows.view(-1, *[1] * (local.ndim - 1)))
