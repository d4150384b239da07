"""MARS, whose matrices are stepped in one of three ways, with the arguments and state keys of its authors."""

from dataclasses import replace
from functools import cache
from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._rule import Rule, joined
from ._entries import enter
from ._keywords import Shared
from ._named import BETAS, MAXIMIZE, Named, constructor, find_template
from ._owners import MatrixOwners
from ._shapes import matrices_of

__all__ = ["MARS"]

_MARS = "mars-adamw", "mars-lion", "mars-shampoo"


class MARS(MatrixOwners, Named):
    """MARS (Yuan et al., 2024): AdamW, Lion or Shampoo of gradients that are corrected by their change and bounded.

        c = g + gamma beta1 / (1 - beta1) (g - g of the step before), divided by its norm if that is over 1
        m = beta1 m + (1 - beta1) c;  v = beta2 v + (1 - beta2) c^2
        p -= lr (u + weight_decay p)
        mars-adamw: u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps);  mars-lion: u = sign(m)
        mars-shampoo: u = sqrt(max(1, rows / columns)) NS(m / (1 - beta1)), as Muon's, and vectors as mars-adamw

    Parameters that are no matrices are AdamW's unless `optimize_1d` is True. `state[param]` holds `exp_avg`, `last_grad`,
    of mars-adamw and of AdamW `exp_avg_sq` and with `amsgrad` `max_exp_avg_sq`, and with `is_approx=False` `previous_grad`,
    in the shape and dtype of the parameter, and but for matrices of mars-shampoo `step` (0-dim float32). Formulas:
    templates/mars.mlir and marsshampoo.mlir.

    Args:
        amsgrad: Whether the denominator is made of the largest second moment so far.
        gamma: How much of the gradient's change is added to it.
        is_approx: Whether the gradient of the step before stands for that of the weights before on the batch of this step. If
            not, call `update_previous_grad()` behind the backward pass of the next batch that goes before a step, and
            `update_last_grad()` behind the step.
        mars_type: "mars-adamw", "mars-lion" or "mars-shampoo": how matrices are stepped. A group may say another one.
        optimize_1d: Whether parameters that are no matrices have the same formula.
        lr_1d: The rate of AdamW's parameters, which changes with `lr`.
        betas_1d: AdamW's betas.
        weight_decay_1d: AdamW's decay.
    """

    _hypers = {**BETAS, "beta1_1d": ("betas_1d", 0), "beta2_1d": ("betas_1d", 1), "decay_1d": "weight_decay_1d"}
    _only_with = {"vmax": "amsgrad", "previous_grad": "exact"}
    _unchecked = _decides = "mars_type",
    _spelled = {"exact": "is_approx=False"}
    _computed = "lr_1d_factor",
    _entry_states = "previous_grad",
    _options = {"amsgrad": lambda g: g["amsgrad"], "plain": lambda g: not g["optimize_1d"],
                "exact": lambda g: not g["is_approx"], "lion": lambda g: g["mars_type"] == "mars-lion", **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 3e-3, betas: tuple[float, float] = (0.95, 0.99),
                 eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, gamma: float = 0.025,
                 is_approx: bool = True, mars_type: str = "mars-adamw", optimize_1d: bool = False, lr_1d: float = 3e-3,
                 betas_1d: tuple[float, float] = (0.9, 0.95), weight_decay_1d: float = 0.1, maximize: bool = False, **shared: Unpack[Shared]) -> None: ...

    def _start(self, given: dict[str, Any], explicit: set[str]) -> None:
        rate = float(given["lr"])
        super()._start(given | {"lr_1d_factor": given["lr_1d"] / rate if rate else 1.0}, explicit)

    def _check_group(self, group, where):
        if group["mars_type"] not in _MARS:
            raise ValueError(f"{where}: mars_type is {group['mars_type']!r}, none of {', '.join(map(repr, _MARS))}")

    def _rule_of(self, group):
        # An average is a part of the text, which is one for all groups.
        return super()._rule_of(group) if self._ema is None else _with_shampoo()

    def _is_shared(self):
        # The other types step a rank's part of a matrix.
        return any([group["mars_type"] == "mars-shampoo" for group in self.param_groups]) and super()._is_shared()

    def _matrices_of(self, group, param):
        takes = group["mars_type"] == "mars-shampoo" and param.dim() == 2
        return matrices_of({"flatten": True, "split": None}, param) if takes else None

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options = group_rule
        if matrices:
            rule, left_out = replace(rule, name="marsshampoo") if rule.text else find_template("marsshampoo"), ("amsgrad", "plain")
        elif param.dim() == 2 or "plain" not in options:
            left_out = ("plain", "amsgrad" if "lion" in options else "")
        else:
            left_out = ("lion",)
        return rule, tuple([option for option in options if option not in left_out])

    def _unstored(self, options):
        return super()._unstored(options) + ("last_grad",) * ("plain" in options and "exact" in options) + ("v", "vmax") * ("lion" in options)

    def update_previous_grad(self) -> None:
        """Keeps today's gradients, of the weights before a step on the batch of the next one. With `is_approx` nothing."""
        enter(self, "update_previous_grad")

    def update_last_grad(self) -> None:
        """Has the next step compare with the gradients that `update_previous_grad` kept. With `is_approx` nothing."""
        enter(self, "update_last_grad")

    def _entries_of(self, group):
        return {} if group["is_approx"] else super()._entries_of(group)


@cache
def _with_shampoo():
    return Rule("mars", joined([find_template(name)._words() for name in ("mars", "marsshampoo")]), "<templates/mars.mlir>")
