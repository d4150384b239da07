"""Optimizers that divide by a diagonal of the Hessian, with the arguments and state keys of their authors."""

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

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
        bs: How many labels a gradient of `update_hessian` is the mean of: of a language model, its tokens. A group may say
            another number, and `step(bs=)` one for all groups of that step.

    Example:
        >>> optimizer = altgrad.optim.SophiaG(model.parameters(), lr=1e-4, bs=480)
        >>> optimizer.update_hessian()  # behind the backward pass of drawn labels
        >>> optimizer.zero_grad()
    """

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-4, betas: tuple[float, float] = (0.965, 0.99),
                 rho: float = 0.04, weight_decay: float = 0.1, bs: float = 5120, maximize: bool = False,
                 **shared: Unpack[Shared]) -> None: ...

    def step(self, closure: Callable[[], Any] | None = None, *, bs: float | None = None, **given: Any) -> Any:
        """Performs a step.

        Args:
            closure: As of every optimizer.
            bs: The number of labels, for this step, in the place of that of the groups.
            given: What every optimizer's step takes.

        Returns:
            What `closure` returns, or None.
        """
        held = [group["bs"] for group in self.param_groups]
        try:
            for group in self.param_groups if bs is not None else ():
                group["bs"] = bs
            return super().step(closure, **given)
        finally:
            for group, own in zip(self.param_groups, held):
                group["bs"] = own

    step.hooked = step._wrapped_by_lr_sched = True  # the base's calls the hooks

    def update_hessian(self) -> None:
        """Adds the squares of today's gradients to the average that stands for the diagonal."""
        enter(self, "update_hessian")


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
