"""Optimizers that find their learning rate, with the arguments and state keys of their authors."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from ._keywords import Shared
from ._named import Named, constructor

__all__ = ["DAdaptAdam", "Prodigy"]


class _Distance(Named):
    """What classes have in common that find `d`, the distance to go, from d0."""

    def _start(self, given: dict[str, Any], explicit: set[str]) -> None:
        if not given["d0"] > 0.0:
            raise ValueError(f"Invalid d0 value: {given['d0']}")
        super()._start(given, explicit)
        self.param_groups[0].update({name: float(given["d0"]) for name in self._step_states if name in ("d", "d_max")})


class Prodigy(_Distance):
    """Prodigy (Mishchenko and Defazio, 2023): Adam that finds its learning rate, with the arguments of prodigyopt.

        num = beta3 num + (d / d0) d lr <g, p0 - p>;  s = beta3 s + (d / d0) d lr g;  d = max(d, d_coef num / |s|_1)
        m = beta1 m + d (1 - beta1) g;  v = beta2 v + d^2 (1 - beta2) g^2;  p -= d lr m / (sqrt(v) + d eps)

    `d` is one number for all parameters, so `betas`, `beta3`, `d0`, `d_coef` and `growth_rate` are the same in all groups.
    `state[param]` holds `step` (0-dim float32), `exp_avg`, `exp_avg_sq`, `s` and `p0` in the shape and dtype of the
    parameter. The first param_group holds `d`, `d_max`, `d_numerator` and `k`, the number of steps. Of several devices or ranks
    `d` is the same on all. The formula is in templates/prodigy.mlir.

    Args:
        lr: A factor of the rate that is found; schedulers may change it from 1.
        beta3: The decay rate of the sums that `d` is found from; None is the root of the second of `betas`.
        decouple: Whether parameters decay by d lr weight_decay instead of through the gradient.
        use_bias_correction: Whether the rate is multiplied by Adam's bias correction.
        safeguard_warmup: Whether the denominator of `d` leaves `lr` out, for rates that begin at 0.
        d0: What `d` begins as.
        d_coef: A factor of the estimates of `d`.
        growth_rate: The largest factor by which `d` grows in a step.

    Example:
        >>> optimizer = altgrad.optim.Prodigy(model.parameters(), weight_decay=0.01)
    """

    _absent = "beta3",
    _options = {"coupled": lambda g: not g["decouple"], "bias_correction": lambda g: g["use_bias_correction"],
                "safeguard_warmup": lambda g: g["safeguard_warmup"]}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, betas: tuple[float, float] = (0.9, 0.999),
                 beta3: float | None = None, eps: float = 1e-8, weight_decay: float = 0.0, decouple: bool = True,
                 use_bias_correction: bool = False, safeguard_warmup: bool = False, d0: float = 1e-6, d_coef: float = 1.0,
                 growth_rate: float = float("inf"), **shared: Unpack[Shared]) -> None: ...


class DAdaptAdam(_Distance):
    """D-Adapt Adam (Defazio and Mishchenko, 2023): Adam that finds its rate, with the arguments of dadaptation.

        num = b num + (1 - b) d lr <g, s / (sqrt(v) + eps)>, where b = sqrt(beta2), s and v from the step before
        m = beta1 m + (1 - beta1) d lr g;  v = beta2 v + (1 - beta2) g^2;  p -= m / (sqrt(v) + eps)
        s = b s + (1 - b) d lr g;  d = max(d, num / ((1 - b) |s|_1)), which the next step takes

    `d` is one number for all parameters, so `betas` and `growth_rate` are the same in all groups, and so is `lr`.
    `state[param]` holds `step` (0-dim float32), `exp_avg`, `exp_avg_sq` and `s` in the shape and dtype of the parameter.
    The first param_group holds `d`, `numerator_weighted` and `k`, the number of steps. Of several devices or ranks `d` is the
    same on all. The formula is in templates/dadaptadam.mlir.

    Args:
        lr: A factor of the rate that is found; schedulers may change it from 1.
        decouple: Whether parameters decay by d lr weight_decay instead of through the gradient.
        use_bias_correction: Whether the rate is multiplied by Adam's bias correction.
        d0: What `d` begins as.
        growth_rate: The largest factor by which `d` grows in a step.

    Example:
        >>> optimizer = altgrad.optim.DAdaptAdam(model.parameters(), weight_decay=0.01)
    """

    _options = {"decoupled": lambda g: g["decouple"], "bias_correction": lambda g: g["use_bias_correction"]}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, decouple: bool = False, use_bias_correction: bool = False,
                 d0: float = 1e-6, growth_rate: float = float("inf"), **shared: Unpack[Shared]) -> None: ...
