"""@ag.rule: a function that is run once, on names, and becomes the text of a rule."""

import importlib
import inspect
import re
import types
from collections.abc import Callable, Iterable, Mapping
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, overload

from .._library import Error
from ._errors import RuleError, code_of, fail, fail_at, location_of
from ._signature import Signature, of_entry
from ._text import write
from ._trace import now

if TYPE_CHECKING:
    from .._storage.line import StorageLike
    from ..optim import Optimizer


class Rule:
    """An optimizer's rule, made from a function by @ag.rule.

    Attributes:
        text: The rule and its entries as text, which FromRule, altgrad-opt and C++ take, with the options as they are chosen.
        options: The options by name, and whether they are on.
        entries: Its further steps by name, each a rule of its own.
    """

    def __init__(self, function: Callable[..., Any], of: str | None = None, chosen: "Mapping[str, bool]" = {}) -> None:
        update_wrapper(self, function)
        self._function, self._of, self._signature = function, of, Signature(function)
        for name, on in chosen.items():
            if name not in self._signature.options or not isinstance(on, bool):
                raise ValueError(f"rule @{function.__name__} has no option {name!r} that is {on!r}; there are "
                                 f"{', '.join(self._signature.options) or 'none'}, each True or False")
        self.options: dict[str, bool] = {**self._signature.options, **chosen}
        self._chosen, self._traced, self._entry_of = dict(chosen), None, None
        self.entries: dict[str, Rule] = {}

    @property
    def text(self) -> str:
        return "\n".join([text for text, *_ in self._traces()])

    def choose(self, **options: bool) -> "Rule":
        """The same rule with other options: adamw.choose(amsgrad=True)."""
        return self._with_entries(Rule(self._function, self._of, {**self._chosen, **options}))

    def entry(self, function: Callable[..., Any]) -> "Rule":
        """Makes a further step of a function, over the same parameters and states: `optimizer.eval()` for a function eval.

        Its states are those of the rule; what it only reads is an ag.Input. With an ag.Grad it runs on the parameters
        that have a gradient, without one on those that have its states. An ag.Step is the number of the last step. A
        hyper-parameter without a number is the rule's.

        Raises:
            RuleError: A state is none of the rule's, or the optimizer has a method of that name.
        """
        self.entries[function.__name__] = made = Rule(of_entry(function, self._signature))
        made._entry_of, self._traced = self.__name__, None
        return made

    def _with_entries(self, other):
        other.entries.update(self.entries)
        other._entry_of = self._entry_of
        return other

    def optimizer(self, storage: "StorageLike" = "", options: "str | Iterable[str] | Mapping[str, bool]" = (),
                  transforms: "Iterable[Any]" = (), **others: Any) -> "type[Optimizer]":
        """A class like torch's, which steps by this rule.

        Args:
            storage: In which formats states are stored, as FromRule takes it.
            options: The options that are on, or a mapping from options to whether they are on. Of a rule with
                ag.orthogonalize words such as "steps=8", too.
            transforms: A function under @ag.transform, or several, which change the gradient before the rule, or the new
                parameter after it, in this order.
            others: Refused: parameters and hyper-parameters belong to the class.

        Returns:
            A class whose constructor takes parameters, the hyper-parameters of the function and what all
            optimizers share. The same arguments give the same class. It can be pickled.

        Raises:
            RuleError: The function is no rule, or the compiler refuses it; at the function's line.
            ValueError: A word of the storage or an option is none.
            TypeError: What is given belongs to the class.
        """
        if others or not isinstance(storage, (str, Mapping)) and not hasattr(storage, "items"):
            numbers = "".join([f", {name}=…" for name in others])
            raise TypeError(f"{self.__name__}.optimizer() makes a class, which takes parameters and numbers: "
                            f"{self.__name__}.optimizer()(params{numbers})")
        from ._transform import Transform, compose
        if transforms:
            return compose(self, *([transforms] if isinstance(transforms, Transform) else transforms)).optimizer(storage, options)
        from .._rule import parse_options  # which imports torch
        chosen = dict(options) if isinstance(options, Mapping) else {name: True for name in parse_options(options)}
        words = tuple(name for name in chosen if name not in self.options and "=" in name)
        rule = self.choose(**{name: on for name, on in chosen.items() if name not in words})
        from ._optimizer import make, Recipe
        signature = self._signature
        recipe = Recipe(rule.text, self.__name__, inspect.cleandoc(self.__doc__ or f"The rule @{self.__name__} of a function."),
                        tuple(signature.hypers.items()), tuple(signature.pairs.items()), tuple(signature.options), self._of,
                        tuple([rule._step_of(name, one) for name, one in self.entries.items()]), tuple(rule._trace()[2].items()))
        try:
            return make(recipe, storage, words)
        except RuleError:
            raise
        except Error as error:
            raise _told(error, rule._traces()) from None
        except KeyError as taken:
            signature.fail(taken.args[0], f"the optimizer has a name {taken.args[0]!r} of its own: rename the hyper-parameter")

    def _step_of(self, name, entry):
        """The Step that an entry is."""
        from ._optimizer import Step as EntryStep
        own, pairs = entry._signature, self._signature.pairs
        return EntryStep(name, inspect.cleandoc(entry.__doc__ or f"The entry {name} of the rule @{self.__name__}."),
                    tuple([(key, value) for key, value in own.hypers.items() if key not in pairs and key not in self._signature.hypers]),
                    tuple([(part, pairs.get(part, place)) for part, place in own.pairs.items()]))

    def check(self, reference: Any, *, steps: int = 20, shapes: Any = ((5, 7), (33, 17)), seed: int = 0, arrays: str = "numpy",
              **hypers: Any) -> dict[str, float]:
        """Compares the rule with a reference in float64 over random steps, and prints the largest differences.

        Args:
            reference: A function of NumPy arrays with arguments of the same names, which returns what the rule
                returns, or a class of torch.optim's kind.
            steps: How many steps are compared.
            shapes: The shapes of parameters, one after another.
            seed: Of the random parameters and gradients.
            arrays: "numpy" or "torch": what the function gets.
            hypers: Hyper-parameters other than the rule's defaults.

        Returns:
            The largest difference of the parameter and of each state.
        """
        from ._check import check as compared
        return compared(self, reference, steps, shapes, seed, arrays, hypers)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """In the function of another rule: what this function returns there."""
        if now.get() is None:
            fail(f"a rule is not called with tensors: {self.__name__}.optimizer() makes a class of optimizers of it")
        return self._function(*args, **kwargs)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"<altgrad rule @{self.__name__} of {code_of(self._function).co_filename}:{code_of(self._function).co_firstlineno}>"

    def __reduce__(self) -> Any:
        # As a function: by its name in its module.
        return (_chosen, (self.__module__, self.__qualname__, self._chosen)) if self._chosen else self.__qualname__

    def _written(self):
        return {name: one._function for name, one in self.entries.items()}

    def _trace(self):
        """(the text without entries, where each of its lines is written, its options of ag.when)."""
        if self._traced is None:
            try:
                self._traced = write(self._signature, self.options, self._entry_of, self._written())
            except RuleError as error:
                raise error.with_traceback(None) from None
        return self._traced

    def _traces(self):
        """[(a text, where each of its lines is written, its signature)] of the rule and its entries, with the options that are
        chosen here and an entry has, too."""
        traces = [(*self._trace()[:2], self._signature)]
        for entry in self.entries.values():
            chosen = entry.choose(**{option: self.options[option] for option in entry.options if option in self.options})
            chosen._entry_of = self.__name__
            traces.append((*chosen._trace()[:2], entry._signature))
        return traces


