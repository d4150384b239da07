"""Muon for matrices, and AdamW for everything else in the same program."""

import ctypes
import functools
import math
import numbers
import re
from collections.abc import Callable
from itertools import compress
from typing import Any

import torch
from torch.optim.optimizer import ParamsT
from typing_extensions import Unpack

from .._bundle import compile_sets
from .._coefficients import rows_of
from .._core import core
from .._library import Error
from .._warn import warn
from ._keywords import Shared
from ._named import BETAS, Named, constructor, find_template
from ._shapes import matrices_of

# adjust_lr_fn -> the word of altgrad.scale_by_shape
_SCALES = {None: "original", "original": "original", "match_rms_adamw": "match_rms", "spectral_unclamped": "unclamped",
           "spectral": "spectral"}
_DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
# What an entry of a group may be.
_KNOWN = {"adjust_lr_fn": tuple(_SCALES), "ns_length": ("clamped", "added"), "ns_dtype": tuple(_DTYPES),
          "equilibrate": (None, "rows"), "red_dim": (-1, "by_shape"), "flatten": (None, True, False),
          **dict.fromkeys(("nesterov", "cautious", "reproducible"), (True, False))}


class _Numbers(ctypes.Structure):
    """altgrad_table_numbers."""

    _fields_ = [("lr", ctypes.c_double), ("weight_decay", ctypes.c_double), ("eps", ctypes.c_double)]

    def given(self):
        numbers = {name: getattr(self, name) for name, _ in self._fields_}
        return {name: number for name, number in numbers.items() if not math.isnan(number)}


class _Profile(ctypes.Structure):
    """altgrad_table_profile."""

    _fields_ = [("muon", _Numbers), ("adamw", _Numbers), ("options", ctypes.c_char_p)]

    def arguments(self):
        """The constructor's arguments that it decides, which the library has as numbers and options of the rule."""
        options = dict(word.partition("=")[::2] for word in self.options.decode().split(",") if word)
        scales = {word: name for name, word in _SCALES.items()}
        given = {"nesterov": False} if "plain" in options else {}
        given |= {f"ns_{key}": options[key] for key in ("coefficients", "length") if key in options}
        given |= {"adjust_lr_fn": scales[options["scale"]]} if "scale" in options else {}
        given |= {"flatten": options["flatten"] == "true"} if "flatten" in options else {}
        return given | self.muon.given()


def _profile_of(profile):
    """The profile of this name; ValueError lists the known ones."""
    found = _Profile()
    try:
        core().altgrad_table_find_profile(str(profile).encode(), ctypes.byref(found))
    except Error as error:
        raise ValueError(f"altgrad.optim.Muon: {error}") from None
    return found


def _profiled(init):
    """The constructor with a profile's arguments where the caller gives none."""
    names = list(init.__signature__.parameters)

    @functools.wraps(init)
    def __init__(self, *positional, profile=None, **keywords):
        given = {*names[1:1 + len(positional)], *keywords}
        found = _Profile() if profile is None else _profile_of(profile)
        decided = {} if profile is None else {name: value for name, value in found.arguments().items() if name not in given}
        if profile is not None:
            self._beside = {name: value for name, value in found.adamw.given().items() if name not in given}
        # "torch" is what every optimizer takes.
        init(self, *positional, **({"profile": profile} if profile == "torch" else {}), **decided, **keywords)

    return __init__


