"""Adam-mini, which keeps one second moment for many elements, with the arguments and state keys of its authors."""

from collections.abc import Iterator
from itertools import compress
from typing import Any

import torch
from torch import Tensor
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._binding.layout import contiguous_strides
from .._rule import Rule
from ._keywords import Shared
from ._named import Named, constructor, find_template
from ._owners import MatrixOwners
from ._shapes import Matrices

__all__ = ["AdamMini"]

# The rule of each split that has not the template's first one, and the names by which the authors choose (adam_mini 1.1).
_RULES = {"elements": "adammini_elements", "tensor": "adammini_tensor"}
_NAMES = {"elements": ("embed", "embd", "wte", "lm_head.weight", "output.weight"),
          "heads": ("k_proj.weight", "q_proj.weight", "wq.weight", "wk.weight")}
_UNDECAYED = "norm", "ln_f"


class AdamMini(MatrixOwners, Named):
    """Adam-mini (Zhang et al., 2024): AdamW with one second moment for many elements.

        m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) mean(g^2), of each row
        p -= lr weight_decay p + lr m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps)

    `split` says what has a moment. "rows": each index of dimension 0, which is a token of an embedding or an output of a
    layer; a vector is one row. "heads": each `dim * dim / n_heads` elements, as of queries and keys. "tensor": the
    parameter. "elements": each element, as AdamW's. "names" has the authors' choice, by the names of parameters:
    embeddings and the output layer by elements, queries and keys by heads, others whole, and no decay of norms.

    `state[param]` holds `step` (0-dim float32), `exp_avg` in the shape and dtype of the parameter, and `vmean`: with rows
    in float32 and the shape (rows, 1, ...), with heads (heads, 1, ...), of a tensor a 0-dim float64; with elements
    `exp_avg_sq` like `exp_avg`. The formulas are in templates/adammini.mlir.

    Args:
        split: "rows", "heads", "tensor", "elements" or "names". A group may say another one.
        dim: With heads, the columns of queries and keys.
        n_heads: With heads, the heads of queries.
        n_kv_heads: The heads of keys where they are fewer, by which n_heads is divided; None for as many.

    Example:
        >>> optimizer = altgrad.optim.AdamMini(model.named_parameters(), lr=1e-3, split="names", dim=64, n_heads=4)
    """

    _of_units = "vmean",
    _keys = {"m": "exp_avg", "v": "exp_avg_sq", "vmean": "vmean"}
    _only_with = {"v": 'split="elements"'}

    @constructor
    def __init__(self, params: ParamsT, lr: float | Tensor = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0.0, split: str = "rows", dim: int = 2048, n_heads: int = 32,
                 n_kv_heads: int | None = None, maximize: bool = False, **shared: Unpack[Shared]) -> None: ...

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group, or with `split="names"` one for each of the authors' kinds that is there.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults.

        Raises:
            ValueError: There is no such split, a parameter has no whole number of heads, or none has a name.
        """
        before = len(self.param_groups)
        try:
            for group in _parted(param_group, param_group.get("split", self.defaults["split"])):
                super().add_param_group(group)
        except (TypeError, ValueError, RuntimeError):
            del self.param_groups[before:]
            raise

    def _check_group(self, group, where):
        if group["split"] not in ("rows", "heads", *_RULES):
            raise ValueError(f"{where}: split is {group['split']!r}, none of 'rows', 'heads', 'tensor', 'elements', 'names'")
        if group["split"] != "heads":
            return
        dim, heads, few = (group[key] for key in ("dim", "n_heads", "n_kv_heads"))
        if min(dim, heads) < 1 or dim * dim % heads or few is not None and (few < 1 or heads % few):
            raise ValueError(f"{where}: dim={dim}, n_heads={heads} and n_kv_heads={few} are not whole numbers of equal heads")
        for index, param in enumerate(group["params"]):
            if param.dim() < 2 or param.numel() % _head(group):
                raise ValueError(f"{where}, parameter {index} of shape {tuple(param.shape)} has no heads of dim * dim / n_heads = "
                                 f"{_head(group)} elements: give the dim and n_heads of the model")

    def _rule_of(self, group):
        template = find_template(self._template)
        name = _RULES.get(group["split"])
        return template if name is None else Rule(name, template._words(), "<templates/adammini.mlir>")

    def _matrices_of(self, group, param):
        if group["split"] != "heads":
            return None
        size = _head(group)  # a head is a matrix of one row, so that it is a unit
        of = Matrices(rows=1, columns=size, count=param.numel() // size, unit=size, leading=1)
        of.strides = contiguous_strides(param.shape)
        return of

    def _unit_of(self, options, matrices):
        return matrices.columns

    def _stored(self, options, words):
        return super()._stored((*options, *self._only_with.values()), words)

    def _forget(self):
        super()._forget()
        self._tensor_states = "vmean",  # of a tensor


def _head(group):
    return group["dim"] * group["dim"] // group["n_heads"]


def _parted(group: "dict[str, Any]", split: str) -> "Iterator[dict[str, Any]]":
    """The group, or for names one for each kind, first those that do not decay."""
    if split != "names":
        yield group
        return
    entries = list(group["params"]) if not isinstance(group["params"], torch.Tensor) else [group["params"]]
    if not all([isinstance(entry, tuple) for entry in entries]):
        raise ValueError("altgrad.optim.AdamMini: split='names' reads the names of parameters: give model.named_parameters()")
    kinds = [(next((kind for kind, parts in _NAMES.items() if any([part in name for part in parts])), "tensor"),
              any([part in name for part in _UNDECAYED])) for name, _ in entries]
    for kind, undecayed in dict.fromkeys(kinds):
        own = list(compress(entries, [one == (kind, undecayed) for one in kinds]))
        yield {**group, "params": own, "split": kind} | ({"weight_decay": 0.0} if undecayed else {})
