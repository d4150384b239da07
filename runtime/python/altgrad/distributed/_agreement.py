"""What the ranks of an optimizer have to agree in, and the hooks that give it their gradients."""

from enum import IntEnum
from operator import is_

import torch
from torch.utils.weak import WeakIdKeyDictionary

from .._binding.layout import is_dtensor
from ._files import REMEDY

# {parameter: its hook} of the optimizer that was made for it last.
_HOOKS = WeakIdKeyDictionary()


class Change(IntEnum):
    """What became of the parameters of an optimizer since they were laid out."""

    NONE, REGROUPED, OTHERS, REFUSED = range(4)


def hook(param, ready):
    """Gives each gradient of a parameter to `ready`, a WeakMethod, while its optimizer is there, and no longer to an
    earlier one."""
    if param in _HOOKS:
        _HOOKS.pop(param).remove()
    _HOOKS[param] = param.register_post_accumulate_grad_hook(lambda param: (method := ready()) and method(param))
    return _HOOKS[param]


def parameters_of(groups):
    """The parameters of each group, in lists of their own."""
    return [list(of["params"]) for of in groups]


def are_same(laid, groups):
    """Whether groups have the parameters of these lists, which others may have changed."""
    return len(laid) == len(groups) and all([len(some) == len(of["params"]) and all(map(is_, some, of["params"]))
                                             for some, of in zip(laid, groups)])


def _may_follow(optimizer, param):
    """Whether a parameter may lie elsewhere: before the first step, while no other optimizer was made for it."""
    return not optimizer._stepped and any([_HOOKS.get(param) is handle for handle in optimizer._hooks])


def find_change(optimizer):
    """(the Change of an optimizer's parameters since they were laid out, why it is refused or None)."""
    change, groups = Change.NONE, optimizer.param_groups
    if not are_same(optimizer._laid, groups):
        laid, given = [{id(param) for some in lists for param in some} for lists in (optimizer._laid, parameters_of(groups))]
        if laid != given or not optimizer._travels:
            if not any(optimizer.local_optimizer.state.values()):
                return Change.OTHERS, None
            return Change.REFUSED, ("param_groups have other parameters than those that it was made for, and it has states "
                                    f"of these: make another one, and {REMEDY}")
        change = Change.REGROUPED
    for param, (bucket, place) in optimizer._at.items():
        if not bucket.is_still(place) and not (_may_follow(optimizer, param) and bucket.follow(place)):
            return Change.REFUSED, (f"the memory of a parameter of shape {tuple(param.shape)} was replaced: make the "
                                    "optimizer once the model is where it stays")
    for param in optimizer._frozen:
        if param.requires_grad:  # it is in no bucket, and its ranks would drift apart
            return Change.REFUSED, (f"a parameter of shape {tuple(param.shape)} requires a gradient now, and was frozen "
                                    "when the optimizer was made: make it again")
    return change, None


def pack_changes(change, used, rank, ranks):
    """Numbers whose averages over all ranks say the Change that each of them found, and what is `used` on any."""
    return [change * (place == rank) for place in range(ranks)] + list(map(float, used))


def unpack_changes(averages, ranks, count):
    """(the Change that each rank found, which of `count` are used on any), from averages of words_of."""
    averages = averages[:ranks + count].tolist()
    return [round(number * ranks) for number in averages[:ranks]], [number > 0.0 for number in averages[ranks:]]


def check_changes(owner, changes, change, why):
    """Raises RuntimeError on every rank unless all of them found the same `change`, and one that can be followed."""
    if why:
        raise RuntimeError(f"{owner}: {why}")
    if (other := next((rank for rank, of in enumerate(changes) if of != change), None)) is not None:
        raise RuntimeError(f"{owner}: the parameters of rank {other} were replaced since the last step, and those of this one "
                           "were not, or in another way: all ranks have to change their model and groups alike")


def _comparable(options):
    """Options as all ranks say them: a tensor is on another device on each."""
    return sorted([(key, value.tolist() if isinstance(value, torch.Tensor) else value) for key, value in options.items()])


def _ranks_of(mesh):
    """The ranks of the mesh that a mesh is a part of; None where this torch does not say that. Parts differ between ranks."""
    root = getattr(mesh, "_get_root_mesh", lambda: None)()
    return None if root is None else root.mesh.tolist()


def check_same(owner, groups, ranks, words, *rest):
    """Raises ValueError on every rank unless all of them have the same parameters and options."""
    kinds = [[(tuple(param.shape), param.dtype, param.requires_grad,
               is_dtensor(param) and (param.placements, _ranks_of(param.device_mesh))) for param in of["params"]] for of in groups]
    facts = {f"{key} of group {index}": value for index, of in enumerate(groups) for key, value in _comparable(of)
             if key != "params"}
    facts |= dict(_comparable(words))
    if (other := ranks.agree(repr((kinds, facts, rest)))) is not None:
        if ranks.agree(repr(kinds)) is not None:
            raise ValueError(f"{owner}: rank {other} has other parameters than rank 0, or another order of them: give all ranks "
                             "the same ones, of the same shapes, dtypes and meshes, and those of meshes that a rank is not in, too")
        names = " and ".join(ranks.differences(facts)) or "its options"
        raise ValueError(f"{owner}: rank {other} differs in {names} from rank 0: options have to be the same on all ranks")