class Muon(Named):
    """Muon (K. Jordan, 2024) with the arguments, param_groups and state keys of torch.optim.Muon; AdamW beside it.

        b = b + (1 - momentum) (g - b);  u = b + (1 - momentum) (g - b), or b without `nesterov`
        p -= lr weight_decay p;  p -= lr scale NS(u)

    NS brings the singular values of a matrix near 1, by products in `ns_dtype`. A group with
    `use_muon=False` takes AdamW's formula, with its own `lr`, `betas`, `eps` and `weight_decay`, in the same
    step: one norm, one verdict. `state[param]` holds `momentum_buffer`, or AdamW's `step`, `exp_avg` and
    `exp_avg_sq`, in the shape and dtype of the parameter. Parameters of Muon are matrices, stacks of them, as those
    of experts, or filters of convolutions; a group may say otherwise by `flatten` and `split`. On a
    GPU cuBLAS multiplies them, in one call for neighbours of one shape. The formula is in templates/muon.mlir.

    `profile` says whose Muon it is: "torch", or "kj" (KellerJordan), "dion", "moonlight", "emerging"
    (Emerging-Optimizers) or "vibetensor", which decide arguments that are not given, as the source's class has them in
    2026-08: lr, weight_decay, eps, nesterov, coefficients, length, scale and flatten, and lr and eps of AdamW's groups.
    The momentum of a source that keeps the sum b = momentum b + g is here 1 - momentum times that sum, which the
    division by the norm undoes.

    Args:
        momentum: The decay rate of the momentum, from 0 and below 1.
        nesterov: Whether the step looks ahead of the momentum.
        ns_coefficients: The polynomial of the iteration's steps: three numbers, a tuple of them for each step, or the
            name of a set that `altgrad-opt --list-coefficients` describes, such as "polar_gns".
        eps: The least norm by which a matrix is divided, and what is added to AdamW's denominator.
        ns_steps: The steps of the iteration, as many as the coefficients are for.
        adjust_lr_fn: The scale: "original" or None is sqrt(max(1, rows / columns)), "match_rms_adamw" is
            0.2 sqrt(max(rows, columns)), "spectral" is sqrt(max(rows, columns)), "spectral_unclamped" is
            sqrt(rows / columns).
        ns_dtype: What the products take: torch.bfloat16 as torch's do, torch.float16 or torch.float32. In
            float32 elongated matrices take the Gram form, with fewer operations.
        ns_length: What a matrix is divided by: "clamped", max(|X|, eps), or "added", |X| + eps.
        equilibrate: "rows" divides each row of u by max(|row|, 1e-7) before NS, as MuonEq-R does.
        cautious: Whether the weight decays only where the update and the parameter have one sign (L. Chen et al., 2025).
        reproducible: Whether each matrix is multiplied by calls of its own. A library's bits may depend on how many
            matrices it is given at once, and so on which other parameters there are; its calls are slower then.
        betas: The decay rates of AdamW's averages.
        use_muon: Whether the parameters of a group are updated by Muon, or by AdamW; a group may say otherwise. A
            function says it of each parameter, whose group becomes two then.
        flatten: What a parameter of more than two dimensions is: True, one matrix with a row for each index of
            dimension 0, as filters are; False, a stack of those of its last two dimensions. None takes three
            dimensions for a stack and more of them for filters.
        split: How many rows of a parameter are a matrix of their own: 64 of a weight with heads of 64 rows, for
            queries, keys and values alike, a third of the rows where these three are one weight. (2048, 512, 512) are
            three matrices with so many rows, as of grouped queries, their keys and values. None: all rows.

    Example:
        >>> biases = {"params": [model.bias], "use_muon": False, "lr": 3e-4}
        >>> optimizer = altgrad.optim.Muon([{"params": [model.weight]}, biases])
    """

    _template = "muon"
    _hypers = BETAS
    _unchecked = "ns_coefficients", "split"
    _keys = {"buf": "momentum_buffer", "m": "exp_avg", "v": "exp_avg_sq"}
    _beside: dict[str, Any] = {}  # what a profile decides of AdamW's groups

    @_profiled
    @constructor
    def __init__(self, params: ParamsT, lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95,
                 nesterov: bool = True, ns_coefficients: Any = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 betas: tuple[float, float] = (0.9, 0.95), use_muon: bool | Callable[[torch.Tensor], Any] = True,
                 ns_dtype: torch.dtype = torch.bfloat16, ns_length: str = "clamped",
                 flatten: bool | None = None, split: int | tuple[int, ...] | None = None,
                 equilibrate: str | None = None, cautious: bool = False, reproducible: bool = False,
                 **shared: Unpack[Shared]) -> None: ...

    def _start(self, given):
        clips = given.get("max_grad_norm") is not None
        super()._start(given)
        if clips and any(group["use_muon"] for group in self.param_groups):
            warn(f"altgrad.optim.{type(self).__name__}: the update of a matrix does not depend on the length of its gradient, so "
                 "max_grad_norm only changes how much a step weighs in the momentum, and brings short gradients near eps; "
                 "leave it out, and clip the gradients of AdamW's groups alone, by altgrad.clip_grad_norm_")

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a group; "use_muon" says which formula it takes.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults.

        Raises:
            ValueError: A parameter of Muon is no matrix, or the group asks for what is not compiled.
        """
        before = len(self.param_groups)
        try:
            for group in _parted(param_group, self.defaults):
                is_muon = not isinstance(group, dict) or group.get("use_muon", self.defaults["use_muon"])
                super().add_param_group(group if is_muon else {**self._beside, **group})
                self._check(self.param_groups[-1])
        except (TypeError, ValueError, RuntimeError):
            del self.param_groups[before:]
            raise

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_beside": self._beside}

    def _filed_groups(self, groups):
        # A word, which torch.distributed.checkpoint takes.
        return [{**group, "ns_dtype": str(group["ns_dtype"])} for group in groups]

    def __setstate__(self, state: dict[str, Any]) -> None:
        # What a file does not say, as torch's do not say use_muon, stays.
        for group, own in zip(state["param_groups"], self.__dict__.get("param_groups", ())):
            for key in self._older:
                group.setdefault(key, own[key])
        for group in state["param_groups"]:
            if "ns_dtype" in group:
                group["ns_dtype"] = _dtype_of(group["ns_dtype"])
        super().__setstate__(state)

    def _check(self, group):
        """Raises ValueError for a group that Muon cannot take."""
        index, = [index for index, of in enumerate(self.param_groups) if of["params"] is group["params"]]
        where = f"altgrad.optim.{type(self).__name__}, group {index}"
        for rate in ("momentum", "beta2"):
            if not 0.0 <= group.get(rate, 0.0) < 1.0:
                raise ValueError(f"{where}: {rate} is {group[rate]}, not from 0 and below 1")
        words = {"use_muon": (True, False)} | (_KNOWN if group["use_muon"] else {})
        for key, known in words.items():
            if key in group and (_dtype_of(group[key]) if key == "ns_dtype" else group[key]) not in known:
                raise ValueError(f"{where}: {key} is {group[key]!r}, none of " + ", ".join(map(repr, known)))
        if not group["use_muon"]:
            return
        _check_iteration(group, where)
        for index, param in enumerate(group["params"]):
            try:
                self._matrices_of(group, param)
            except ValueError as error:
                raise ValueError(f"{where}, parameter {index} {error}") from None

    def _unit_of(self, options, matrices):
        return matrices.columns if self._of_units or "equal=rows" in options else matrices.unit

    def _rule_of(self, group):
        return find_template(self._template if group["use_muon"] else "adamw")

    def _kind_of(self, group):
        # Where matrices begin is no option of a rule.
        split = group["split"]
        return *super()._kind_of(group), (group["flatten"], tuple(split) if isinstance(split, list) else split)

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
        words += [f"scale={_SCALES[group['adjust_lr_fn']]}"]
        return (*words, f"coefficients={_coefficients(group['ns_coefficients'])}", f"in={_DTYPES[_dtype_of(group['ns_dtype'])]}",
                f"length={group['ns_length']}", f"steps={group['ns_steps']}")


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
        red_dim: Over which dimension the mean is: -1, that of each row, as in the paper's code (zichongli5/NorMuon);
            "by_shape", that of each column where a matrix has more columns than rows, as nanochat and
            Emerging-Optimizers have it. Wide matrices are stepped as their transposes then, which costs copies.
        nesterov: Whether the step looks ahead of the momentum.
        ns_coefficients: The polynomial of the iteration's steps, as Muon takes it.
        eps: The least norm by which a matrix is divided, or what is added to it; also to AdamW's denominator.
        ns_steps: The steps of the iteration, as many as the coefficients are for.
        adjust_lr_fn: The scale, as Muon takes it.
        betas: The decay rates of AdamW's averages.
        use_muon: Whether the parameters of a group are updated by NorMuon, or by AdamW, as Muon takes it.
        ns_dtype: What the products take, as Muon takes it.
        ns_length: What a matrix is divided by: "clamped", max(|X|, eps), or "added", |X| + eps.
        flatten: What a parameter of more than two dimensions is, as Muon takes it.
        split: How many rows of a parameter are a matrix of their own, as Muon takes it.
        equilibrate: None or "rows", as Muon takes it.
        cautious: Whether the weight decays only where the update and the parameter have one sign.
        reproducible: Whether each matrix is multiplied by calls of its own, as Muon takes it.

    Example:
        >>> optimizer = altgrad.optim.NorMuon([model.weight], lr=0.02)
    """

    _template = "normuon"
    _hypers = {**BETAS, "beta": "beta2"}
    _unchecked = *Muon._unchecked, "red_dim"
    _keys = {**Muon._keys, "second": "second_momentum_buffer"}
    _of_units = "second",

    @constructor
    def __init__(self, params: ParamsT, lr: float = 0.02, weight_decay: float = 0.0, momentum: float = 0.95,
                 beta2: float = 0.95, nesterov: bool = True, ns_coefficients: Any = (3.4445, -4.775, 2.0315),
                 eps: float = 1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None, *,
                 betas: tuple[float, float] = (0.9, 0.95), use_muon: bool | Callable[[torch.Tensor], Any] = True,
                 red_dim: int | str = -1, ns_dtype: torch.dtype = torch.bfloat16, ns_length: str = "added",
                 flatten: bool | None = None, split: int | tuple[int, ...] | None = None,
                 equilibrate: str | None = None, cautious: bool = False, reproducible: bool = False,
                 **shared: Unpack[Shared]) -> None: ...

    def _kind_of(self, group):
        return *super()._kind_of(group), group["red_dim"]

    def _kind_with(self, kind, matrices):
        rule, options, *rest = kind
        turned = bool(matrices) and matrices.turned and "scale=match_rms" not in options  # which is the same
        return rule, options + ("shape=transposed",) * turned, *rest


