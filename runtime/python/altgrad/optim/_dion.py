"""Dion, whose steps are orthonormal by a QR decomposition of a power iteration, with the arguments of its authors."""

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._rule import Rule
from ._keywords import Shared
from ._named import BETAS, Named, constructor, find_template
from ._owners import MatrixOwners
from ._shapes import matrices_of

__all__ = ["Dion"]
_BEGIN, _END = "  p = orthonormal(", "  squares ="  # of a power iteration in the rule's text


class Dion(MatrixOwners, Named):
    """Dion (K. Ahn et al., 2025) with the arguments of its authors: steps along an orthonormal basis; AdamW beside it.

        b = m + g;  P = orth(b Q);  R = bᵀ P;  m = b - (1 - mu) P Rᵀ;  Q = R / (|R of each column| + epsilon)
        p -= lr weight_decay p;  p -= lr sqrt(rows / columns) P Qᵀ

    orth gives Q of a QR decomposition, which torch finds in float32, with Householder's reflections. A matrix of more columns
    than rows is stepped as its transpose, through a copy of it and of its gradient. Q begins with normal numbers, the same for
    all matrices with as many columns, so that ranks agree, and has r = ceil(rank_fraction min(rows, columns)) columns. The
    others of `q` are zeros, so a fraction below 1 gives Dion's numbers and saves neither memory nor time. With another
    fraction in its group Q loses its last columns in the next step, or gets new ones. Where a column
    of R is 0, as all are before the first gradient, the column of Q stays as it was, where the authors keep all of Q or none.
    After a gradient that is not finite a matrix only decays, as there, because its momentum is lost: use a GradScaler.

    `state[param]` holds `exp_avg`, m, in the shape and dtype of the parameter, and `q` of shape (columns, columns) of the shorter
    side, in float32. A parameter of more than two dimensions is one matrix with a row for each index of dimension 0. One of
    a single dimension, and those of a group with `algorithm="adamw"`, which the authors use for embeddings and for the last
    layer, take AdamW's steps, and hold `step` (0-dim float32), `exp_avg` and `exp_avg_sq`. The formula is in
    templates/dion.mlir. `load_state_dict` takes files of the authors' class, too.

    Args:
        mu: How much of the momentum stays along the basis of a step, from 0 to 1. Across it all stays.
        betas: The decay rates of AdamW's averages.
        rank_fraction: How many columns Q has, for one of the shorter side; above 0, at most 1.
        epsilon: What is added to the lengths of the columns of R, and to AdamW's denominator.
        algorithm: "dion", or "adamw" for all parameters of a group.
        rank_multiple_of: Q has a multiple of so many columns, rounded up, and at most all.
        power_iters: How often a step finds P and R, from 1 to 99, each time from the last R in the place of Q.

    Raises:
        ValueError: `rank_fraction`, `mu`, `epsilon`, `rank_multiple_of` or `power_iters` is out of range, or `algorithm`
            neither word.

    Example:
        >>> optimizer = altgrad.optim.Dion([{"params": [model.weight]}, {"params": [model.bias], "lr": 3e-4}], lr=0.01)
    """

    _hypers = {**BETAS, "eps": "epsilon"}
    _options = {"low_rank": lambda g: g["rank_fraction"] < 1}
    _only_with, _spelled = {"v": "vector"}, {"vector": "algorithm='adamw'"}
    _decides = "algorithm", "rank_fraction", "rank_multiple_of"

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.01, mu: float = 0.95, betas: tuple[float, float] = (0.9, 0.95),
                 weight_decay: float = 0.01, rank_fraction: float = 1.0, epsilon: float = 1e-8, algorithm: str = "dion",
                 rank_multiple_of: int = 1, power_iters: int = 1, **shared: Unpack[Shared]) -> None: ...

    def _check_group(self, group, where):
        if not 0 < group["rank_fraction"] <= 1:
            raise ValueError(f"{where}: rank_fraction is {group['rank_fraction']}, not above 0 and at most 1")
        if not (0 <= group["mu"] <= 1 and group["epsilon"] >= 0):
            raise ValueError(f"{where}: mu is {group['mu']} and epsilon {group['epsilon']}, not from 0, the first up to 1")
        for key, most, words in (("rank_multiple_of", math.inf, "of at least 1"), ("power_iters", 99, "from 1 to 99")):
            if group[key] % 1 != 0 or not 1 <= group[key] <= most:
                raise ValueError(f"{where}: {key} is {group[key]}, not a whole number {words}")
        if group["algorithm"] not in ("dion", "adamw"):
            raise ValueError(f"{where}: algorithm is {group['algorithm']!r}, neither 'dion' nor 'adamw': give parameters of "
                             "other algorithms to an optimizer of their own, such as altgrad.optim.Lion")

    def _rule_of(self, group):
        return _repeated(int(group["power_iters"]))

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
            state.copy_(_begun(len(state), self._rank_of(row, len(state))))

    def _begins_late(self, name, options):
        return False  # the momentum that is there is no average of AdamW's

    def _rank_of(self, row, size):
        group = self.param_groups[row.group]
        multiple = int(group["rank_multiple_of"])
        return min(size, multiple * math.ceil(group["rank_fraction"] * size / multiple))

    @torch.no_grad()
    def _rebuild(self, fit, settings):
        known = {id(row): row for row in self._rows.values()}  # kept: no new one gets an id of theirs
        super()._rebuild(fit, settings)
        for row in self._rows.values():
            if id(row) not in known and row.matrices and (q := self.state.get(row.owner, {}).get("q")) is not None:
                rank = self._rank_of(row, len(q))
                q[:, rank:] = 0
                missing = (q[:, :rank] == 0).all(0)
                if missing.any():
                    q[:, :rank] = torch.where(missing, _begun(len(q), rank).to(q.device)[:, :rank], q[:, :rank])

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class or of the authors' class, of which tensors are whole.

        Args:
            state_dict: What `state_dict()` gave.

        Raises:
            ValueError, TypeError: As Optimizer's. Nothing has changed then.
        """
        super().load_state_dict(_of_authors(state_dict))


def _begun(size, rank):
    """Q's normal numbers, and zeros in the place of columns that it has not."""
    found = torch.zeros((size, size), dtype=torch.float32, device="cpu")
    found[:, :rank] = torch.randn((size, rank), generator=torch.Generator().manual_seed(0), dtype=torch.float32, device="cpu")
    return found


