"""Muon for matrices, and AdamW for everything else in the same program."""

from typing import Any

from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from ._keywords import Shared
from ._named import BETAS, Named, constructor, find_template

_COEFFICIENTS, _STEPS = (3.4445, -4.775, 2.0315), 5  # what templates/muon.mlir has
_SCALES = None, "original", "match_rms_adamw"


class Muon(Named):
    """Muon (K. Jordan, 2024) with the arguments, param_groups and state keys of torch.optim.Muon; AdamW beside it.

        b = b + (1 - momentum) (g - b);  u = b + (1 - momentum) (g - b), or b without `nesterov`
        p -= lr weight_decay p;  p -= lr scale NS(u)

    NS brings the singular values of a matrix near 1, by products in bfloat16. A group with
    `use_muon=False` takes AdamW's formula, with its own `lr`, `betas`, `eps` and `weight_decay`, in the same
    step: one norm, one verdict. `state[param]` holds `momentum_buffer`, or AdamW's `step`, `exp_avg` and
    `exp_avg_sq`, in the shape and dtype of the parameter. Parameters are on the CPU so far, those
    of Muon matrices. The formula is in templates/muon.mlir.

    Args:
        momentum: The decay rate of the momentum, from 0 and below 1.
        nesterov: Whether the step looks ahead of the momentum.
        ns_coefficients: The polynomial of each step of the iteration; only torch's default is compiled.
        eps: The least norm by which a matrix is divided, and what is added to AdamW's denominator.
        ns_steps: The steps of the iteration; only torch's default is compiled.
        adjust_lr_fn: The scale: "original" or None is sqrt(max(1, rows / columns)), "match_rms_adamw" is
            0.2 sqrt(max(rows, columns)).
        betas: The decay rates of AdamW's averages.
        use_muon: Whether the parameters of a group are updated by Muon, or by AdamW; a group may say otherwise.

    Example:
        >>> biases = {"params": [model.bias], "use_muon": False, "lr": 3e-4}
        >>> optimizer = altgrad.optim.Muon([{"params": [model.weight]}, biases])
    """

    _hypers = BETAS
    _keys = {"buf": "momentum_buffer", "m": "exp_avg", "v": "exp_avg_sq"}

    @constructor
    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 betas: tuple[float, float] = (0.9, 0.95), use_muon: bool = True, **shared: Unpack[Shared]) -> None: ...

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; "use_muon" says which formula it takes.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults.

        Raises:
            ValueError: A parameter of Muon is no matrix, or the group asks for what is not compiled.
        """
        super().add_param_group(param_group)
        try:
            _check(self.param_groups[-1], f"altgrad.optim.Muon, group {len(self.param_groups) - 1}")
        except ValueError:
            del self.param_groups[-1]
            raise

    def _rule_of(self, group):
        return find_template("muon" if group["use_muon"] else "adamw")

    def _options_of(self, group):
        if not group["use_muon"]:
            return ()
        return tuple(word for word, on in (("plain", not group["nesterov"]),
                                           ("match_rms", group["adjust_lr_fn"] == "match_rms_adamw")) if on)


def _check(group, where):
    """Raises ValueError for a group that Muon cannot take."""
    if not 0.0 <= group["momentum"] < 1.0:
        raise ValueError(f"{where}: momentum is {group['momentum']}, not from 0 and below 1")
    if not group["use_muon"]:
        return
    if tuple(group["ns_coefficients"]) != _COEFFICIENTS or group["ns_steps"] != _STEPS:
        raise ValueError(f"{where}: ns_coefficients={_COEFFICIENTS} and ns_steps={_STEPS} are what is compiled; others "
                         "are a rule of your own with altgrad.orthogonalize, for altgrad.optim.FromRule")
    if group["adjust_lr_fn"] not in _SCALES:
        raise ValueError(f"{where}: adjust_lr_fn is {group['adjust_lr_fn']!r}, none of "
                         + ", ".join(map(repr, _SCALES)))
    for index, param in enumerate(group["params"]):
        if param.ndim != 2:
            raise ValueError(f"{where}, parameter {index} has the shape {tuple(param.shape)}, no matrix; put it into a "
                             "group with use_muon=False, which takes AdamW")
        if param.device.type != "cpu":
            raise ValueError(f"{where}, parameter {index} is on {param.device}; products of matrices are for CPUs so far")
        if param.shape[1] > 1 and param.stride(1) != 1:
            raise ValueError(f"{where}, parameter {index} lies column by column in memory; make it .contiguous()")
