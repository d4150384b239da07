"""Optimizers whose states are of the rows and of the columns of a matrix: memory of a vector instead of a matrix."""

from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._storage.lacking import flat_file
from ._keywords import OfTorch, Shared
from ._named import BETAS, MAXIMIZE, Named, constructor
from ._owners import MatrixOwners

__all__ = ["Adafactor", "CAME", "SinkGD", "SM3"]


class Factored(MatrixOwners, Named):
    """Numbers of rows and columns. A tensor counts as one matrix: its last dimension has the columns, and all others
    together have the rows. They are float32. Each DTensor goes to an owner, who steps it as a whole, and its parts back."""


class Adafactor(Factored):
    """Adafactor (Shazeer and Stern, 2018) with the arguments and state keys of torch.optim.Adafactor.

        r += t^beta2_decay (mean of g^2 over the row - r);  c alike, of the column;  v = r c / mean(r)
        u = g / sqrt(max(v, eps1^2));  p -= lr weight_decay p
        p -= max(eps2, rms(p)) min(lr, 1 / sqrt(t)) u / max(1, rms(u) / d)

    `state[param]` holds `step` (0-dim float32), `row_var` of shape (rows, 1) and `col_var` of shape (1, columns), in
    float32. In a file a vector has `variance` instead, as torch's has. A tensor of more dimensions than two counts as
    one matrix whose columns are the last dimension, where torch's class has many matrices of the last two. The formula is in
    templates/adafactor.mlir.

    Args:
        lr: The largest relative rate, a number of at least 0 or a tensor of one element.
        beta2_decay: The exponent of the step in the rate of the averages.
        eps: (eps1, eps2). None for eps1 is the distance from 1 to the next number of the parameters' dtype, of which a
            group has one then.
        d: The largest root mean square of an update that is not scaled down.

    Raises:
        ValueError: A group of several dtypes has None for eps1.

    Example:
        >>> optimizer = altgrad.optim.Adafactor(model.parameters(), lr=1e-2)
    """

    _reference = torch.optim.Adafactor
    _hypers = {"eps1": ("eps", 0), "eps2": ("eps", 1), "decay": "weight_decay"}
    _options = {"bf16": lambda g: _is_all(g, torch.bfloat16), "f16": lambda g: _is_all(g, torch.float16), **MAXIMIZE}
    _absent = "eps",
    _unchecked = "eps",

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-2, beta2_decay: float = -0.8,
                 eps: tuple[float | None, float] = (None, 1e-3), d: float = 1.0, weight_decay: float = 0.0, *,
                 foreach: bool | None = None, maximize: bool = False, **shared: Unpack[OfTorch]) -> None: ...

    def state_dict(self) -> dict[str, Any]:
        """A state_dict that torch.optim.Adafactor loads, too: a vector has `variance` instead of `row_var` and `col_var`."""
        given, params = super().state_dict(), [param for group in self.param_groups for param in group["params"]]
        states = {place: self._in_file(params[place], held) if isinstance(place, int) else held
                  for place, held in given["state"].items()}
        return {**given, "state": states}

    def _in_file(self, param, held):
        return held if param.dim() >= 2 or "col_var" not in held else {
            **{key: value for key, value in held.items() if key not in ("row_var", "col_var")}, "variance": held["col_var"]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class or of torch.optim.Adafactor.

        Args:
            state_dict: What `state_dict()` gave.

        Raises:
            ValueError, TypeError: As Optimizer's. Nothing has changed then.
        """
        if isinstance(state_dict.get("state"), dict):
            flat = flat_file()  # of which torch takes what the states in memory are called
            state_dict = {**state_dict, "state": {place: _of_torch(held, flat.get(f"state.{place}.variance"))
                                                  for place, held in state_dict["state"].items()}}
        super().load_state_dict(state_dict)


def _of_torch(held, variance):
    """A state of a file: numbers of rows and columns are float32, whatever dtype torch gave them."""
    if not isinstance(held, dict) or hasattr(variance := held.get("variance", variance), "begin"):  # what another rank has
        return held
    held = {key: value for key, value in held.items() if key != "variance"}
    if isinstance(variance, Tensor):
        held["col_var"] = variance
        held["row_var"] = variance.float().mean(dim=-1, keepdim=True) if variance.dim() else variance.clone()
    return held | {key: held[key].float() for key in ("row_var", "col_var") if isinstance(held.get(key), Tensor)}


def _is_all(group, dtype):
    """Whether the numbers of a group without an eps1 have a dtype."""
    dtypes = {param.dtype for param in group["params"]} if group["eps"][0] is None else ()
    if len(dtypes) > 1:
        raise ValueError("altgrad.optim.Adafactor: a group has parameters of "
                         f"{', '.join(sorted(str(of) for of in dtypes))}, whose eps1 differs: give each dtype a group of "
                         "its own, or eps=(1e-7, 1e-3)")
    return dtype in dtypes


class CAME(Factored):
    """CAME (Luo et al., 2023), with the arguments of its authors: a momentum that is trusted less where it was unsteady.

        v = r c / mean(r), where r and c are averages, by beta2, of g^2 + eps[0] over rows and columns
        u = g / sqrt(v);  u /= max(1, rms(u) / clip_threshold);  m = beta1 m + (1 - beta1) u
        s = as v, by beta3 of (u - m)^2 + eps[1];  p -= lr weight_decay p + lr m / sqrt(s)

    `state[param]` holds `exp_avg` in the shape and dtype of the parameter, `exp_avg_sq_row` and `exp_avg_res_row` of shape
    (rows, 1), and `exp_avg_sq_col` and `exp_avg_res_col` of shape (1, columns), in float32. The step of a vector is lr m.
    The formula is in templates/came.mlir.

    Args:
        eps: What is added to the squares of gradients, and of what the momentum lacks.
        clip_threshold: The largest root mean square of an update that is not scaled down.

    Example:
        >>> optimizer = altgrad.optim.CAME(model.parameters(), lr=2e-4, weight_decay=0.01)
    """

    _hypers = {**BETAS, "beta3": ("betas", 2), "eps1": ("eps", 0), "eps2": ("eps", 1), "clip": "clip_threshold"}
    _options = {}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, eps: tuple[float, float] = (1e-30, 1e-16),
                 clip_threshold: float = 1.0, betas: tuple[float, float, float] = (0.9, 0.999, 0.9999),
                 weight_decay: float = 0.0, **shared: Unpack[Shared]) -> None: ...


class SinkGD(Factored):
    """SinkGD (Scetbon et al., 2025): gradients whose rows and columns all have a root mean square of 1, without a state.

        five times: each row of x is divided by its root mean square, then each column;  p -= lr weight_decay p + lr x

    x begins as the gradient. `state[param]` is empty. The formula is in templates/sinkgd.mlir.

    Args:
        eps: A number that is added to each root mean square.

    Example:
        >>> optimizer = altgrad.optim.SinkGD(model.parameters(), lr=0.02)
    """

    _hypers = {"decay": "weight_decay"}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 0.02, eps: float = 1e-12, weight_decay: float = 0.0,
                 maximize: bool = False, **shared: Unpack[Shared]) -> None: ...


class SM3(Factored):
    """SM3 (Anil et al., 2019), with the arguments of PyTorch's port: Adagrad whose sums are of rows and columns.

        v = min(r, c) + g^2, or with beta, beta min(r, c) + (1 - beta) g^2;  r = max v of the row;  c = max v of the column
        b = momentum b + (1 - momentum) g / sqrt(v + eps);  p -= lr b

    `state[param]` holds `row_max` of shape (rows, 1) and `col_max` of shape (1, columns), in float32, and with momentum
    `momentum_buffer` in the shape and dtype of the parameter. The formula is in templates/sm3.mlir.

    Args:
        momentum: The decay rate of the average of updates, from 0 and below 1.
        beta: The decay rate of the sums of squares; 0 is for sums that only grow.
        eps: A number that is added to the sums of squares.

    Example:
        >>> optimizer = altgrad.optim.SM3(model.parameters(), lr=0.1, momentum=0.9)
    """

    _hypers = {}
    _options = {"momentum_on": lambda g: g["momentum"] != 0, **MAXIMIZE}
    _only_with = {"buf": "momentum_on"}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-1, momentum: float = 0.0, beta: float = 0.0,
                 eps: float = 1e-30, maximize: bool = False, **shared: Unpack[Shared]) -> None: ...
