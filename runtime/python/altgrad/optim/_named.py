"""An optimizer by name: which template it runs, and how the template's names map to torch's. No arithmetic here."""

import functools
from typing import Any

import torch

from .._binding.matrix_blocks import plain_key
from .._rule import find_rule
from .._storage.master import REMAINDER
from .._warn import warn
from ._ema import STATE
from ._entries import entry_of
from ._keywords import DEFAULTS, Init, check_numbers, meant, signature_of
from ._optimizer import Optimizer

BETAS = {"beta1": ("betas", 0), "beta2": ("betas", 1), "decay": "weight_decay"}
MAXIMIZE = {"maximize": lambda g: g["maximize"]}


class Named(Optimizer):
    """An optimizer of the library: a template under a constructor with the arguments of torch or of a paper.

    A class declares its `__init__` for the signature alone; `constructor` gives it the body.
    `_reference` is asked for the group's defaults and refuses bad arguments in torch's words.

    Args:
        lr: The learning rate, a number of at least 0 or a tensor of one element.
        betas: The decay rates of the running averages, each at least 0 and below 1.
        eps: A number from 0 that is added to the denominator.
        weight_decay: The factor of the weight decay, a number of at least 0.
        maximize: Whether the step ascends along the gradient.
        foreach: Accepted as torch accepts it. Every step is one program whatever it says.
        fused: Accepted as torch accepts it; torch's checks of dtypes apply.
        capturable: Accepted as torch accepts it; steps can be captured in a CUDA graph without it.
            With True, parameters on the CPU are refused, as torch refuses them.
        differentiable: Whether autograd goes through the step. torch's class then does the step.
        decoupled_weight_decay: Whether parameters decay by lr * weight_decay instead of through the gradient.

    Example:
        >>> optimizer = altgrad.optim.Named(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    """

    _hypers, _options = BETAS, MAXIMIZE
    _unchecked = ()  # arguments whose kind the class checks itself

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__init__" in cls.__dict__ and hasattr(cls.__init__, "defaults"):
            cls._older = {**cls.__init__.defaults, **cls.__dict__.get("_older", {})}

    def _start(self, given, explicit):
        """What a constructor does with its arguments, of which the caller gave those in `explicit`."""
        params = given.pop("params")
        shared = {name: given.pop(name) for name in DEFAULTS if name in given}
        check_numbers(type(self).__name__, given, {name: default for name, default in self._older.items()
                                                   if name in given and name not in self._unchecked})
        if self._reference is not None:
            example = torch.nn.Parameter(torch.zeros(1, dtype=torch.float32, device="cpu"))
            defaults = self._reference([example], **given).defaults
        else:
            check_arguments({name: value for name, value in given.items() if name not in self._unchecked})
            defaults = given
        Optimizer.__init__(self, params, defaults, **shared)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Loads a state_dict of this class or of torch's class of the same name. Every state of elements keeps its dtype.

        Args:
            state_dict: What `state_dict()` gave.

        Raises:
            ValueError, TypeError: As Optimizer's. Nothing has changed then.
        """
        super().load_state_dict(state_dict)
        for held in self.state.values() if self._tensor_states else ():
            # torch's numbers of a tensor are float32.
            held.update({key: held[key].to(torch.float64) for key in _declared(self._template, "scalar")
                         if isinstance(held.get(key), torch.Tensor)})
        self._warn_of_others()

    def _warn_of_others(self):
        """Says that what a file holds of some parameters is another class's alone."""
        own = {*self._keys.values(), *self._tensor_states, *self._file_states, *self._inputs, "master", REMAINDER, "copy", STATE}
        others = {key for group in self.param_groups if self._stored(self._options_of(group), self._storage_of(group))
                  for held in filter(None, map(self.state.get, group["params"])) if own.isdisjoint(map(plain_key, held))
                  for key in held if plain_key(key) not in ("step", self._count_key)}
        if others:
            name = f"altgrad.optim.{type(self).__name__}"
            warn(f"{name}: the file has {', '.join(map(repr, sorted(others, key=str)))} in the place of this class's states "
                 f"{', '.join(map(repr, self._keys.values()))}, so parameters begin anew: load a file of {name}, or rename its states")

    def _rule_of(self, group):
        return find_template(self._template)

    @property
    def _entries(self):
        return _find_entries(self._template)

    def _forget(self):
        # What the template declares beside states of elements, under its names there.
        scalars, rows, columns, *squares, self._step_states, self._inputs = [
            _declared(self._template, role)
            for role in ("scalar", "row", "column", "row_square", "column_square", "global", "input")]
        self._tensor_states = scalars + rows + columns + squares[0] + squares[1]
        super()._forget()


def constructor(init: Init) -> Init:
    """The __init__ of a Named class with this signature: some tools ask a class for it, others its constructor."""
    signature = signature_of(init)
    no_entries = "self", "params", "orthogonalize", "preset", "adamw", *DEFAULTS

    @torch._disable_dynamo
    @functools.wraps(init)
    def __init__(self, *positional, **keywords):
        keywords = self._new_words(keywords)
        try:
            bound = signature.bind(self, *positional, **keywords)
        except TypeError as error:
            known = [name for name in signature.parameters if name != "self"]
            unknown = [name for name in keywords if name not in known]
            hint = meant(unknown[0], known) if unknown and "unexpected keyword" in str(error) else ""
            raise TypeError(f"altgrad.optim.{type(self).__name__}: {error}{hint}") from None
        explicit = set(bound.arguments)
        bound.apply_defaults()
        given = dict(bound.arguments)
        del given["self"]
        self._start(given, explicit)

    __init__.__signature__ = signature
    __init__.defaults = {p.name: p.default for p in signature.parameters.values()
                         if p.name not in no_entries}
    return __init__


_templates = {}


def find_template(name):
    """The Rule of a template, read once per process."""
    if name not in _templates:
        _templates[name] = find_rule(name)
    return _templates[name]


@functools.cache
def _find_entries(template):
    rule = find_template(template)
    return {name: entry_of(rule, name) for name in rule.entries()}


@functools.cache
def _declared(name, role):
    return tuple(find_template(name).declared(role))


def check_arguments(given):
    """Refuses what torch's classes refuse, in the same words."""
    for name, words in (("lr", "learning rate"), ("eps", "epsilon value"),
                        ("weight_decay", "weight_decay value")):
        if isinstance(given.get(name), torch.Tensor) and given[name].numel() != 1:
            raise ValueError(f"Tensor {name} must be 1-element")
        value = given.get(name, 0.0)
        if not all([0.0 <= part for part in (value if isinstance(value, tuple) else (value,))]):
            raise ValueError(f"Invalid {words}: {given[name]}")
    if not 0 <= (bits := given.get("mantissa_bits", 0)) <= 23 or bits != int(bits):
        raise ValueError(f"Invalid mantissa_bits value: {bits}; it has to be a whole number of 0 to 23")
    for index, beta in enumerate(given.get("betas", ())):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
