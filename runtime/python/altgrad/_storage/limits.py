"""Warns of what a storage loses; the manifest of a bundle says where its formats lose something."""

from .._warn import warn

_warned = set()


def warn_of_limits(owner, bundle, cells, storages, numbers):
    """Warns once for each loss of a stream that the Storage of its param_group names, with these hyper-parameters.

    `cells` are (group, set) of a plan, `storages` those of all groups, `numbers` all their hyper-parameters in turn. What
    follows from a parameter's dtype alone is torch's, and nothing is said of it.
    """
    numbers = iter(numbers)
    for group, index in cells:
        part = bundle.sets[index]
        values = {hyper.key: next(numbers) for hyper in part.hypers}
        for limit in bundle.limits:
            named = {"param"} if limit.stream == part.param.key else {limit.stream, "states"}
            if limit.set != index or not named & storages[group].keys() or limit in _warned:
                continue
            if not limit.hyper or limit.above < values[limit.hyper] < limit.below:
                _warned.add(limit)
                warn(f"altgrad.optim.{owner}: {limit.text}")
