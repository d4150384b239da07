"""An optimizer class from a rule's text: hyper-parameters and defaults come from the rule."""

import copyreg
import inspect
import keyword
import os
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.optim.optimizer import ParamsT

from .._bundle import compile_sets
from .._core import check_matrices
from .._library import Error
from .._rule import SCOPES, find_rule, parse_options, set_line
from .._storage.line import Storage, StorageLike
from .._storage.step_states import states_of_step
from .._storage.streams import check_streams
from .._storage.word import check_words, word_of
from ._checks import check_hypers
from ._entries import check_entry, entry_of, method_of, program_of
from ._keywords import check_numbers, DEFAULTS, meant, parameters_of, Shared
from ._optimizer import Optimizer
from ._owners import MatrixOwners
from ._shapes import PARTS, PartsOfMatrices
from ._timed import Every, Timed, check_timed

# What a param_group or a constructor has of its own: no hyper-parameter can be called so.
TAKEN = {"self", "params", "param_names", "norm_history", "draws", "differentiable", "capturable", "foreach",
         "fused", "skipped_steps", "counted_steps", "clipped_steps", *Optimizer._renamed, *DEFAULTS}
# The storage is the class's own.
_SHARED = [parameter for parameter in parameters_of(Shared) if parameter.name != "storage"]

# Roles of states that are kept as the rule computes them, whatever the storage says.
_NUMBERS = "unit", "row", "column", "scalar", "global"


class _Made(type(Optimizer)):
    """The class of classes that a call made: they pickle as that call."""


class _FromRule(PartsOfMatrices, Optimizer, metaclass=_Made):
    _rule = None
    _chosen = ()
    _multiplies = None  # the Bundle of a rule with products of matrices
    _fixed_storage = True
    _iterates = False  # whether orthogonalize is in it
    _takes = None  # "matrices": parameters of two dimensions alone

    @torch._disable_dynamo
    def __init__(self, params: ParamsT, **given: Any):
        given = self._new_words(given)
        shared = {key: given.pop(key) for key in [parameter.name for parameter in _SHARED] if key in given}
        parts = {key: given.pop(key) for key in PARTS if key in given and self._iterates}
        if "storage" in given:
            raise TypeError(f"rule @{self._rule.name}: the class has its storage already; give it to FromRule, which "
                            "takes storage=")
        unknown = sorted(set(given) - set(self._older))
        options = [key for key in unknown if key in self._rule.options()]
        if options:
            raise TypeError(f"{', '.join(options)} of rule @{self._rule.name} is an option, which is chosen when "
                            f"the class is made: FromRule(..., options={options})")
        if unknown:
            raise TypeError(f"rule @{self._rule.name} has no hyper-parameter {', '.join(unknown)}"
                            + meant(unknown[0], self._older))
        check_numbers(type(self).__name__, given, {key: value for key, value in self._older.items()
                                                   if value is not None})
        missing = [key for key, value in self._older.items() if value is None and key not in given]
        if missing:
            raise TypeError(f"rule @{self._rule.name} gives no default to {', '.join(missing)}")
        check_hypers({**self._older, **{key: tuple(value) if isinstance(self._older[key], tuple) else value
                                        for key, value in given.items()}})
        super().__init__(params, {**self._older, **given, **parts}, **shared)

    def _check_group(self, group, where):
        check_parameters(self, type(self), group, [of is group for of in self.param_groups].index(True))

    def _rule_of(self, group):
        return self._rule

    def _options_of(self, group):
        return self._chosen + self._units_word(self._chosen)

    def _hyper_place(self, name):
        return name, None


