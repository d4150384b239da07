"""Muon for matrices, and AdamW for everything else in the same program."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import compress
from typing import Any

import torch
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._warn import renamed, warn, warn_renamed
from ._keywords import Shared, meant
from ._named import BETAS, Named, check_arguments, constructor, find_template
from ._owners import MatrixOwners
from ._newton_schulz import ENTRIES, KNOWN, NewtonSchulz, check_iteration, dtype_of, entries_of, option_words
from ._presets import find_preset
from ._shapes import matrices_of

# Old keywords, which are words of NewtonSchulz now.
_OLD = {entry: name for name, entry in ENTRIES.items() if name in ("dtype", "length", "equilibrate", "red_dim")}
_ADAMW = "lr", "betas", "eps", "weight_decay"
_ADAMW_LR = 1e-3  # torch.optim.AdamW's


class Muon(MatrixOwners, Named):
    """Muon (K. Jordan, 2024) with the arguments, param_groups and state keys of torch.optim.Muon; AdamW beside it.

        b = b + (1 - momentum) (g - b);  u = b + (1 - momentum) (g - b), or b without `nesterov`
        p -= lr weight_decay p;  p -= lr scale NS(u)

    NS brings the singular values of a matrix near 1, as `orthogonalize` says. A group with
    `use_muon=False` takes AdamW's formula, with its own `lr`, `betas`, `eps` and `weight_decay`, in the same
    step: one norm, one `found_inf`. `state[param]` holds `momentum_buffer`, or AdamW's `step`, `exp_avg` and
    `exp_avg_sq`, in the shape and dtype of the parameter. Parameters of Muon are matrices, stacks of them, as those
    of experts, or filters of convolutions; a group may say otherwise by `flatten` and `split`. On a
    GPU cuBLAS multiplies them, in one call for neighbours of one shape. The formula is in templates/muon.mlir.

    The momentum of a source that keeps the sum b = momentum b + g is here 1 - momentum times that sum, which the
    division by the norm undoes.

    Args:
        momentum: The decay rate of the momentum, from 0 and below 1.
        nesterov: Whether the step looks ahead of the momentum.
        ns_coefficients: torch's keyword for `coefficients` of NewtonSchulz.
        eps: The least norm by which a matrix is divided, and what is added to AdamW's denominator.
        ns_steps: torch's keyword for `steps` of NewtonSchulz.
        adjust_lr_fn: torch's keyword for `scale` of NewtonSchulz; None is "original".
        orthogonalize: An altgrad.optim.NewtonSchulz: steps, coefficients, dtype, length, scale and equilibration of NS.
        preset: Whose Muon it is: "torch", "kj" (KellerJordan), "dion", "moonlight", "emerging" (Emerging-Optimizers) or
            "vibetensor". It decides the arguments that are not given, as the source's class has them in 2026-08: lr,
            weight_decay, eps, nesterov, coefficients, length, scale and flatten, and lr and eps of AdamW's groups.
        cautious: Whether the weight decays only where the update and the parameter have one sign (L. Chen et al.,
            2025).
        reproducible: Whether each matrix is multiplied by calls of its own. A library's bits may depend on how many
            matrices it is given at once, and so on which other parameters there are; its calls are slower then.
        betas: The decay rates of AdamW's averages.
        use_muon: Whether Muon updates the parameters of a group, or AdamW; a group may have a value of its own. A function
            decides for each parameter and splits each group in two. AdamW's group has the `lr` of `adamw`, else that of
            the preset, else 1e-3; with "match_rms_adamw", where Muon's rates are those of AdamW, it has Muon's.
        adamw: The defaults of AdamW's groups: a dict with some of `lr`, `betas`, `eps` and `weight_decay`. The
            optimizer's own arguments are the defaults of the others.
        flatten: What a parameter of more than two dimensions is: True, one matrix with a row for each index of
            dimension 0, as filters are; False, a stack of those of its last two dimensions. None takes three
            dimensions for a stack and more of them for filters.
        split: How many rows of a parameter are a matrix of their own: 64 of a weight with heads of 64 rows, for
            queries, keys and values alike, a third of the rows where these three are one weight. (2048, 512, 512) are
            three matrices with so many rows, as of grouped queries, their keys and values. None: all rows.

    Example:
        >>> biases = {"params": [model.bias], "use_muon": False, "lr": 3e-4}
        >>> optimizer = altgrad.optim.Muon([{"params": [model.weight]}, biases], preset="kj")
    """

    _unchecked = "ns_coefficients", "split"
    _older = {"ns_dtype": torch.bfloat16, "ns_length": "clamped", "equilibrate": None}
    _beside: dict[str, Any] = {}  # what AdamW's groups have where they say nothing
    _adamw: dict[str, Any] = {}  # what `adamw` says of them
    _preset: str | None = None
    _has_presets = True

    @constructor
    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: Any = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 betas: tuple[float, float] = (0.9, 0.95), use_muon: bool | Callable[[torch.Tensor], Any] = True,
                 adamw: Mapping[str, Any] | None = None,
                 orthogonalize: NewtonSchulz | None = None, preset: str | None = None,
                 flatten: bool | None = None, split: int | tuple[int, ...] | None = None,
                 cautious: bool = False, reproducible: bool = False, **shared: Unpack[Shared]) -> None: ...

    @classmethod
    def _new_words(cls, given):
        owner = f"altgrad.optim.{cls.__name__}"
        if cls._has_presets and given.get("profile") is not None:
            is_both = given["profile"] == "torch" and "numerics" not in given
            given = renamed(owner, given, {"profile": "preset"}, " and numerics=" * is_both)
            given |= {"numerics": "torch"} if is_both else {}
        given = super()._new_words(given)
        if old := {name: given.pop(entry) for entry, name in _OLD.items() if entry in given}:
            for name in old:
                warn_renamed(f"{owner}({ENTRIES[name]}=...)", f"orthogonalize=NewtonSchulz({name}=...)")
            there = given.get("orthogonalize")
            given["orthogonalize"] = NewtonSchulz(**old) if there is None else replace(there, **old)
        return given

    @property
    def preset(self) -> str | None:
        """Whose defaults it was made with, as the constructor takes it."""
        return self._preset

    def _start(self, given, explicit):
        clips, owner = given.get("max_grad_norm") is not None, f"altgrad.optim.{type(self).__name__}"
        orthogonalize, self._preset = given.pop("orthogonalize"), given.pop("preset", None)
        self._beside = self._adamw = check_adamw(given.pop("adamw"), owner)
        words = self._entries_of(orthogonalize, explicit, owner)
        given |= {entry: self._older[entry] for entry in _OLD if entry in self._older} | words
        if self._preset is not None:
            found, explicit = find_preset(self._preset), {*explicit, *words}
            given |= {name: value for name, value in found.arguments().items() if name not in explicit}
            preset = {name: value for name, value in found.adamw.given().items() if name not in explicit}
            self._beside = preset | self._adamw
        super()._start(given, explicit)
        if clips and any(group["use_muon"] for group in self.param_groups):
            warn(f"{owner}: the update of a matrix does not depend on the length of its gradient, so "
                 "max_grad_norm only changes how much a step weighs in the momentum, and brings short gradients near eps; "
                 "leave it out, and clip the gradients of AdamW's groups alone, by altgrad.ops.clip_grad_norm_")

    def _entries_of(self, orthogonalize, explicit, where):
        """What a NewtonSchulz says as entries of a group, none of which is in `explicit`."""
        words = {} if orthogonalize is None else entries_of(orthogonalize, where)
        for entry in words.keys() - self._older.keys():
            raise TypeError(f"{where}: orthogonalize says {entry}, which is NorMuon's")
        for entry in words.keys() & explicit:
            raise TypeError(f"{where}: {entry} is given, and so is its word in orthogonalize: leave one of them out")
        return words

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; "use_muon" says which formula it takes.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults.

        Raises:
            ValueError: A parameter of Muon is no matrix, or the group asks for what is not compiled.
        """
        before = len(self.param_groups)
        if isinstance(param_group, dict) and "orthogonalize" in param_group:
            param_group = dict(param_group)
            where = f"altgrad.optim.{type(self).__name__}, group {before}"
            param_group |= self._entries_of(param_group.pop("orthogonalize"), param_group.keys(), where)
        try:
            for group in self._parted(param_group):
                is_muon = not isinstance(group, dict) or group.get("use_muon", self.defaults["use_muon"])
                super().add_param_group(group if is_muon else {**self._beside, **group})
                self._check(self.param_groups[-1])
        except (TypeError, ValueError, RuntimeError):
            del self.param_groups[before:]
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_beside": self._beside, "_adamw": self._adamw, "_preset": self._preset}

    def _parted(self, group):
        """The group, or two of them where a function says which of its parameters take Muon."""
        takes = group.get("use_muon", self.defaults["use_muon"]) if isinstance(group, dict) else None
        if not callable(takes):
            return [group]
        given = group["params"]
        entries = [given] if isinstance(given, torch.Tensor) else list(given)
        chosen = [bool(takes(entry[1] if isinstance(entry, tuple) else entry)) for entry in entries]
        own = self._rates_apart(group)
        adamw = {**own, **group}
        if any(chosen) and "lr" in own:
            adamw["lr"] = own["lr"]  # what the group says is Muon's
        return [{**(group if which else adamw), "params": list(compress(entries, map(which.__eq__, chosen))),
                 "use_muon": which} for which in (True, False) if which in chosen or (which and not chosen)]

    def _rates_apart(self, group):
        """What a function's group of AdamW has of its own: of Muon's rate it would take steps of many times the size."""
        if self._preset is not None:
            return find_preset(self._preset).adamw.given() | self._adamw
        is_adamws = group.get("adjust_lr_fn", self.defaults["adjust_lr_fn"]) == "match_rms_adamw"
        return ({} if is_adamws else {"lr": _ADAMW_LR}) | self._adamw

    def _encode_groups(self, groups):
        # A word, which torch.distributed.checkpoint takes.
        return [{**group, "ns_dtype": str(group["ns_dtype"])} for group in groups]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What a file does not say, as torch's do not say use_muon, stays.
        for group, own in zip(state["param_groups"], self.__dict__.get("param_groups", ())):
            for key in self._older:
                group.setdefault(key, own[key])
        for group in state["param_groups"]:
            if "ns_dtype" in group:
                group["ns_dtype"] = dtype_of(group["ns_dtype"])
        super().__setstate__(state)

    def _check(self, group):
        """Raises ValueError for a group that Muon cannot take."""
        index, = [index for index, of in enumerate(self.param_groups) if of["params"] is group["params"]]
        where = f"altgrad.optim.{type(self).__name__}, group {index}"
        for rate in ("momentum", "beta2"):
            if not 0.0 <= group.get(rate, 0.0) < 1.0:
                raise ValueError(f"{where}: {rate} is {group[rate]}, not from 0 and below 1")
        words = {"use_muon": (True, False)} | (KNOWN if group["use_muon"] else {})
        for key, known in words.items():
            if key in group and (dtype_of(group[key]) if key == "ns_dtype" else group[key]) not in known:
                raise ValueError(f"{where}: {key} is {group[key]!r}, none of " + ", ".join(map(repr, known)))
        if not group["use_muon"]:
            return
        check_iteration(group, where)
        for index, param in enumerate(group["params"]):
            try:
                self._matrices_of(group, param)
            except ValueError as error:
                raise ValueError(f"{where}, parameter {index} {error}") from None

    def _unit_of(self, options, matrices):
        return matrices.columns if self._of_units or "equal=rows" in options else matrices.unit

    def _rule_of(self, group):
        return find_template(self._template if group["use_muon"] else "adamw")

    def _group_rule(self, group):
        # Where matrices begin is no option of a rule.
        split = group["split"]
        return *super()._group_rule(group), (group["flatten"], tuple(split) if isinstance(split, list) else split)

    def _matrices_of(self, group, param):
        if not group["use_muon"]:
            return None
        unturned = "equilibrate='rows'" if group["equilibrate"] else None
        return matrices_of(group, param, bool(self._of_units or group["equilibrate"]), unturned)

    def _options_of(self, group):
        self._check(group)
        if not group["use_muon"]:
            return ()
        words = ["plain"] * (not group["nesterov"])
        if group["equilibrate"]:
            words.append("equal=rows")
        elif not self._of_units and any([self._has_units(other, param) for other in self.param_groups
                                         for param in other["params"]]):
            words.append("over=unit")
        words += ["decay=cautious"] * bool(group["cautious"]) + ["batches=none"] * bool(group["reproducible"])
        return *words, *option_words(group)

    def _has_units(self, group, param):
        matrices = self._matrices_of(group, param)
        return bool(matrices) and matrices.count != 1 and not matrices.apart


