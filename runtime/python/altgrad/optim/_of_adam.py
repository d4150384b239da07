"""Later forms of Adam and of SGD, with the arguments and state keys of their authors."""

from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from ._entries import enter
from ._keywords import Shared
from ._named import BETAS, MAXIMIZE, Named, constructor

__all__ = ["AdaBelief", "AdamAtan2", "Adan", "LARS", "MARS", "StableAdamW"]


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


class MARS(Named):
    """MARS (Yuan et al., 2024): AdamW of gradients that are corrected by their change and bounded, for matrices.

        c = g + gamma beta1 / (1 - beta1) (g - g of the step before), divided by its norm if that is over 1
        m = beta1 m + (1 - beta1) c;  v = beta2 v + (1 - beta2) c^2
        p -= lr (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p)

    This is the authors' `mars_type="mars-adamw"`. Parameters that are no matrices are AdamW's unless `optimize_1d` is True.
    `state[param]` holds `step` (0-dim float32), `exp_avg`, `exp_avg_sq`, `last_grad`, with `amsgrad` `max_exp_avg_sq` and
    with `is_approx=False` `previous_grad`, in the shape and dtype of the parameter. The formula is in templates/mars.mlir.

    Args:
        amsgrad: Whether the denominator is made of the largest second moment so far.
        gamma: How much of the gradient's change is added to it.
        is_approx: Whether the gradient of the step before stands for that of the weights before on the batch of this step. If
            not, call `update_previous_grad()` behind the backward pass of the next batch that goes before a step, and
            `update_last_grad()` behind the step.
        optimize_1d: Whether parameters that are no matrices have the same formula.
        lr_1d: The rate of AdamW's parameters, which changes with `lr`.
        betas_1d: AdamW's betas.
        weight_decay_1d: AdamW's decay.
    """

    _hypers = {**BETAS, "beta1_1d": ("betas_1d", 0), "beta2_1d": ("betas_1d", 1), "decay_1d": "weight_decay_1d"}
    _only_with = {"vmax": "amsgrad", "previous_grad": "exact"}
    _computed = "lr_1d_factor",
    _entry_states = "previous_grad",
    _options = {"amsgrad": lambda g: g["amsgrad"], "plain": lambda g: not g["optimize_1d"],
                "exact": lambda g: not g["is_approx"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 3e-3, betas: tuple[float, float] = (0.95, 0.99),
                 eps: float = 1e-8, weight_decay: float = 0.0, amsgrad: bool = False, gamma: float = 0.025,
                 is_approx: bool = True, optimize_1d: bool = False, lr_1d: float = 3e-3, betas_1d: tuple[float, float] = (0.9, 0.95),
                 weight_decay_1d: float = 0.1, maximize: bool = False, **shared: Unpack[Shared]) -> None: ...

    def _start(self, given: dict[str, Any], explicit: set[str]) -> None:
        rate = float(given["lr"])
        super()._start(given | {"lr_1d_factor": given["lr_1d"] / rate if rate else 1.0}, explicit)

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options = group_rule
        return rule, tuple([option for option in options if option != "plain" or param.dim() != 2])

    def _unstored(self, options):
        return super()._unstored(options) + ("last_grad",) * ("plain" in options and "exact" in options)

    def update_previous_grad(self) -> None:
        """Keeps today's gradients, of the weights before a step on the batch of the next one. With `is_approx` nothing."""
        enter(self, "update_previous_grad")

    def update_last_grad(self) -> None:
        """Has the next step compare with the gradients that `update_previous_grad` kept. With `is_approx` nothing."""
        enter(self, "update_last_grad")

    def _entries_of(self, group):
        return {} if group["is_approx"] else super()._entries_of(group)


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