def check_parameters(optimizer, kind, group, place):
    """Raises ValueError where the rule of a class multiplies matrices or is of matrices, and a parameter of a group is none."""
    if given := [key for key in PARTS if key in group and not kind._iterates]:
        raise ValueError(f"altgrad.optim.{type(optimizer).__name__}, group {place}: {', '.join(given)} is for rules with orthogonalize")
    for index, param in enumerate(group["params"]):
        where = f"altgrad.optim.{type(optimizer).__name__}: parameter {index} of group {place}"
        try:
            if optimizer._matrices_of(group, param):
                continue
        except ValueError as error:
            raise ValueError(f"{where} {error}") from None
        if kind._takes == "matrices" and param.dim() != 2:
            raise ValueError(f"{where} of shape {tuple(param.shape)} is no matrix, and the rule is of matrices: give it parameters "
                             "of two dimensions")
        if kind._multiplies:
            check_matrices(kind._multiplies, 0, param.shape, param.stride(), where)


def FromRule(source: "str | os.PathLike[str]", storage: StorageLike = "",
             options: "str | Iterable[str] | Mapping[str, bool]" = (), name: str | None = None,
             entries: "Iterable[str]" = (), timed: "Mapping[str, int]" = {}) -> "type[_FromRule]":
    """An optimizer class that runs a rule of your own.

    The constructor of the class takes `params`, the rule's hyper-parameters as keywords with the rule's
    defaults, and the keywords that all optimizers share. Hyper-parameters lie in the param_groups, as torch's
    do. States are kept under the names that the rule gives them, the step count as "step", a master copy as
    "master". The class can be pickled.

    Args:
        source: The path of a file (with a separator or the ending .mlir), the text of a rule, or the name of a
            template of the library such as "adamw". templates/Language.md describes the language.
        storage: In which formats the states, a master copy of the parameter and further copies of it are
            stored, and how they are rounded: an altgrad.optim.Storage, a storage line such as "m=bf16 master=f32", or
            a dict. What it does not name is stored as the parameter is. templates/Storage.md describes every
            word. With a master, a value that is written into the parameter between steps is taken over into the
            master, except for writes through `.data`, which leave no trace.
        options: The rule's options that are on: a name, several names, or a mapping from names to whether they
            are on. Of a rule with `altgrad.orthogonalize` words such as "steps=8", too. Its class and its groups take
            `split` and `flatten`, as altgrad.optim.Muon has them: which matrices a parameter holds.
        name: Which rule of the source is meant, where it holds several.
        entries: Names of further steps over the same parameters and states, each of which becomes a method, beside those that
            stand below the rule as `entry`: for "eval" the source holds a rule that is called as the first one with `_eval` behind.
        timed: Options that are on in some steps only, of each parameter by its own count: 0 for the first step, k for every
            k-th one after it, as in {"first": 0, "refresh": 10}. The step with them is a program of its own over the same
            states.

    Returns:
        A subclass of altgrad.optim.Optimizer. The same arguments give the same class.

    Raises:
        altgrad.Error: There is no such file, template or rule, or the compiler refuses the rule; in its own words.
        ValueError: A word of the storage or an option is none, or the rule uses a name that is taken.

    Example:
        >>> Mine = altgrad.optim.FromRule("my_rule.mlir", storage="m=bf16", options=["maximize"])
        >>> optimizer = Mine(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    """
    words, options, entries, timed = Storage(storage), parse_options(options), tuple(entries), dict(timed)
    rule = find_rule(source, name, entries)
    entries = tuple(dict.fromkeys([*rule.entries(), *entries]))
    check_streams(storage, f"rule @{rule.name}", rule.declared("state"),
                  others={own: stream for stream in ("param", "grad", "step") for own in rule.declared(stream)},
                  numbers={own: SCOPES[role] for role in _NUMBERS for own in rule.declared(role)})
    check_timed(timed, rule)
    recipe = rule, str(words), options, entries, tuple(timed.items())
    if recipe not in _made:
        _made[recipe] = _make(*recipe)
    return _made[recipe]


_made = {}


