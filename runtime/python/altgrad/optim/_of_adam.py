"""Later forms of Adam and of SGD, with the arguments and state keys of their authors."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from ._keywords import Shared
from ._named import BETAS, MAXIMIZE, Named, constructor

__all__ = ["AdaBelief", "AdamAtan2", "Adan", "LARS", "StableAdamW"]


class Adan(Named):
    """Adan (Xie et al., 2022): Adam with an average of the gradients' differences, Nesterov's look ahead.

        d = g - g of the step before;  m = beta1 m + (1 - beta1) g;  a = beta2 a + (1 - beta2) d;  n = g + beta2 d
        v = beta3 v + (1 - beta3) n^2;  p -= lr (m / (1 - beta1^t) + beta2 a / (1 - beta2^t)) / (sqrt(v / (1 - beta3^t)) + eps)
        p /= 1 + lr weight_decay

    `state[param]` holds `step` (0-dim float32), `exp_avg`, `exp_avg_sq`, `exp_avg_diff` and `neg_pre_grad` in the shape and
    dtype of the parameter. The formula is in templates/adan.mlir.

    Args:
        no_prox: Whether parameters decay before the step, as AdamW's do, and not behind it.
    """

    _hypers = {**BETAS, "beta3": ("betas", 2)}
    _options = {"no_prox": lambda g: g["no_prox"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float, float] = (0.98, 0.92, 0.99),
                 eps: float = 1e-8, weight_decay: float = 0.0, no_prox: bool = False, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...


class AdaBelief(Named):
    """AdaBelief (Zhuang et al., 2020): Adam that divides by how far gradients are from their average.

        m = beta1 m + (1 - beta1) g;  s = beta2 s + (1 - beta2) (g - m)^2 + eps
        p -= lr m / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) + eps), or with `rectify` as RAdam goes

    The arguments are those of adabelief-pytorch 0.2. `state[param]` holds `step` (0-dim float32), `exp_avg`, `exp_avg_var`
    and, with `amsgrad`, `max_exp_avg_var` in the shape and dtype of the parameter. The formula is in
    templates/adabelief.mlir.

    Args:
        amsgrad: Whether the denominator is made of the largest s so far; without `rectify` alone.
        weight_decouple: Whether parameters decay by themselves instead of through the gradient.
        fixed_decay: Whether they then decay by weight_decay and not by lr * weight_decay.
        rectify: Whether steps are momentum's until s is trusted, and are then corrected.
        degenerated_to_sgd: Whether the steps until then are made at all.
    """

    _only_with = {"max_exp_avg_var": "amsgrad"}
    _options = {"amsgrad": lambda g: g["amsgrad"], "coupled": lambda g: not g["weight_decouple"],
                "fixed_decay": lambda g: g["fixed_decay"], "rectify": lambda g: g["rectify"],
                "degenerated": lambda g: g["degenerated_to_sgd"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-16, weight_decay: float = 0.0, amsgrad: bool = False, weight_decouple: bool = True,
                 fixed_decay: bool = False, rectify: bool = True, degenerated_to_sgd: bool = True, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...


class StableAdamW(Named):
    """StableAdamW (Wortsman et al., 2023): AdamW whose rate shrinks where gradients outgrow their average.

        m, v as AdamW's with the bias taken out;  r = lr / max(1, sqrt(mean(g^2 / max(v, eps^2))) / clip_thresh), of each tensor
        p -= r weight_decay p + r m / (sqrt(v) + eps)

    `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_avg_sq` in the shape and dtype of the parameter. The
    formula is in templates/stableadamw.mlir.

    Args:
        clip_thresh: The size of gradients, in terms of v, above which the rate shrinks.
    """

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, weight_decay: float = 0.2,
                 betas: tuple[float, float] = (0.9, 0.99), eps: float = 1e-8, clip_thresh: float = 1.0,
                 maximize: bool = False, **shared: Unpack[Shared]) -> None: ...


class LARS(Named):
    """LARS (You, Gitman and Ginsburg, 2017): SGD with a trust ratio for each tensor, with the arguments of timm's Lars.

        r = trust_coeff |p| / (|g| + weight_decay |p| + eps);  g = r (g + weight_decay p), and then SGD with momentum

    `state[param]` holds `step` (0-dim float32) and, with a momentum, `momentum_buffer` in the shape and dtype of the
    parameter. The formula is in templates/lars.mlir.

    Args:
        momentum: The decay rate of the momentum, from 0; 0 keeps no momentum.
        dampening: The share of a gradient that does not enter the momentum.
        nesterov: Whether the step looks ahead by Nesterov's formula.
        trust_coeff: A factor of the trust ratio.
        trust_clip: Whether the ratio, divided by the rate, is at most 1, as in LARC.
        always_adapt: Whether the ratio is used without a weight decay, too.
    """

    _only_with = {"buf": "momentum_on"}
    _options = {"momentum_on": lambda g: g["momentum"] != 0, "nesterov": lambda g: g["nesterov"],
                "trust_clip": lambda g: g["trust_clip"], "always": lambda g: g["always_adapt"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, momentum: float = 0.0, dampening: float = 0.0,
                 weight_decay: float = 0.0, nesterov: bool = False, trust_coeff: float = 0.001, eps: float = 1e-8,
                 trust_clip: bool = False, always_adapt: bool = False, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...


class AdamAtan2(Named):
    """Adam-atan2 (Everett et al., 2024): Adam without eps, with the arguments of adam-atan2-pytorch.

        m, v as Adam's;  p -= lr weight_decay p + lr a atan2(m / (1 - beta1^t), b sqrt(v / (1 - beta2^t)))

    `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_avg_sq` in the shape and dtype of the parameter. The
    formula is in templates/adamatan2.mlir.

    Args:
        cautious_factor: What an element's step is multiplied by where it goes against the gradient; 1 changes nothing.
        a: A factor of the step.
        b: A factor of the denominator.
    """

    _options = {"cautious": lambda g: g["cautious_factor"] < 1, **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, cautious_factor: float = 1.0, a: float = 1.27, b: float = 1.0,
                 maximize: bool = False, **shared: Unpack[Shared]) -> None: ...
