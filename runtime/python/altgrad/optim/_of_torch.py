"""The optimizers that torch.optim has, too: same arguments, same param_groups, same keys of `state`."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT, _get_scalar_dtype
from typing_extensions import Unpack

from .._binding.layout import CODES, PARAM_DTYPES
from .._binding.offload import at_home
from .._core import dtype_of
from .._storage.blocks import has_blocks
from .._storage.word import word_of
from ._keywords import OfTorch
from ._named import MAXIMIZE, Named, constructor, find_template

__all__ = ["Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"]


class Adam(Named):
    """Adam (Kingma and Ba, 2015) with the arguments, param_groups and state keys of torch.optim.Adam.

        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
        p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    Weight decay is added to the gradient, or with `decoupled_weight_decay` taken from the parameter.
    `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_avg_sq` in the shape and
    dtype of the parameter, and with `amsgrad` `max_exp_avg_sq`. A checkpoint of torch.optim.Adam loads, and
    torch loads ours. The formula is in templates/adam.mlir.

    Args:
        amsgrad: Whether the denominator is made of the largest second moment so far (Reddi et al., 2018).

    Example:
        >>> optimizer = altgrad.optim.Adam(model.parameters(), lr=1e-3, max_grad_norm=1.0)
        >>> loss.backward()
        >>> optimizer.step()
        >>> optimizer.grad_norm  # of all gradients, before clipping
    """

    _reference = torch.optim.Adam
    _only_with = {"vmax": "amsgrad"}
    _options = {"amsgrad": lambda g: g["amsgrad"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, foreach: bool | None = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, decoupled_weight_decay: bool = False,
                 **shared: Unpack[OfTorch]) -> None: ...

    def _rule_of(self, group):
        return find_template("adamw" if group["decoupled_weight_decay"] else "adam")


class AdamW(Adam):
    """AdamW (Loshchilov and Hutter, 2019) with the arguments, param_groups and state keys of torch.optim.AdamW.

        p -= lr weight_decay p;  m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g^2
        p -= lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_avg_sq` in the shape and
    dtype of the parameter, and with `amsgrad` `max_exp_avg_sq`. A checkpoint of torch.optim.AdamW loads, and
    torch loads ours. The formula is in templates/adamw.mlir.
    """

    _reference = torch.optim.AdamW
    # In every group, but no argument.
    _older = {"decoupled_weight_decay": True}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3,
                 betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, capturable: bool = False, differentiable: bool = False,
                 fused: bool | None = None, **shared: Unpack[OfTorch]) -> None: ...

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class SGD(Named):
    """Stochastic gradient descent with momentum, with the arguments and state keys of torch.optim.SGD.

        b = momentum b + (1 - dampening) g, in the first step b = g;  p -= lr b

    `state[param]` holds `momentum_buffer` in the shape and dtype of the parameter where `momentum` is not
    0. The formula is in templates/sgd.mlir.

    Args:
        momentum: The decay rate of the momentum, from 0; 0 keeps no state.
        dampening: The share of a gradient that does not enter the momentum.
        nesterov: Whether the step looks ahead by Nesterov's formula; it needs a momentum and no dampening.

    Example:
        >>> optimizer = altgrad.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    """

    _reference = torch.optim.SGD
    _only_with = {"buf": "momentum_on"}
    # torch stores no step count: the first step is the one without a buffer.
    _count_key = None
    _takes_sparse = True
    _options = {"momentum_on": lambda g: g["momentum"] != 0,
                "nesterov": lambda g: g["nesterov"], **MAXIMIZE}

    def _first_differs(self, group):
        return group["momentum"] != 0 and group["dampening"] != 0

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float | Tensor = 0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: bool | None = None, differentiable: bool = False, fused: bool | None = None,
                 **shared: Unpack[OfTorch]) -> None: ...


class Adagrad(Named):
    """Adagrad (Duchi et al., 2011) with the arguments and state keys of torch.optim.Adagrad.

        s += g^2;  p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(s) + eps)

    `state[param]` holds `step` (0-dim float32) and `sum` in the shape and dtype of the parameter. As in
    torch the constructor makes them; where a `storage` names `sum` or `states`, the first step does.
    The formula is in templates/adagrad.mlir.

    Args:
        lr_decay: How fast the learning rate falls: it is divided by 1 + (t - 1) lr_decay in step t.
        initial_accumulator_value: What `sum` begins with, from 0. It has to be 0 where `sum` is stored with
            scales or as codes of a format that torch has no dtype for.

    Example:
        >>> optimizer = altgrad.optim.Adagrad(model.parameters(), lr=0.01)
    """

    _reference = torch.optim.Adagrad
    _takes_sparse = True

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: bool | None = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: bool | None = None,
                 **shared: Unpack[OfTorch]) -> None: ...

    def _start(self, given, explicit):
        super()._start(given, explicit)
        for group in self.param_groups:
            for param in group["params"]:
                words = self._storage_of(group)
                if words.get("sum") or words.get("states"):
                    self._check_first(param, group)
                else:
                    made = _accumulator(param, group)
                    self.state[param] = {**made, "sum": at_home(self, made["sum"]) if param.dtype in PARAM_DTYPES else made["sum"]}

    def _check_first(self, param, group):
        """Raises where a sum would begin with a number that its codes do not have as their own."""
        words = self._storage_of(group)
        word = words.get("sum") or words.get("states") or "f32"
        word = "f32" if word_of(word).block > 1 and not has_blocks(word, param.numel()) else word
        first = group["initial_accumulator_value"]
        if first and (word_of(word).block > 1 or dtype_of(word_of(word).format) in CODES):
            raise ValueError(f"initial_accumulator_value={first}, but a sum that is stored as {word} "
                             "begins with 0: leave the value 0, or store the sum as f32, bf16 or f16")

    def _before_torch(self, param, group):
        if not self.state.get(param):
            self.state[param] = _accumulator(param, group)

    def share_memory(self) -> None:
        """Moves the states to shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                for tensor in self.state[param].values():
                    tensor.share_memory_()

    def _begin_state(self, row, key, state):
        group = self.param_groups[row.group]
        self._check_first(row.owner, group)
        state.fill_(group["initial_accumulator_value"])


def _accumulator(param, group):
    first, by_kernel = group["initial_accumulator_value"], param.dtype in PARAM_DTYPES
    count = torch.float32 if by_kernel else _get_scalar_dtype(is_fused=group["fused"])
    return {"step": torch.tensor(0.0, dtype=count, device="cpu"),
            "sum": torch.full_like(param, complex(first, first) if param.is_complex() else first,
                                   memory_format=torch.preserve_format)}


class RMSprop(Named):
    """RMSprop (Tieleman and Hinton, 2012) with the arguments and state keys of torch.optim.RMSprop.

        v = alpha v + (1 - alpha) g^2;  p -= lr g / (sqrt(v) + eps)

    `state[param]` holds `step` (0-dim float32) and `square_avg` in the shape and dtype of the parameter, with
    `centered` also `grad_avg`, with a momentum also `momentum_buffer`. The formula is in
    templates/rmsprop.mlir.

    Args:
        alpha: The decay rate of the average of squares.
        momentum: The decay rate of the momentum, from 0; 0 keeps no momentum.
        centered: Whether the squares are taken around the average of the gradients.

    Example:
        >>> optimizer = altgrad.optim.RMSprop(model.parameters(), lr=0.01)
    """

    _reference = torch.optim.RMSprop
    _only_with = {"mean": "centered", "buf": "momentum_on"}
    _options = {"centered": lambda g: g["centered"],
                "momentum_on": lambda g: g["momentum"] > 0, **MAXIMIZE}
    # Whether or not the rule counts, checkpoints have torch's count.
    _always_counts = True

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
                 **shared: Unpack[OfTorch]) -> None: ...


class NAdam(Named):
    """NAdam (Dozat, 2016) with the arguments and state keys of torch.optim.NAdam: Adam with Nesterov's momentum.

        mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2);  m, v as Adam's;  P = the product of mu_1, ... mu_t
        p -= lr ((1 - mu_t) g / (1 - P) + mu_(t+1) m / (1 - P mu_(t+1))) / (sqrt(v / (1 - beta2^t)) + eps)

    `state[param]` holds `step` (0-dim float32), `mu_product` (0-dim float64), `exp_avg` and `exp_avg_sq` in the shape
    and dtype of the parameter. The formula is in templates/nadam.mlir.

    Args:
        momentum_decay: How fast the momentum grows to beta1.
    """

    _reference = torch.optim.NAdam
    _options = {"decoupled": lambda g: g["decoupled_weight_decay"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, momentum_decay: float = 4e-3,
                 decoupled_weight_decay: bool = False, *, foreach: bool | None = None, maximize: bool = False,
                 capturable: bool = False, differentiable: bool = False, **shared: Unpack[OfTorch]) -> None: ...


class RAdam(Named):
    """RAdam (Liu et al., 2020) with the arguments and state keys of torch.optim.RAdam: no division before v is trusted.

        rho = r - 2 t beta2^t / (1 - beta2^t), where r = 2 / (1 - beta2) - 1;  u = m / (1 - beta1^t), with Adam's m and v
        p -= lr u, or for rho > 5 lr u sqrt((rho - 4) (rho - 2) r / ((r - 4) (r - 2) rho)) sqrt(1 - beta2^t) / (sqrt(v) + eps)

    `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_avg_sq` in the shape and dtype of the parameter.
    The formula is in templates/radam.mlir.
    """

    _reference = torch.optim.RAdam
    _options = {"decoupled": lambda g: g["decoupled_weight_decay"], **MAXIMIZE}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, decoupled_weight_decay: bool = False, *,
                 foreach: bool | None = None, maximize: bool = False, capturable: bool = False,
                 differentiable: bool = False, **shared: Unpack[OfTorch]) -> None: ...


class Adamax(Named):
    """Adamax (Kingma and Ba, 2015) with the arguments and state keys of torch.optim.Adamax.

        m = beta1 m + (1 - beta1) g;  u = max(beta2 u, |g| + eps);  p -= lr m / ((1 - beta1^t) u)

    `state[param]` holds `step` (0-dim float32), `exp_avg` and `exp_inf` in the shape and dtype of the parameter. The
    formula is in templates/adamax.mlir.
    """

    _reference = torch.optim.Adamax

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 2e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, foreach: bool | None = None, *, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False, **shared: Unpack[OfTorch]) -> None: ...


class Adadelta(Named):
    """Adadelta (Zeiler, 2012) with the arguments and state keys of torch.optim.Adadelta: steps as long as the last ones.

        s = rho s + (1 - rho) g^2;  d = sqrt(a + eps) / sqrt(s + eps) g;  a = rho a + (1 - rho) d^2;  p -= lr d

    `state[param]` holds `step` (0-dim float32), `square_avg` and `acc_delta` in the shape and dtype of the parameter. The
    formula is in templates/adadelta.mlir.

    Args:
        rho: The decay rate of both averages, from 0 to 1.
    """

    _reference = torch.optim.Adadelta

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1.0, rho: float = 0.9, eps: float = 1e-6,
                 weight_decay: float = 0, foreach: bool | None = None, *, capturable: bool = False,
                 maximize: bool = False, differentiable: bool = False, **shared: Unpack[OfTorch]) -> None: ...


class Rprop(Named):
    """Rprop (Riedmiller and Braun, 1993) with the arguments and state keys of torch.optim.Rprop.

        s = clamp(s eta, step_sizes), where eta is the larger of `etas` if g has its last sign, the smaller if another
        p -= s sign(g), but nothing where the sign has changed

    `state[param]` holds `step` (0-dim float32), `prev` and `step_size` in the shape and dtype of the parameter. The
    formula is in templates/rprop.mlir.

    Args:
        lr: What the sizes of steps begin as.
        etas: By how much sizes shrink and grow.
        step_sizes: The least and the largest size.
    """

    _reference = torch.optim.Rprop
    _hypers = {"eta1": ("etas", 0), "eta2": ("etas", 1), "least": ("step_sizes", 0), "most": ("step_sizes", 1)}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, capturable: bool = False, foreach: bool | None = None,
                 maximize: bool = False, differentiable: bool = False, **shared: Unpack[OfTorch]) -> None: ...


class ASGD(Named):
    """ASGD (Polyak and Juditsky, 1992) with the arguments and state keys of torch.optim.ASGD: an average of parameters.

        p = (1 - lambd eta) p - eta g;  ax += mu (p - ax);  eta = lr / (1 + lambd lr t)^alpha;  mu = 1 / max(1, t - t0)

    `state[param]` holds `step` (0-dim float32), `eta` and `mu` (0-dim float64), and the average `ax` in the shape and
    dtype of the parameter. The formula is in templates/asgd.mlir.

    Args:
        lambd: The decay of parameters, as a factor of the rate.
        alpha: How fast the rate falls.
        t0: After how many steps the average begins.
    """

    _reference = torch.optim.ASGD

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, lambd: float = 1e-4, alpha: float = 0.75,
                 t0: float = 1e6, weight_decay: float = 0, foreach: bool | None = None, maximize: bool = False,
                 differentiable: bool = False, capturable: bool = False, **shared: Unpack[OfTorch]) -> None: ...
