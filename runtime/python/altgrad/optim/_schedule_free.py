"""Schedule-Free optimizers, whose weights for gradients are not those that are used."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from ._keywords import Shared
from ._named import Named, constructor
from ._entries import enter

__all__ = ["AdamWScheduleFree", "SGDScheduleFree"]


class _ScheduleFree(Named):
    """What both have in common: two views of the weights.

    Args:
        warmup_steps: Over how many steps the rate grows from 0.
        r: The weights in the average are those of step t to the power r.
        weight_lr_power: They are also the largest rate so far to this power.
    """

    def _start(self, given: dict[str, Any], explicit: set[str]) -> None:
        super()._start(given | {"train_mode": True}, explicit)

    def eval(self) -> None:
        """Makes the parameters the averaged weights, to measure and to save them; the next step wants `train()` before it."""
        self._turn("eval", False)

    def train(self) -> None:
        """Makes the parameters those at which gradients are taken, as they are at first."""
        self._turn("train", True)

    def _turn(self, entry, trains):
        if self.param_groups[0]["train_mode"] != trains:
            enter(self, entry)
            for group in self.param_groups:
                group["train_mode"] = trains

    def _step(self, *given):
        if not self.param_groups[0]["train_mode"]:
            raise RuntimeError(f"altgrad.optim.{type(self).__name__}: step() after eval(): call train() first")
        return super()._step(*given)


class AdamWScheduleFree(_ScheduleFree):
    """Schedule-Free AdamW (Defazio et al., 2024), with the arguments of schedulefree.

        v = beta2 v + (1 - beta2) g^2;  n = g / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay y
        z -= lr n;  x = (1 - c) x + c z, where c is lr^2 / the sum of all lr^2;  y = beta1 x + (1 - beta1) z

    Parameters are y, at which gradients are taken; `eval()` makes them x, and `train()` y again. `state[param]` holds `step`
    (0-dim float32), `weight_sum` and `lr_max` (0-dim float64), `z` and `exp_avg_sq` in the shape and dtype of the
    parameter; x is computed. The formula is in templates/adamwschedulefree.mlir.

    Example:
        >>> optimizer = altgrad.optim.AdamWScheduleFree(model.parameters(), lr=2.5e-3)
        >>> optimizer.eval()
        >>> optimizer.train()
    """

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 2.5e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, warmup_steps: int = 0, r: float = 0.0,
                 weight_lr_power: float = 2.0, maximize: bool = False, **shared: Unpack[Shared]) -> None: ...


class SGDScheduleFree(_ScheduleFree):
    """Schedule-Free SGD (Defazio et al., 2024), with the arguments of schedulefree.

        n = g + weight_decay y;  z -= lr n;  x = (1 - c) x + c z, where c is lr^2 / the sum of all lr^2
        y = momentum x + (1 - momentum) z

    Parameters are y, at which gradients are taken; `eval()` makes them x, and `train()` y again. `state[param]` holds `step`
    (0-dim float32), `weight_sum` and `lr_max` (0-dim float64), and `z` in the shape and dtype of the parameter. The
    formula is in templates/sgdschedulefree.mlir.

    Args:
        momentum: The share of x in y, above 0 and below 1.

    Example:
        >>> optimizer = altgrad.optim.SGDScheduleFree(model.parameters(), lr=1.0)
        >>> optimizer.eval()
        >>> optimizer.train()
    """

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, momentum: float = 0.9, weight_decay: float = 0.0,
                 warmup_steps: int = 0, r: float = 0.0, weight_lr_power: float = 2.0, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...
