"""The class of optimizers of a rule: FromRule's, with the hyper-parameters and the documentation of the function."""

from typing import Any, NamedTuple

import torch
from torch.optim.optimizer import ParamsT

from .._storage.line import Storage, StorageLike
from ..optim._describe import arguments, sections
from ..optim._entries import method_of
from ..optim._from_rule import FromRule, TAKEN, signature_for
from ..optim._timed import Timed
from ._when import When


class Step(NamedTuple):
    """What a method is made of that runs an entry."""

    name: str
    doc: str
    hypers: "tuple[tuple[str, Any], ...]"
    places: "tuple[tuple[str, tuple[str, int | None]], ...]"


class Recipe(NamedTuple):
    """All that a class is made of. It needs no function, so the class is pickled as this."""

    text: str
    name: str
    doc: str
    hypers: "tuple[tuple[str, Any], ...]"
    places: "tuple[tuple[str, tuple[str, int | None]], ...]"  # of the text's hyper-parameters
    options: "tuple[str, ...]"
    of: str | None
    entries: "tuple[Step, ...]" = ()
    timed: "tuple[tuple[str, When], ...]" = ()  # the options of ag.when


_made: dict = {}


def make(recipe: Recipe, storage: StorageLike, words: "tuple[str, ...]") -> type:
    """The class for a recipe and a storage; the same one for the same. Raises KeyError for a name that is taken."""
    key = recipe, str(Storage(storage)), words
    if key not in _made:
        hypers, places = dict(recipe.hypers), dict(recipe.places)
        for step in recipe.entries:
            hypers, places = {**hypers, **dict(step.hypers)}, {**dict(step.places), **places}
        for name in [*hypers, *places]:
            if name in TAKEN:
                raise KeyError(name)
        base = FromRule(recipe.text, storage, words, recipe.name)
        kinds = (_OfFunction, Timed, base) if recipe.timed else (_OfFunction, base)
        _made[key] = type(base)(base.__name__, kinds, {
            "_timed": dict(recipe.timed),
            "__doc__": _doc(recipe.doc, hypers), "__module__": __name__, "__signature__": signature_for(hypers, base._iterates),
            "_older": hypers, "_hypers": {part: place if place[1] is not None else place[0] for part, place in places.items()},
            **{step.name: method_of(step.name, step.doc) for step in recipe.entries},
            "_chooses": recipe.options, "_takes": recipe.of, "_recipe": (make, key)})
    return _made[key]


class _OfFunction:
    """What such a class refuses, in the words of its rule."""

    _chooses = ()

    @torch._disable_dynamo
    def __init__(self, params: ParamsT, **given: Any):
        for name in [name for name in ("storage", *self._chooses) if name in given]:
            words = "storage=…" if name == "storage" else f"options={{{name!r}: {given[name]!r}}}"
            raise TypeError(f"{name} of rule @{self._rule.name} is chosen when the class is made: {self._rule.name}.optimizer({words})")
        super().__init__(params, **given)

    def _hyper_place(self, name):
        place = self._hypers.get(name, name)
        return place if isinstance(place, tuple) else (place, None)


def _doc(doc, hypers):
    """The function's documentation with a line for each hyper-parameter."""
    found = sections(doc)
    described = arguments(found.pop("Args", ""))
    rows = [described.pop(key, f"    {key}: A hyper-parameter of the rule. Every param_group has its own.") for key in hypers]
    parts = [found.pop("")] + ["Args:\n" + "\n".join(rows)] * bool(rows)
    return "\n\n".join(parts + [f"{title}:\n{words}" for title, words in found.items()])
