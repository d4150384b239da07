"""State dicts that torch.distributed.checkpoint loads from files which lack some of their keys.

Its planner asks a file for every key in memory, and state_dict() is called before anybody knows the file. A plan begins
with a walk through all dicts, in a function that has the file's keys at hand. A MayLack, a dict, takes out then what
the file has not and load_state_dict can do without: it is a param_group or the states of a parameter, and in a flat
state dict, of which torch makes the dict, an entry beside others for the same parameter, of which no file has anything.
"""

import copy
import sys
from collections import OrderedDict

from .._binding.group_rules import BOUND
from .storage_line import LINE
from .draws import COUNT, SEED
from .history import HISTORY
from .master import extra_keys
from .portable import callers

_GROUPS, _STATE = "param_groups", "state"
# The key of an entry that is a MayLack.
_MARK = "may_lack"


def may_lack(optimizer, given):
    """The state_dict `given` of an optimizer, into which torch.distributed.checkpoint loads files that lack some keys."""
    of = callers()
    info = of.get("_get_optim_state_dict", {}).get("info")
    if info is None or "_load_optim_state_dict" in of or info.full_state_dict or info.cpu_offload:
        return given  # nobody plans a load into it, or torch makes other dicts of all
    groups, states = _names(optimizer)
    if info.flatten_optimizer_state_dict:
        mark = MayLack({}, {_GROUPS: groups, _STATE: states})
        return {**given, _GROUPS: [{**group, _MARK: mark} for group in given[_GROUPS]]}
    held = {place: MayLack(entry, states) if type(entry) is dict else entry for place, entry in given[_STATE].items()}
    return {**given, _GROUPS: [MayLack(group, groups) for group in given[_GROUPS]], _STATE: held}


def _names(optimizer):
    """The keys that a group of a file may lack, and those that the states of a parameter may."""
    groups = {BOUND, LINE, SEED, COUNT, HISTORY, *optimizer._step_states, *optimizer._counters.KEYS, *optimizer._older}
    states = {"ema"}.union(*map(extra_keys, optimizer._storages()))
    blocks = max([optimizer._blocks_of(group, param, {}) for group in optimizer.param_groups for param in group["params"]], key=len,
                 default=[None])
    return groups, states.union(*[block.named(dict.fromkeys(states)) for block in blocks if block])


def from_flat(optimizer, given):
    """A state_dict as of any other file, where torch has made it of a flat one: with the counts of steps and the states
    of other names than in memory, of which torch takes neither, and without the entries {} for what the file lacks."""
    flat = callers().get("_load_optim_state_dict", {}).get("state_dict") or {}
    if not flat or _STATE in flat:
        return given
    groups, (of_groups, of_states) = list(given[_GROUPS]), _names(optimizer)
    if groups and groups[0]["params"]:
        keys = {f"{_GROUPS}.{groups[0]['params'][0]}.{name}": name for name in optimizer._counters.KEYS}
        groups[0] = {**groups[0], **{name: flat[key] for key, name in keys.items() if key in flat}}
    return {**given, _GROUPS: [_without_empty(group, {*of_groups, _MARK}) for group in groups],
            _STATE: {place: _without_empty(_with_others(optimizer, flat, place, entry), of_states)
                     for place, entry in given[_STATE].items()}}


def _with_others(optimizer, flat, place, entry):
    """An entry of a file with the states that only files have, in place of those that only memory has."""
    keys = {f"{_STATE}.{place}.{key}": key for key in optimizer._file_states}
    others = {key: flat[name] for name, key in keys.items() if name in flat}
    return {key: value for key, value in (entry | others).items() if not others or type(value) is not dict or value}


def _without_empty(entry, keys):
    """An entry of a file without those of these keys whose value is {}."""
    return {key: value for key, value in entry.items() if key not in keys or type(value) is not dict or value}


class MayLack(dict):
    """Entries of which a file may lack those with some names; in a flat state dict, {where: names} of those beside it."""

    def __init__(self, entries, names):
        super().__init__(entries)
        self._names, self._known = names, None

    def items(self):
        state_dict, metadata = _planned()
        if metadata is not None and metadata is not self._known:
            _take_out(state_dict, metadata)
        return super().items()

    def _take_out(self, holder, path, metadata):
        self._known, lacks = metadata, lambda *path: ".".join(map(str, path)) not in metadata.state_dict_metadata
        if not isinstance(self._names, dict):
            for name in self._names & self.keys():
                if lacks(*path, name):
                    del self[name]
            return
        *outer, mark = path
        name_of_param = mark.removeprefix(f"{_GROUPS}.").removesuffix(f".{_MARK}")
        for where, names in self._names.items():
            for key in [f"{where}.{name_of_param}.{name}" for name in names]:
                if key in holder and lacks(*outer, key):
                    holder[key] = {}  # torch asks for the key when it makes groups of it

    def __deepcopy__(self, memo):
        return MayLack(copy.deepcopy(dict(self), memo), self._names)

    def __reduce__(self):
        return OrderedDict, (), None, None, iter(super().items())  # which torch.load takes with weights_only


def _planned():
    """(state_dict, metadata of the file) of a load that is being planned; (None, None) where none is."""
    frame = sys._getframe(2)
    while frame and frame.f_code.co_name != "set_up_planner":
        frame = frame.f_back
    variables = frame.f_locals if frame else {}
    return variables.get("state_dict"), variables.get("metadata")


def _take_out(tree, metadata, path=()):
    for key, value in enumerate(tree) if isinstance(tree, (list, tuple)) else list(dict.items(tree)):
        if isinstance(value, MayLack):
            value._take_out(tree, (*path, key), metadata)
        elif isinstance(value, (dict, list, tuple)):
            _take_out(value, metadata, (*path, key))
