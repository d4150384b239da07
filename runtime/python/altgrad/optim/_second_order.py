"""Optimizers that divide by a diagonal of the Hessian, with the arguments and state keys of their authors."""

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._binding.offload import at_home
from ._keywords import Shared
from ._named import Named, constructor
from ._entries import enter

__all__ = ["AdaHessian", "SophiaG"]


class SophiaG(Named):
    """Sophia-G (Liu et al., 2023): momentum divided by a diagonal of the Hessian, and clamped.

        m = beta1 m + (1 - beta1) g;  p -= lr weight_decay p + lr sign(m) min(|m| / (rho bs hessian + 1e-15), 1)

    `update_hessian()` adds to the average of the diagonal, every 10 steps or so, behind a backward pass of a loss whose
    labels are drawn from the model: hessian = beta2 hessian + (1 - beta2) g^2. `state[param]` holds `step` (0-dim
    float32), `exp_avg` and `hessian` in the shape and dtype of the parameter. The formula is in templates/sophiag.mlir.

    Args:
        rho: A factor of the diagonal.
        bs: How many labels a gradient of `update_hessian` is the mean of: of a language model, its tokens.

    Example:
        >>> optimizer = altgrad.optim.SophiaG(model.parameters(), lr=1e-4, bs=480)
        >>> optimizer.update_hessian()  # behind the backward pass of drawn labels
        >>> optimizer.zero_grad()
    """

    _entry_names = "update_hessian",

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-4, betas: tuple[float, float] = (0.965, 0.99),
                 rho: float = 0.04, weight_decay: float = 0.1, bs: float = 5120, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...

    def update_hessian(self) -> None:
        """Adds the squares of today's gradients to the average that stands for the diagonal."""
        enter(self, "update_hessian")

    def _rebuild(self, fit, settings):
        for param in [param for group in self.param_groups for param in group["params"] if param.grad is not None]:
            if self.state[param].get("hessian") is None:
                with torch.inference_mode(False):
                    zeros = torch.zeros_like(param, memory_format=torch.preserve_format)
                    self.state[param]["hessian"] = at_home(self, zeros)
        super()._rebuild(fit, settings)


class AdaHessian(Named):
    """AdaHessian (Yao et al., 2021): Adam with a diagonal of the Hessian in the place of the gradient in v.

        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) hess^2
        p -= lr weight_decay p + lr m / (1 - beta1^t) / ((v / (1 - beta2^t))^(hessian_power / 2) + eps)

    Each step is given an estimate of the diagonal, such as Hutchinson's z H z for draws z of -1 and 1, which needs
    `loss.backward(create_graph=True)`. `state[param]` holds `step` (0-dim float32), `exp_avg` and
    `exp_hessian_diag_sq` in the shape and dtype of the parameter. The formula is in templates/adahessian.mlir.

    Args:
        hessian_power: 1 divides by the root of the average, and 0 by 1.

    Example:
        >>> optimizer = altgrad.optim.AdaHessian(model.parameters(), lr=0.1)
        >>> optimizer.step(inputs={"hess": [torch.ones_like(param) for param in model.parameters()]})
    """

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.1, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, hessian_power: float = 1.0, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...
