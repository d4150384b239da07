"""Optimizers that torch.optim does not have, with the arguments and state keys of their authors."""

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from ._keywords import Shared
from ._named import BETAS, MAXIMIZE, Named, constructor

__all__ = ["ADOPT", "AdEMAMix", "LAMB", "Lion", "ManifoldAdamW"]


class Lion(Named):
    """Lion (Chen et al., 2023): the sign of an interpolated momentum.

        p -= lr weight_decay p + lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g

    `state[param]` holds `exp_avg` in the shape and dtype of the parameter. The formula is in
    templates/lion.mlir.

    Example:
        >>> optimizer = altgrad.optim.Lion(model.parameters(), lr=1e-4, weight_decay=0.1)
    """


    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-4, betas: tuple[float, float] = (0.9, 0.99),
                 weight_decay: float = 0.0, maximize: bool = False, **shared: Unpack[Shared]) -> None: ...


class ManifoldAdamW(Named):
    """AdamW whose gradients are measured in steps of a number format's grid (ParkerWilliams/altgrad).

        g *= min(S, max_stiffness), where S = 2^(floor(log2 |p|) - mantissa_bits)

    and then AdamW's step. S is the distance from a parameter to the next number of a format with
    `mantissa_bits`; it is 1 where a parameter is 0 or NaN, and 1/128 everywhere with 7
    mantissa bits. `state[param]` holds `step` (0-dim float32), `exp_avg`, `exp_avg_sq` and, with
    `bit_position=True`, `bit_position`, each in the shape and dtype of the parameter (`bit_position` in float32).
    The formula is in templates/manifoldadamw.mlir.

    Args:
        mantissa_bits: The mantissa bits of the format, a whole number of 0 to 23.
        max_stiffness: The largest factor of a gradient.
        manifold_aware: Whether gradients are multiplied by S; False is plain AdamW.
        bit_position: Whether `state` counts how far each parameter has moved, in distances between
            neighbours in float32.

    Example:
        >>> optimizer = altgrad.optim.ManifoldAdamW(model.parameters(), lr=1e-3, mantissa_bits=3)
    """

    _only_with, _spelled = {"position": "positions"}, {"positions": "bit_position"}
    _options = {"plain": lambda g: not g["manifold_aware"], "positions": lambda g: g["bit_position"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.01, mantissa_bits: int = 2, max_stiffness: float = 1e6,
                 manifold_aware: bool = True, bit_position: bool = False, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...


class LAMB(Named):
    """LAMB (You et al., 2020): Adam with a trust ratio per tensor, with the arguments of apex's FusedLAMB.

        u = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p;  p -= lr |p| / |u| u

    apex clips the global norm by 1 unless told otherwise; this class clips only with
    `max_grad_norm`, and by torch's formula. `state[param]` holds `step` (0-dim float32), `exp_avg`
    and `exp_avg_sq` in the shape and dtype of the parameter. The formula is in templates/lamb.mlir.

    Args:
        adam_w_mode: Whether weight decay joins the update; with False it is added to the gradient.
        grad_averaging: Whether a gradient enters the first moment times 1 - beta1; with False it enters as it is.
        use_nvlamb: Whether the trust ratio is used for parameters without weight decay, too.

    Example:
        >>> optimizer = altgrad.optim.LAMB(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    """

    _options = {"l2": lambda g: not g["adam_w_mode"], "nvlamb": lambda g: g["use_nvlamb"],
                "no_grad_averaging": lambda g: not g["grad_averaging"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-6, weight_decay: float = 0.01, adam_w_mode: bool = True,
                 grad_averaging: bool = True, use_nvlamb: bool = False, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...


class ADOPT(Named):
    """ADOPT (Taniguchi et al., 2024): Adam that converges with any beta2.

        n = clamp(g / max(sqrt(v), eps), +-(t - 1)^(1/4));  m += (1 - beta1) (n - m)
        p -= lr m;  v = beta2 v + (1 - beta2) g^2

    The first step only sets v = g^2. `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_avg_sq`
    in the shape and dtype of the parameter. The formula is in templates/adopt.mlir.

    Args:
        decouple: Whether parameters decay by lr * weight_decay instead of through the gradient.
        clip: Whether n is clamped, as in the authors' later version.

    Example:
        >>> optimizer = altgrad.optim.ADOPT(model.parameters(), lr=1e-3)
    """

    _options = {"no_clip": lambda g: not g["clip"], "decoupled": lambda g: g["decouple"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.9999),
                 eps: float = 1e-6, weight_decay: float = 0.0, decouple: bool = False, clip: bool = True,
                 maximize: bool = False, **shared: Unpack[Shared]) -> None: ...


class AdEMAMix(Named):
    """AdEMAMix (Pagliardini, Ablin and Grangier, 2024): Adam with a second, slow average.

        fast = beta1 fast + (1 - beta1) g;  slow = beta3 slow + (1 - beta3) g;  v = beta2 v + (1 - beta2) g^2
        u = (fast / (1 - beta1^t) + alpha slow) / (sqrt(v / (1 - beta2^t)) + eps);  p -= lr (u + weight_decay p)

    `state[param]` holds `step` (0-dim float32), `exp_avg_fast`, `exp_avg_slow` and `exp_avg_sq` in the
    shape and dtype of the parameter. The formula is in templates/ademamix.mlir.

    Args:
        alpha: The weight of the slow average.
        beta3_warmup: Over how many steps beta3 grows from beta1; None begins with beta3.
        alpha_warmup: Over how many steps alpha grows from 0; None begins with alpha.

    Example:
        >>> optimizer = altgrad.optim.AdEMAMix(model.parameters(), lr=1e-3, alpha=5.0)
    """

    _hypers = {**BETAS, "beta3": ("betas", 2)}
    _absent = ("beta3_warmup", "alpha_warmup")

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float, float, float] = (0.9, 0.999, 0.9999), alpha: float = 2.0,
                 beta3_warmup: int | None = None, alpha_warmup: int | None = None, eps: float = 1e-8,
                 weight_decay: float = 0.0, maximize: bool = False, **shared: Unpack[Shared]) -> None: ...
