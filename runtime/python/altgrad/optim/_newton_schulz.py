"""How a matrix is orthogonalized: the words of NewtonSchulz, which lie in Muon's param_groups one by one."""

import functools
import numbers
import re
from dataclasses import dataclass, fields
from typing import Any

import torch

from .._bundle import compile_sets
from .._coefficients import rows_of
from .._library import Error
from ._keywords import meant
from ._named import find_template

# The scale -> the word of altgrad.scale_by_shape
SCALES = {None: "original", "original": "original", "match_rms_adamw": "match_rms", "spectral_unclamped": "unclamped",
          "spectral": "spectral"}
DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}
# What an entry of a group may be.
KNOWN = {"adjust_lr_fn": tuple(SCALES), "ns_length": ("clamped", "added"), "ns_dtype": tuple(DTYPES),
         "equilibrate": (None, "rows"), "red_dim": (-1, "by_shape"), "flatten": (None, True, False),
         **dict.fromkeys(("nesterov", "cautious", "reproducible"), (True, False))}
# A field of NewtonSchulz -> the entry of a param_group that has it; three of them are keywords of torch.optim.Muon.
ENTRIES = {"steps": "ns_steps", "coefficients": "ns_coefficients", "scale": "adjust_lr_fn", "dtype": "ns_dtype",
           "length": "ns_length", "equilibrate": "equilibrate", "red_dim": "red_dim"}


@dataclass(frozen=True, kw_only=True)
class NewtonSchulz:
    """How Muon and NorMuon bring the singular values of a matrix near 1, for their keyword `orthogonalize`.

    What is None stays what the class, its preset, or torch's own keywords say. A param_group has each word as an entry
    of its own, under the name in parentheses; it may be given the object as "orthogonalize", too.

    Args:
        steps: The steps of the iteration, as many as the coefficients are for (ns_steps, torch's keyword).
        coefficients: The polynomial of the steps: three numbers, a tuple of them for each step, or the name of a set
            that `altgrad-opt --list-coefficients` describes, such as "polar_gns" (ns_coefficients, torch's keyword).
        scale: "original" is sqrt(max(1, rows / columns)), "match_rms_adamw" is 0.2 sqrt(max(rows, columns)),
            "spectral" is sqrt(max(rows, columns)), "spectral_unclamped" is sqrt(rows / columns) (adjust_lr_fn, torch's
            keyword).
        dtype: What the products take: torch.bfloat16, as torch's do, torch.float16 or torch.float32. In
            float16, from twice the shorter side on, and float32 elongated matrices take the Gram form, with fewer
            operations; in float16 not with coefficients that enlarge errors a thousandfold, such as "cans" (ns_dtype).
        length: What a matrix is divided by: "clamped", max(|X|, eps), as Muon has it, or "added", |X| + eps, as NorMuon
            has it (ns_length).
        equilibrate: "rows" divides each row by max(|row|, 1e-7) before the iteration, as MuonEq-R does (equilibrate).
        red_dim: NorMuon's alone, over which dimension the mean is: -1, that of each row, as in the paper's code
            (zichongli5/NorMuon); "by_shape", that of each column where a matrix has more columns than rows, as
            nanochat and Emerging-Optimizers have it. Wide matrices are stepped as their transposes then, which costs
            copies (red_dim).

    Raises:
        ValueError: A word is none of those.

    Example:
        >>> exact = altgrad.optim.NewtonSchulz(dtype=torch.float32, coefficients="polar_gns")
        >>> optimizer = altgrad.optim.Muon([model.weight], orthogonalize=exact)
    """

    steps: int | None = None
    coefficients: Any = None
    scale: str | None = None
    dtype: torch.dtype | None = None
    length: str | None = None
    equilibrate: str | None = None
    red_dim: int | str | None = None

    def __post_init__(self) -> None:
        for name, entry in ENTRIES.items():
            value = getattr(self, name)
            known = [of for of in KNOWN.get(entry, (value,)) if of is not None]
            if value is not None and value not in known:
                raise ValueError(f"altgrad.optim.NewtonSchulz: {name} is {value!r}, none of " + ", ".join(map(repr, known)))

    def __repr__(self) -> str:
        given = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return f"NewtonSchulz({', '.join(f'{name}={value!r}' for name, value in given if value is not None)})"


def _named(init):
    """The constructor with words about a keyword that is none."""
    @functools.wraps(init)
    def __init__(self, *positional, **given):
        for name in given.keys() - ENTRIES.keys():
            near = {entry: word for word, entry in ENTRIES.items()}.get(name, name)
            raise TypeError(f"altgrad.optim.NewtonSchulz got an unexpected keyword argument {name!r}" + meant(near, ENTRIES))
        init(self, *positional, **given)
    return __init__


NewtonSchulz.__init__ = _named(NewtonSchulz.__init__)


def entries_of(given, where):
    """What a NewtonSchulz says, as entries of a param_group. Raises TypeError for anything else."""
    if not isinstance(given, NewtonSchulz):
        raise TypeError(f"{where}: orthogonalize is {given!r}, not an altgrad.optim.NewtonSchulz")
    return {entry: getattr(given, name) for name, entry in ENTRIES.items() if getattr(given, name) is not None}


def dtype_of(given):
    """A torch.dtype, also of the word that a file has for it."""
    return getattr(torch, given.removeprefix("torch."), given) if isinstance(given, str) else given


def option_words(group):
    """The words of a rule's `altgrad.orthogonalize` that a group's entries ask for."""
    return (f"scale={SCALES[group['adjust_lr_fn']]}", f"coefficients={_coefficients(group['ns_coefficients'])}",
            f"in={DTYPES[dtype_of(group['ns_dtype'])]}", f"length={group['ns_length']}", f"steps={group['ns_steps']}")


def _coefficients(given, name="ns_coefficients"):
    """A set's name, or rows of numbers as the compiler reads them."""
    if isinstance(given, str):
        return given
    return "|".join("/".join(map(repr, row)) for row in rows_of(given, name))


def check_iteration(group, where):
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