def _parted(group, defaults):
    """The group, or two of them where a function says which of its parameters take Muon."""
    takes = group.get("use_muon", defaults["use_muon"]) if isinstance(group, dict) else None
    if not callable(takes):
        return [group]
    given = group["params"]
    entries = [given] if isinstance(given, torch.Tensor) else list(given)
    said = [bool(takes(entry[1] if isinstance(entry, tuple) else entry)) for entry in entries]
    return [{**group, "params": list(compress(entries, map(which.__eq__, said))), "use_muon": which}
            for which in (True, False) if which in said or (which and not said)]


def _dtype_of(given):
    """A torch.dtype, also of the word that a file has for it."""
    return getattr(torch, given.removeprefix("torch."), given) if isinstance(given, str) else given


def _coefficients(given, name="ns_coefficients"):
    """A set's name, or rows of numbers as the compiler reads them."""
    if isinstance(given, str):
        return given
    return "|".join("/".join(map(repr, row)) for row in rows_of(given, name))


def _check_iteration(group, where):
    """Raises ValueError for coefficients that the compiler cannot take, or not with these steps."""
    given, steps = group["ns_coefficients"], group["ns_steps"]
    if isinstance(steps, bool) or not isinstance(steps, numbers.Integral) or not 1 <= steps <= 99:
        raise ValueError(f"{where}: ns_steps is {steps!r}, no whole number of 1 to 99")
    if isinstance(given, str) and not given.isidentifier():
        raise ValueError(f"{where}: ns_coefficients is {given!r}, no name of a set")
    words = _coefficients(given, f"{where}: ns_coefficients")
    if (words, steps) == ("3.4445/-4.775/2.0315", 5):  # the defaults
        return
    # The compiler knows the sets, and which steps they are for.
    line = f"rule=muon{{coefficients={words},steps={steps}}} param=f32 grad=f32 states=f32"
    try:
        compile_sets([line], [find_template("muon")])
    except Error as error:
        why = re.search(r"'altgrad.orthogonalize' op has ([^\n]*)", str(error))
        if why is None:
            raise
        raise ValueError(f"{where}: ns_coefficients={given!r} and ns_steps={steps}: it has {why[1]}") from None