def _make(rule, storage, options, entries, timed):
    for name in entries:
        check_entry(_FromRule, name, f"rule @{rule.name}")
    # An f32 model is the likely one: its program is ready when the first step comes.
    words = Storage(storage)
    first = "bf16" if word_of(words.get("master", "")).split else "f32"
    words = {"param": first, "grad": first, "states": "f32" if "master" in words else "param", "step": "f32", **words}
    steps = {name: entry_of(rule, name) for name in entries}
    try:
        programs = [program_of(step, rule, options) for step in steps.values()]
        alone = [name for name in _elements(*programs) if name not in _elements(compile_sets([set_line(rule, options, {})], [rule]))]
        bundle = compile_sets([set_line(rule, options, {name: word for name, word in words.items() if name not in alone})], [rule])
    except Error as error:
        if error.status != "INVALID":
            raise
        raise ValueError(f"rule @{rule.name}: {error}: rename it") from None
    part, = bundle.sets
    keys = {name: name for name in [*_elements(bundle), *alone]}
    hypers, methods = _hypers(bundle), {}
    for (name, step), program in zip(steps.items(), programs):
        hypers |= {key: value for key, value in _hypers(program).items() if hypers.get(key) is None}
        methods[name] = method_of(name, f"The rule @{step.name}, over the same parameters and states.")
    step_states = tuple(dict.fromkeys([scalar.key for one in (bundle, *programs) for scalar in states_of_step(one).values()]))
    _check_names(rule, hypers, "hyper-parameter")
    _check_names(rule, step_states, "state of the step")
    check_words(Storage(words))
    iterates = bool(part.multiplies) and rule.iterates()
    whole = part.multiplies or part.columns or any([stream.of_units for stream in part.states])
    bases = *[Timed] * bool(timed), *[MatrixOwners] * bool(whole), _FromRule
    made = _Made(_title(rule.name), bases, {
        "_timed": {name: Every(every) for name, every in timed}, **methods, "_entries": steps,
        "__doc__": _doc(rule, hypers), "__module__": __name__, "__signature__": signature_for(hypers, iterates),
        "_rule": rule, "_chosen": options, "_storage": storage, "_older": hypers, "_keys": keys, "_step_states": step_states,
        "_inputs": tuple([stream.key for stream in part.states if stream.role == "input"]),
        "_entry_states": tuple(alone),
        "_tensor_states": tuple(dict.fromkeys([stream.state for one in (bundle, *programs) for stream in one.sets[0].states
                                               if stream.role == "state" and stream.key not in keys])),
        "_multiplies": bundle if part.multiplies else None, "_iterates": iterates,
        "_draws": any([single.role == "random" for single in bundle.singles]),
        "_recipe": (FromRule, (rule.text if rule.text is not None else rule.name, storage, options, rule.name, entries, timed)),
    })
    return made


def _elements(*bundles):
    """The states of elements of these programs."""
    return [*dict.fromkeys([stream.key for bundle in bundles for stream in bundle.sets[0].states
                            if stream.role == "state" and stream.block and not stream.geometry])]


def _hypers(bundle):
    return {hyper.key: hyper.default if hyper.has_default else None for hyper in bundle.sets[0].hypers}


def _doc(rule, hypers):
    described = [f"    {key}: A hyper-parameter of the rule. Every param_group has its own." for key in hypers]
    return "\n".join([f"The rule @{rule.name} of {rule.origin}.", "", *["Args:"] * bool(hypers), *described])


def _check_names(rule, names, kind):
    """Refuses names of entries of a param_group that the optimizer uses itself."""
    for key in names:
        if key in TAKEN or keyword.iskeyword(key) or not key.isidentifier():
            raise ValueError(f"rule @{rule.name} has a {kind} {key!r}, a name that is taken "
                             "or not allowed in Python: rename it")


def signature_for(hypers, iterates=False):
    kind, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    own = [inspect.Parameter(key, kind, default=empty if value is None else value, annotation=float)
           for key, value in hypers.items()]
    own += [inspect.Parameter(key, kind, default=None) for key in PARTS if iterates]
    first = inspect.Parameter("params", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=ParamsT)
    return inspect.Signature([first, *own, *_SHARED])


def _title(name):
    return "".join(part.capitalize() for part in name.split("_")) or name


def _reduce(made):
    recipe = made.__dict__.get("_recipe")
    return recipe or made.__qualname__


copyreg.pickle(_Made, _reduce)