def _of_authors(file):
    """A file of the authors' class in the words of this one; any other as it is."""
    states = file.get("state") if isinstance(file, dict) else None
    if not isinstance(states, dict) or not any([isinstance(held, dict) and "momentum" in held for held in states.values()]):
        return file
    groups, steps = [], {}
    for group in file["param_groups"]:
        steps |= dict.fromkeys(group["params"], float(group.get("step", 1)))
        own = {key: value for key, value in group.items() if key not in ("beta1", "beta2", "step", "oversample")}
        groups.append({**own, "betas": (group["beta1"], group["beta2"])} if "beta1" in group else own)
    return {**file, "param_groups": groups, "state": {place: _state_of_authors(held, steps[place]) for place, held in states.items()}}


def _state_of_authors(held, step):
    found = {"step": torch.tensor(step, dtype=torch.float32, device="cpu"), "exp_avg": held["momentum"]}
    if "variance" in held:
        found["exp_avg_sq"] = held["variance"]
    if "Q" in held:
        size, rank = held["Q"].shape
        found["q"] = held["Q"].new_zeros((size, size), dtype=torch.float32)
        found["q"][:, :rank] = held["Q"]
    return found


@cache
def _repeated(times):
    """The rule with so many power iterations."""
    rule = find_template("dion")
    if times == 1:
        return rule
    text = rule._words()
    begin, end = text.index(_BEGIN), text.index(_END)
    again = text[begin:end].replace("matmul(b, last)", "matmul(b, r)")
    name = f"dion_{times}"
    return Rule(name, text[:end].replace("rule dion(", f"rule {name}(") + again * (times - 1) + text[end:], f"<{name}>")
