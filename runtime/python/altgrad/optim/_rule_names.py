"""How the names of a rule map to torch's groups and states: what a class of optimizers says about itself."""

from weakref import WeakKeyDictionary

import torch

from .._storage.line import Storage
from .._storage.master import extra_streams
from .._storage.storage_line import LINE, merged
from .._storage.word import class_of


class _InTable:
    """An attribute of classes that the library's table of classes has, which an import does not open."""

    def __init__(self, find):
        self._find, self._found = find, WeakKeyDictionary()

    def __get__(self, instance, owner):
        if owner not in self._found:
            named = [of for cls in owner.__mro__
                     if cls.__module__.startswith("altgrad.optim.") and (of := class_of(cls.__name__))]
            self._found[owner] = self._find(owner, named[0] if named else None)
        return self._found[owner]


class RuleNames:
    """Which rule, where its hyper-parameters, options and states are, and what states begin as: a class fills in the table."""

    _rule_of = None  # a method: the Rule of a param_group
    _options = {}  # {option: test of a group}
    _decides = ()  # keys of a group that say of each of its parameters which rule and which matrices it has
    _spelled = {}  # {option: what the user writes for it, where that is no keyword of its name}
    _hypers = {}  # {hyper: key of a group, or (key, index)}
    _computed = ()  # keys of a group that are made of arguments
    _absent = ()  # keys that may be None, which stands for 0
    _template = _InTable(lambda _, of: of and of.rule)
    _keys = _InTable(lambda _, of: of.keys if of else {})  # {state of the rule: key in `state`}
    _fixed_storage = False  # whether the class has its storage, and not its constructor
    _steps_wholes = False  # whether a rank that steps a parameter needs all of it
    _of_units = ()  # states with one value for each unit of a parameter
    _inputs = ()  # tensors beside each parameter that are only read
    _tensor_states = ()  # keys of states with one number for each parameter, which may be wide
    _file_states = ()  # keys of states that are in files in the place of others
    _step_states = ()  # states that are one number for the step, which lie in the first param_group
    _only_with = {}  # {state: option without which there is none}
    _storage = _InTable(lambda _, of: of.storage if of else "")  # formats that differ from the parameter's
    _older = {}  # what a group from an older checkpoint may lack
    _watched_keys = property(lambda self: self._older.keys())  # the keys of a group whose numbers a step reads
    _reference = None  # torch's class of the same name
    _takes_sparse = False  # whether that takes sparse gradients
    _words = _InTable(lambda cls, _: Storage(cls._storage))
    _wide = frozenset()  # the parameters that are said to keep float32 states where the storage says blocks
    _count_key = "step"
    _clips = True  # whether the bound of the groups holds
    _entries = {}  # {entry: its rule}
    _entry_states = ()  # states that the rule has for its entries alone
    _always_counts = False
    _timed = {}  # {option that is on in some steps: an Every, or a When of a rule in Python}

    def _entries_of(self, group):
        return self._entries

    @classmethod
    def _spelled_with(cls):
        """{state: what the user writes so that there is one}, of those that have a word in a storage line."""
        return {name: cls._spelled.get(option, option.removesuffix("_on")) for name, option in cls._only_with.items()
                if name in cls._keys}

    def _timed_of(self, group):
        return self._timed

    def _hyper_place(self, name):
        place = self._hypers.get(name, name)
        return place if isinstance(place, tuple) else (place, None)

    def _storage_of(self, group):
        """The Storage of a param_group, which may say more than the optimizer's."""
        line = group.get(LINE)
        return self._words if line is None else merged(self._words, line, tuple(self._keys.items()))

    def _storages(self):
        """The Storages that there are, one for each param_group."""
        return list(map(self._storage_of, getattr(self, "param_groups", ()))) or [self._words]

    def _unstored(self, options):
        """The states of the rule that a step with these options leaves alone."""
        return self._entry_states

    def _stored(self, options, words):
        """(the compiler's word, key in state) of everything that is stored with these options in a Storage."""
        return [(name, key) for name, key in self._keys.items() if name not in (*self._of_units, *self._unstored(options))
                and self._only_with.get(name) in (None, *options)] + [(name, name) for name in self._inputs] + extra_streams(words)

    def _begins_late(self, name, options):
        """Whether a state may begin with these options beside others that are there already."""
        return self._only_with.get(name) in options

    def _options_of(self, group):
        return tuple(name for name, test in self._options.items() if test(group))

    def _encode_groups(self, groups):
        """The param_groups of a file."""
        return groups

    def _unit_of(self, options, matrices):
        """How many elements each unit of a parameter with these matrices has, if the rule reduces over units, else 0."""
        return 0

    def _begin_state(self, row, key, state):
        """Fills a new state of the rule that does not begin with zeros."""

    def _first_differs(self, group):
        """Whether the first step of a state is another than the later ones, though the state does not count them."""
        return False

    def _not_begun(self):
        """The ids of the parameters whose states a first step made that a scaler skipped: torch's class, which was not
        called then, has none, so a file and a copy have none, either."""
        params = [param for group in self.param_groups if self._first_differs(group)
                  for param in group["params"] if param in self._counts]
        return {id(param) for param, count in zip(params, _numbers([self._counts[param] for param in params]))
                if count == 0.0}

    def _before_torch(self, param, group):
        """Makes of a parameter's state one that torch's class goes on from."""
        count = self._counts.pop(param, None)
        if count is not None and count == 0:
            # A skipped step made it; torch takes any for one that has seen a step.
            self.state[param].clear()


def _numbers(counts):
    """What these 0-dim tensors hold, waiting once for each of their devices."""
    found = {}
    for device in {count.device for count in counts}:
        places = [place for place, count in enumerate(counts) if count.device == device]
        found.update(zip(places, torch.stack([counts[place] for place in places]).tolist()))
    return [found[place] for place in range(len(counts))]