def _chosen(module, name, options):
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found.choose(**options)


def _told(error, traces):
    """The compiler's error at the line of Python that its line was written for."""
    found = re.match(r"<rule>:(\d+):\d+: error: (.*)", str(error))
    all_places = [(place, signature) for _, places, signature in traces for place in places]
    if not found or int(found[1]) > len(all_places):
        return error
    at, signature = all_places[int(found[1]) - 1]
    words = re.sub(r"'%\d+'", "this value", found[2]).replace("'%", "'")
    words = re.sub(r"^'altgrad\.(\w+)' op (has )?", lambda op: op[1] + (" has " if op[2] else ": "), words)
    named = next((name for name in re.findall(r"'(\w+)'", words) if name in signature.order or name in signature.hypers), None)
    try:
        if at[1] < 0:
            signature.fail(named, words)
        fail_at(location_of(*at), words)
    except RuleError as told:
        return told.with_traceback(None)


@overload
def rule(function: Callable[..., Any], /) -> Rule: ...
@overload
def rule(*, of: str | None = None) -> Callable[[Callable[..., Any]], Rule]: ...


def rule(function: Any = None, *, of: str | None = None, **later: Any) -> Any:
    """Makes a rule of a function, which is run once, on names, when its text or a class is asked for.

    Arguments are annotated with what they are: ag.Param, ag.Grad, ag.State, ag.Unit, ag.Step, ag.Option. Those
    with a number are hyper-parameters. The function returns the new parameter and a dict of the new states.

    Args:
        of: "matrices" refuses parameters that have not two dimensions, when an optimizer is made.

    Raises:
        RuleError: An argument has no role, or one that is not there yet.
    """
    if {*later} & {"split", "flatten"}:
        fail(f"@ag.rule({', '.join(later)}=…): matrices in a parameter are said where it is: rule.optimizer()(parameters, split=64), or in a group")
    if later or of not in (None, "matrices"):
        fail(f"@ag.rule({', '.join(f'{key}=…' for key in later) or f'of={of!r}'}) is not there yet: today's is of=\"matrices\"")
    if function is None:
        return lambda function: rule(function, of=of)
    if isinstance(function, Rule) or not isinstance(function, types.FunctionType):
        fail(f"@ag.rule stands over a function, not over {function!r}")
    return Rule(function, of)