class NorMuon(Muon):
    """NorMuon (Z. Li et al., 2025): Muon with rows that have the same size on average; AdamW beside it.

        b, u as Muon's;  o = NS(u);  s = s + (1 - beta2) (mean(o^2) - s), of each row;  n = o / (sqrt(s) + 1e-10)
        p -= lr weight_decay p;  p -= lr scale n |o| / (|n| + 1e-10)

    |o| is the root of the sum of squares of the whole matrix, so that the update keeps its length. `state[param]` also
    holds `second_momentum_buffer`, s, in float32 and with the shape (rows, 1), or (matrices, rows, 1) of a stack; of
    columns, (1, columns). Arguments, groups and errors are Muon's. The formula is in templates/normuon.mlir.

    Args:
        momentum: The decay rate of the momentum, from 0 and below 1.
        beta2: The decay rate of the rows' mean squares, from 0 and below 1.
        nesterov: Whether the step looks ahead of the momentum.
        ns_coefficients: `coefficients` of NewtonSchulz, as Muon takes it.
        eps: The least norm by which a matrix is divided, or what is added to it; also to AdamW's denominator.
        ns_steps: `steps` of NewtonSchulz, as Muon takes it.
        adjust_lr_fn: `scale` of NewtonSchulz, as Muon takes it.
        betas: The decay rates of AdamW's averages.
        use_muon: Whether the parameters of a group are updated by NorMuon, or by AdamW, as Muon takes it.
        adamw: What AdamW's groups have where they do not say otherwise, as Muon takes it.
        orthogonalize: An altgrad.optim.NewtonSchulz, as Muon takes it; its `red_dim` says whether the mean may also be
            that of columns.
        flatten: What a parameter of more than two dimensions is, as Muon takes it.
        split: How many rows of a parameter are a matrix of their own, as Muon takes it.
        cautious: Whether the weight decays only where the update and the parameter have one sign.
        reproducible: Whether each matrix is multiplied by calls of its own, as Muon takes it.

    Example:
        >>> optimizer = altgrad.optim.NorMuon([model.weight], lr=0.02)
    """

    _hypers = {**BETAS, "beta": "beta2"}
    _unchecked = *Muon._unchecked, "red_dim"
    _of_units = "second",
    _older = {"ns_dtype": torch.bfloat16, "ns_length": "added", "equilibrate": None, "red_dim": -1}
    _has_presets = False

    @constructor
    def __init__(self, params: ParamsT, lr: float = 0.02, weight_decay: float = 0.0, momentum: float = 0.95,
                 beta2: float = 0.95, nesterov: bool = True, ns_coefficients: Any = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 betas: tuple[float, float] = (0.9, 0.95), use_muon: bool | Callable[[torch.Tensor], Any] = True,
                 adamw: Mapping[str, Any] | None = None,
                 orthogonalize: NewtonSchulz | None = None,
                 flatten: bool | None = None, split: int | tuple[int, ...] | None = None,
                 cautious: bool = False, reproducible: bool = False, **shared: Unpack[Shared]) -> None: ...

    def _group_rule(self, group):
        return *super()._group_rule(group), group["red_dim"]

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options, *rest = group_rule
        turned = bool(matrices) and matrices.turned and "scale=match_rms" not in options  # which is the same
        return rule, options + ("shape=transposed",) * turned, *rest


def check_adamw(given, owner):
    """What `adamw` says, as a dict. Raises TypeError for what is none of AdamW's, ValueError for a number out of range."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise TypeError(f"{owner}: adamw is {given!r}, not a dict such as {{'lr': 3e-4}}")
    for name in given.keys() - set(_ADAMW):
        raise TypeError(f"{owner}: adamw has {name!r}" + meant(str(name), _ADAMW))
    check_arguments(given)
    return dict(given)
