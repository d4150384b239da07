"""Warnings of what a storage loses: the compiler says in a manifest where its formats do."""

from .._warn import warn

_said = set()


def warn_of_limits(owner, bundle, cells, words, numbers):
    """Says what the streams that `words` name lose with these hyper-parameters, each once.

    `cells` are (group, set) of a plan, `numbers` all their hyper-parameters in turn. What
    follows from a parameter's dtype alone is torch's, and nothing is said of it.
    """
    numbers = iter(numbers)
    for _, index in cells:
        part = bundle.sets[index]
        values = {hyper.key: next(numbers) for hyper in part.hypers}
        for limit in bundle.limits:
            named = {"param"} if limit.stream == part.param.key else {limit.stream, "states"}
            if limit.set != index or not named & words.keys() or limit in _said:
                continue
            if not limit.hyper or limit.above < values[limit.hyper] < limit.below:
                _said.add(limit)
                warn(f"altgrad.optim.{owner}: {limit.text}")
