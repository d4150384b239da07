"""State dicts that torch.distributed.checkpoint loads from files which lack some of their keys.

Its planner asks a file for every key in memory, and state_dict() is called before anybody knows the file. A plan begins
with a walk through all dicts, in a function that has the file's keys at hand. A MayLack, a dict, takes out then what the
file has not and load_state_dict can do without: it is a param_group or the states of a parameter, and in a flat state
dict, of which torch makes the dict, an entry beside others for the same parameter, of which no file has anything.
"""

import copy
import sys
from collections import OrderedDict

from .._binding.kinds import BOUND
from .described import LINE
from .draws import COUNT, SEED
from .history import HISTORY
from .master import names_beside
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
    groups = {BOUND, LINE, SEED, COUNT, HISTORY, *optimizer._tallies.KEYS, *optimizer._older}
    states = names_beside(optimizer._words)
    if info.flatten_optimizer_state_dict:
        mark = MayLack({}, {_GROUPS: groups, _STATE: states})
        return {**given, _GROUPS: [{**group, _MARK: mark} for group in given[_GROUPS]]}
    held = {place: MayLack(of, states) if type(of) is dict else of for place, of in given[_STATE].items()}
    return {**given, _GROUPS: [MayLack(group, groups) for group in given[_GROUPS]], _STATE: held}


def with_counts(optimizer, given):
    """A state_dict with the counts of steps of a flat file, of which torch takes only what groups have in memory."""
    flat = callers().get("_load_optim_state_dict", {}).get("state_dict") or {}
    if not flat or _STATE in flat or not given[_GROUPS] or not given[_GROUPS][0]["params"]:
        return given
    first, *others = given[_GROUPS]
    keys = {f"{_GROUPS}.{first['params'][0]}.{name}": name for name in optimizer._tallies.KEYS}
    return {**given, _GROUPS: [{**first, **{name: flat[key] for key, name in keys.items() if key in flat}}, *others]}


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
    said = frame.f_locals if frame else {}
    return said.get("state_dict"), said.get("metadata")


def _take_out(tree, metadata, path=()):
    for key, value in enumerate(tree) if isinstance(tree, (list, tuple)) else list(dict.items(tree)):
        if isinstance(value, MayLack):
            value._take_out(tree, (*path, key), metadata)
        elif isinstance(value, (dict, list, tuple)):
            _take_out(value, metadata, (*path, key))
