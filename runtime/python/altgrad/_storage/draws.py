"""The seed of an optimizer that rounds stochastically or has random numbers, and the count of its steps that have drawn."""

from operator import index

import torch

from .._binding.layout import check_extent

# Keys of the param_groups: so torch saves and loads them with whatever a group has.
SEED, COUNT = "seed", "draws"
_HALF = 2 ** 63


def seeded(words, seed, drawn=False):
    """The entries of a param_group for the seed and the count; {} where no word rounds stochastically and no rule has `drawn`.

    Without a `seed` torch's generator gives one. Raises TypeError or ValueError.
    """
    if not drawn and not is_stochastic(words):
        if seed is not None:
            raise ValueError(f"seed={seed!r} is of no use: nothing is rounded stochastically, and no rule has random numbers; leave seed out")
        return {}
    if seed is None:
        seed = int(torch.randint(_HALF - 1, (), dtype=torch.int64, device="cpu"))
    if isinstance(seed, bool) or not hasattr(seed, "__index__"):
        raise TypeError(f"seed={seed!r} is no whole number")
    seed = index(seed)
    if not -_HALF <= seed < 2 * _HALF:
        raise ValueError(f"seed={seed} has more than 64 bits")
    return {SEED: (seed + _HALF) % (2 * _HALF) - _HALF, COUNT: _number(0, torch.device("cpu"))}


def is_stochastic(words):
    """Whether a word of a storage rounds by draws."""
    return any([_draws(name, word.split(",")[1:]) for name, word in words.items()])


def _draws(name, modifiers):
    rounded = {"nearest_even", "toward_zero"} & set(modifiers)
    return bool({"stochastic", "stochastic32"} & set(modifiers)) or (name == "rungs" and not rounded)


def bind_draws(optimizer, built):
    """Lets the steps of these Tables, which are new, draw by the optimizer's seed and count.

    The steps raise the count where it lies, so it is not copied after a step. Each device has a count of its own. All
    devices step together, and the groups hold the count of the first. From then on `built` notices if another tensor
    takes its place.
    """
    groups, tables = optimizer.param_groups, built.tables
    if COUNT not in optimizer.defaults:
        return
    kept = [group for group in groups if COUNT in group] or [optimizer.defaults]
    last, seed = _checked(kept[0][COUNT], kept[0].get(SEED, optimizer.defaults[SEED]))
    # A group that was added later has the seed of the defaults, even if a file has another one.
    given = [group[SEED] for group in groups if group.get(SEED) not in (None, optimizer.defaults[SEED])]
    if others := [other for other in given if other != seed]:
        raise ValueError(f"there is one {SEED} for all param_groups, not {seed} and {others[0]}")
    for group in groups:
        group[SEED], group[COUNT] = seed, last
    drawing = [table for table in tables if any([scalar.role == "random" for scalar in table.bundle.singles])]
    for place, table in enumerate(drawing):
        device = table.context.device
        count = last if place == 0 and last.device == device else _number(last, device)
        memory = {SEED: _number(seed, device), COUNT: count}
        table.bind_values([(number, memory[scalar.key])
                           for number, scalar in enumerate(table.bundle.singles)
                           if scalar.role == "random"])
        if place == 0:
            for group in groups:
                group[SEED], group[COUNT] = seed, count
    built.watch(groups[0], (SEED, COUNT))


def unshare(group, keys):
    """Gives a group its own tensors under these keys, so that they do not change with another group's."""
    for key in keys:
        if isinstance(group.get(key), torch.Tensor):
            group[key] = group[key].detach().clone()


def _checked(count, seed):
    """(count as a tensor with memory, seed) of a group; raises ValueError for what is neither."""
    if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < _HALF:
        count = _number(count, torch.device("cpu"))
    if not isinstance(count, torch.Tensor) or count.dtype != torch.int64 or count.numel() != 1:
        raise ValueError(f"{COUNT} of a param_group is {count!r}; it has to be an int64 tensor of one number")
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or not -_HALF <= seed < _HALF:
        raise ValueError(f"{SEED} of a param_group is {seed!r}; it has to be a signed whole number of 64 bits")
    check_extent(count)
    return count if count.data_ptr() else count.clone(), index(seed)


def _number(value, device):
    """A new 0-dim int64 tensor. Making it does not wait for the device."""
    with torch.inference_mode(False), torch.no_grad():
        memory = torch.empty((), dtype=torch.int64, device=device)
        if isinstance(value, torch.Tensor):
            return memory.copy_(value, non_blocking=device.type != "cpu")
        return memory.fill_(value)
