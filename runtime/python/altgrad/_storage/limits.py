"""Warns of what a storage loses, as the manifest of a bundle says, and of words that do nothing."""

from .._binding.layout import FORMATS
from .._warn import warn
from .word import word_of

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


def warn_of_idle_words(owner, words, dtypes):
    """Warns once of each word that changes nothing for parameters of these dtypes."""
    for text in _idle(words, {FORMATS[dtype] for dtype in dtypes if dtype in FORMATS}):
        if (owner, text) not in _warned:
            _warned.add((owner, text))
            warn(f"altgrad.optim.{owner}: {text}")


def _idle(words, formats):
    """A sentence for each such word; `formats` are those of the parameters."""
    are = "all parameters are " + " or ".join(sorted(formats))
    param, master = words.get("param", ""), words.get("master", "")
    if param and "rungs" not in words and word_of(param).format not in formats:
        yield f"storage says param={param}, which does nothing: {are}"
    if master and word_of(master).split and "bf16" not in formats:
        yield f"storage says master={master}, which does nothing: {are}, and this master is of bf16 ones"
    elif master and formats == {"f32"}:
        yield (f"storage says master={master}, and {are}: each has a copy of itself, 4 bytes for each element; leave "
               f"master={master} out, or make the model bfloat16 first: model.to(torch.bfloat16)")
