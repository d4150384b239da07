"""Scion, whose layers have norms of their own, with the arguments and state keys of its authors."""

import math
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._binding.layout import is_dtensor
from .._rule import Rule
from ._keywords import Shared
from ._named import MAXIMIZE, Named, constructor, find_template
from ._owners import MatrixOwners
from ._shapes import matrices_of

__all__ = ["Scion"]

# What each norm is told beside, with the authors' defaults; and of how many dimensions its parameters are.
_NORMS: "dict[str, dict[str, Any]]" = {
    "Auto": {}, "Spectral": {"max": False, "normalized": True, "steps": 5}, "SpectralConv": {"steps": 5},
    "Sign": {"zero_init": False, "normalized": True}, "BiasRMS": {}, "ColNorm": {"normalized": False, "transpose": False},
    "RowNorm": {"normalized": True, "transpose": False}}
_DIMS = {"Spectral": (2,), "SpectralConv": (3, 4), "Sign": (2,), "ColNorm": (2,), "RowNorm": (2,)}


class Scion(MatrixOwners, Named):
    """Scion (Pethick et al., 2025): steps of one length in the norm of each layer, with the arguments of its authors.

        b = (1 - momentum) b + momentum g;  p = (1 - lr) p - lr scale u, or with `unconstrained` p - lr scale u
        Spectral: u = sqrt(rows / columns) NS(b), as Muon's;  Sign: u = sign(b) / columns
        SpectralConv: u = sqrt(outputs / inputs) / k^2 NS(b), of k x k filters as one matrix, or / k of filters in a row
        BiasRMS: u = b / (rms(b) + 1e-8);  ColNorm: the same of each column;  RowNorm: u = b / (sqrt(columns) |row of b| + 1e-8)

    `state[param]` holds `momentum_buffer` in the shape and dtype of the parameter where `momentum` is not 1. The formulas
    are in templates/scion.mlir.

    Args:
        momentum: The share of a gradient in the average; 1 keeps none.
        norm: "Spectral", for matrices, "SpectralConv", for filters, "Sign", as for the last layer, "ColNorm" and "RowNorm",
            as for the first one, "BiasRMS", for vectors, which takes the columns of matrices, or "Auto": Spectral,
            SpectralConv or BiasRMS by the dimensions. A group may say another one.
        norm_kwargs: Arguments of the norm: of Spectral `max`, whether the factor is at least 1, `normalized`, without which it
            is sqrt(rows), and `steps`; of SpectralConv `steps`; of Sign `normalized`, without which u is sign(b); of ColNorm
            and RowNorm `normalized`, which multiplies the lengths of ColNorm by the columns and those of RowNorm by their
            root, and `transpose`, which takes the transpose, as of an embedding.
        scale: A factor of the step: the radius of the ball in which parameters stay.
        unconstrained: Whether parameters stay in no ball, and nothing decays.
        eps: What is added to the norm of a matrix by which it is divided.
    """

    _only_with = {"buf": "momentum_on"}
    _count_key = None
    _decides = "norm", "norm_kwargs"
    _options = {"momentum_on": lambda g: g["momentum"] != 1, "unconstrained": lambda g: g["unconstrained"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 1.0, norm: str = "Auto",
                 norm_kwargs: dict[str, Any] | None = None, scale: float = 1.0, unconstrained: bool = False, eps: float = 1e-7,
                 maximize: bool = False, **shared: Unpack[Shared]) -> None: ...

    def _check_group(self, group, where):
        _check_norm(group, where)
        for index, param in enumerate(group["params"]):
            if param.dim() not in _DIMS.get(group["norm"], (param.dim(),)):
                raise ValueError(f"{where}, parameter {index} of shape {tuple(param.shape)} is no "
                                 f"{'stack of filters' if group['norm'] == 'SpectralConv' else 'matrix'}: give it a group with "
                                 "norm='BiasRMS'")

    def init(self) -> None:
        """Draws new parameters, as the authors' `init()`: of the length in its norm that a step has, times `scale`.

        Spectral and SpectralConv: orthogonal matrices, one for each place of a filter;  Sign: the two signs, or zeros with
        `zero_init`;  ColNorm and RowNorm: columns and rows of one length;  BiasRMS: zeros. Numbers are torch's global ones.

        Raises:
            RuntimeError: The optimizer has made a step, or a parameter is a DTensor: call it before the model is sharded.
        """
        for place, group in enumerate(self.param_groups):
            for index, param in enumerate(group["params"]):
                if self.state.get(param) or is_dtensor(param):
                    why = "is a DTensor: call it before the model is sharded" if is_dtensor(param) else "has made a step: call it before"
                    raise RuntimeError(f"altgrad.optim.Scion: init() draws new parameters, and parameter {index} of group {place} {why}")
        with torch.no_grad():
            for group in self.param_groups:
                for param in group["params"]:
                    param.copy_(_drawn(param, _norm_of(group, param), {**_NORMS[group["norm"]], **(group["norm_kwargs"] or {})}) * group["scale"])

    def _rule_of(self, group):
        return self._named("scion")

    def _named(self, name):
        params = [param for group in self.param_groups for param in group["params"]]
        sizes = sorted({tuple(param.shape[2:]) for param in params if param.dim() in (3, 4)})
        return Rule(name, _text(tuple(sizes)), "<templates/scion.mlir>")

    def _matrices_of(self, group, param):
        takes = param.dim() > 2 or _norm_of(group, param) == "Spectral"
        return matrices_of({"flatten": True, "split": None}, param) if takes else None

    def _group_rule_with(self, group_rule, matrices, param):
        group = next(group for group in self.param_groups if any([param is one for one in group["params"]]))
        _, options = group_rule
        norm, told = _norm_of(group, param), {**_NORMS[group["norm"]], **(group["norm_kwargs"] or {})}
        steps = (f"steps={told['steps']}",) if told.get("steps", 5) != 5 else ()
        if norm == "SpectralConv":
            return self._named(_filters(param.shape[2:])), options + steps
        if norm == "Spectral":
            longest = ("scale=original",) if told.get("max") and told["normalized"] else ()
            return self._named("scion"), options + steps + longest + ("unnormalized",) * (not told.get("normalized", True))
        unnormalized = ("unnormalized",) * (not told.get("normalized", True))
        if norm == "Sign":
            return self._named("scion_sign"), options + unnormalized
        if norm == "BiasRMS" and param.dim() < 2:
            return self._named("scion_bias"), options
        by_rows = told.get("transpose", False) != (norm == "RowNorm")
        return self._named("scion_rows" if by_rows else "scion_columns"), (
            options + (unnormalized if norm != "BiasRMS" else ("unnormalized",)) + ("of_columns",) * (norm != "RowNorm"))


def _check_norm(group, where):
    norm, told = group["norm"], group["norm_kwargs"]
    if norm not in _NORMS:
        raise ValueError(f"{where}: norm is {norm!r}, none of {', '.join(map(repr, _NORMS))}")
    for key, value in (told or {}).items():
        known = _NORMS[norm].get(key)
        if type(value) is not type(known) or key == "steps" and not 1 <= value <= 100:
            raise ValueError(f"{where}: norm_kwargs has {key}={value!r}, and {norm} takes "
                             + (", ".join([f"{name}={given}" for name, given in _NORMS[norm].items()]) or "none"))


def _norm_of(group, param):
    """The norm of a parameter, where its group says "Auto", too."""
    if group["norm"] != "Auto":
        return group["norm"]
    return {2: "Spectral", 3: "SpectralConv", 4: "SpectralConv"}.get(param.dim(), "BiasRMS")


def _drawn(param, norm, told):
    """New values in float64 for a parameter."""
    if norm == "BiasRMS" or told.get("zero_init"):
        return torch.zeros_like(param)
    new = torch.randn(param.shape, dtype=torch.float64, device=param.device)
    if norm == "Sign":
        return new.sign_() / (param.shape[1] if told["normalized"] else 1)
    if norm in ("ColNorm", "RowNorm"):
        new = new.mT if told["transpose"] else new
        new /= new.norm(dim=0 if norm == "ColNorm" else 1, keepdim=True)
        if norm == "ColNorm":
            new *= math.sqrt(new.shape[0]) / (new.shape[1] if told["normalized"] else 1)
        elif told["normalized"]:
            new /= math.sqrt(new.shape[1])
        return new.mT if told["transpose"] else new
    for filter in new.flatten(2).unbind(2) if param.dim() > 2 else [new]:
        torch.nn.init.orthogonal_(filter)
    scale = math.sqrt(new.shape[0] / (new.shape[1] if told.get("normalized", True) else 1))
    return new * (max(1.0, scale) if told.get("max") else scale) / (new.shape[2] ** (new.dim() - 2) if new.dim() > 2 else 1)


def _filters(sizes):
    """The rule of filters of these sizes."""
    return "scion_filters_" + "x".join(map(str, sizes))


@cache
def _text(kernels):
    """The template with a rule for each of these sizes of filters.

    The authors divide by k of filters in a row, and by k^2 of others; the matrix has as many columns for an input as a
    filter has weights.
    """
    words = find_template("scion")._words()
    begin = words.index("rule scion_filters(")
    end = words.index("rule scion_sign(")
    filters = words[begin:end]
    made = [filters.replace("scion_filters", _filters(sizes)).replace(
        "kernel = 9.0", f"kernel = {float(sizes[0] ** (2 * len(sizes)) / math.prod(sizes))}") for sizes in kernels]
    return words[:begin] + "".join(made) + words[end:]
