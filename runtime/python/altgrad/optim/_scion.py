"""Scion, whose layers have norms of their own, with the arguments and state keys of its authors."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._rule import Rule
from ._keywords import Shared
from ._named import MAXIMIZE, Named, constructor, find_template
from ._shapes import matrices_of

__all__ = ["Scion"]

# The rule of each norm; that of "Auto" is chosen for each parameter.
_RULES = {"Spectral": "scion", "Sign": "scion_sign", "BiasRMS": "scion_bias"}


class Scion(Named):
    """Scion (Pethick et al., 2025): steps of one length in the norm of each layer, with the arguments of its authors.

        b = (1 - momentum) b + momentum g;  p = (1 - lr) p - lr scale u, or with `unconstrained` p - lr scale u
        Spectral: u = sqrt(rows / columns) NS(b), as Muon's;  Sign: u = sign(b) / columns;  BiasRMS: u = b / (rms(b) + 1e-8)

    `state[param]` holds `momentum_buffer` in the shape and dtype of the parameter where `momentum` is not 1. The formulas
    are in templates/scion.mlir.

    Args:
        momentum: The share of a gradient in the average; 1 keeps none.
        norm: "Spectral", for matrices, "Sign", as for the last layer, "BiasRMS", for vectors, or "Auto": Spectral for
            matrices and BiasRMS for others. A group may say another one.
        scale: A factor of the step: the radius of the ball in which parameters stay.
        unconstrained: Whether parameters stay in no ball, and nothing decays.
        eps: What is added to the norm of a matrix by which it is divided.
    """

    _only_with = {"buf": "momentum_on"}
    _count_key = None
    _options = {"momentum_on": lambda g: g["momentum"] != 1, "unconstrained": lambda g: g["unconstrained"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 1.0, norm: str = "Auto",
                 scale: float = 1.0, unconstrained: bool = False, eps: float = 1e-7, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, whose norm may be another one.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults.

        Raises:
            ValueError: There is no such norm, or a parameter is no matrix and its group's norm is one of matrices.
        """
        super().add_param_group(param_group)
        group, place = self.param_groups[-1], len(self.param_groups) - 1
        where = f"altgrad.optim.Scion, group {place}"
        try:
            if group["norm"] not in {"Auto", *_RULES}:
                raise ValueError(f"{where}: norm is {group['norm']!r}, none of 'Auto', {', '.join(map(repr, _RULES))}")
            for index, param in enumerate(group["params"]):
                if param.dim() != 2 and group["norm"] in ("Spectral", "Sign"):
                    raise ValueError(f"{where}, parameter {index} of shape {tuple(param.shape)} is no matrix: give it a group with "
                                     "norm='BiasRMS'")
        except ValueError:
            del self.param_groups[place]
            raise

    def _rule_of(self, group):
        name = _RULES.get(group["norm"], "scion")
        return Rule(name, _text(), "<templates/scion.mlir>")

    def _matrices_of(self, group, param):
        takes = group["norm"] == "Spectral" or group["norm"] == "Auto" and param.dim() == 2
        return matrices_of({"flatten": None, "split": None}, param) if takes else None

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options = group_rule
        if rule.name == "scion" and matrices is None:  # a vector of "Auto"
            return Rule("scion_bias", rule.text, rule.origin), options
        return rule, options + ("shape=transposed",) * bool(matrices and matrices.turned)


def _text():
    template = find_template("scion")
    return template._words()
