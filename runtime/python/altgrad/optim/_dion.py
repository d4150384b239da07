"""Dion, whose steps are orthonormal by a QR decomposition of a power iteration, with the arguments of its authors."""

import math

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from ._keywords import Shared
from ._named import BETAS, Named, constructor
from ._owners import MatrixOwners
from ._shapes import matrices_of

__all__ = ["Dion"]


class Dion(MatrixOwners, Named):
    """Dion (K. Ahn et al., 2025) with the arguments of its authors: steps along an orthonormal basis; AdamW beside it.

        b = m + g;  P = orth(b Q);  R = bᵀ P;  m = b - (1 - mu) P Rᵀ;  Q = R / (|R of each column| + epsilon)
        p -= lr weight_decay p;  p -= lr sqrt(rows / columns) P Qᵀ

    orth gives Q of a QR decomposition, which torch finds in float32, with Householder's reflections. A matrix of more columns
    than rows is stepped as its transpose, through a copy of it and of its gradient. Q begins with normal numbers, the same for
    all matrices with as many columns, so that ranks agree, and has r = ceil(rank_fraction min(rows, columns)) columns. The
    others of `q` are zeros, so a fraction below 1 gives Dion's numbers and saves neither memory nor time. Where a column
    of R is 0, as all are before the first gradient, the column of Q stays as it was, where the authors keep all of Q or none.
    After a gradient that is not finite a matrix only decays, as there, because its momentum is lost: use a GradScaler.

    `state[param]` holds `exp_avg`, m, in the shape and dtype of the parameter, and `q` of shape (columns, columns) of the shorter
    side, in float32. A parameter of more than two dimensions is one matrix with a row for each index of dimension 0. One of
    a single dimension, and those of a group with `algorithm="adamw"`, which the authors use for embeddings and for the last
    layer, take AdamW's steps, and hold `step` (0-dim float32), `exp_avg` and `exp_avg_sq`. The formula is in
    templates/dion.mlir.

    Args:
        mu: How much of the momentum stays along the basis of a step, from 0 to 1. Across it all stays.
        betas: The decay rates of AdamW's averages.
        rank_fraction: How many columns Q has, for one of the shorter side; above 0, at most 1.
        epsilon: What is added to the lengths of the columns of R, and to AdamW's denominator.
        algorithm: "dion", or "adamw" for all parameters of a group.

    Raises:
        ValueError: `rank_fraction`, `mu` or `epsilon` is out of range, or `algorithm` neither word.

    Example:
        >>> optimizer = altgrad.optim.Dion([{"params": [model.weight]}, {"params": [model.bias], "lr": 3e-4}], lr=0.01)
    """

    _hypers = {**BETAS, "eps": "epsilon"}
    _options = {"vector": lambda g: g["algorithm"] != "dion", "low_rank": lambda g: g["rank_fraction"] < 1}
    _only_with = {"v": "vector"}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.01, mu: float = 0.95, betas: tuple[float, float] = (0.9, 0.95),
                 weight_decay: float = 0.01, rank_fraction: float = 1.0, epsilon: float = 1e-8, algorithm: str = "dion",
                 **shared: Unpack[Shared]) -> None: ...

    def _check_group(self, group, where):
        if not 0 < group["rank_fraction"] <= 1:
            raise ValueError(f"{where}: rank_fraction is {group['rank_fraction']}, not above 0 and at most 1")
        if not (0 <= group["mu"] <= 1 and group["epsilon"] >= 0):
            raise ValueError(f"{where}: mu is {group['mu']} and epsilon {group['epsilon']}, not from 0, the first up to 1")
        if group["algorithm"] not in ("dion", "adamw"):
            raise ValueError(f"{where}: algorithm is {group['algorithm']!r}, neither 'dion' nor 'adamw'")

    def _matrices_of(self, group, param):
        is_vector = param.dim() < 2 or group["algorithm"] == "adamw"
        return None if is_vector else matrices_of({"flatten": True, "split": None, "red_dim": "by_shape"}, param)

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options = group_rule
        if not matrices:
            return rule, ("vector",)
        return rule, options + ("turned",) * bool(matrices.turned)

    def _begin_state(self, row, key, state):
        if key == "q":
            rank = math.ceil(self.param_groups[row.group]["rank_fraction"] * len(state))
            state[:, :rank] = torch.randn((len(state), rank), generator=torch.Generator().manual_seed(0))
