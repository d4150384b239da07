"""How the names of a rule map to torch's groups and states: what a class of optimizers says about itself."""

from .._storage.blocks import state_key
from .._storage.line import Storage
from .._storage.master import kept_beside


class RuleNames:
    """Which rule, and where its hyper-parameters, options and states are: a class fills in the table."""

    _rule_of = None  # a method: the Rule of a param_group
    _options = {}  # {option: test of a group}
    _hypers = {}  # {hyper: key of a group, or (key, index)}
    _absent = ()  # keys that may be None, which stands for 0
    _keys = {}  # {state of the rule: key in `state`}
    _only_with = {}  # {state: option without which there is none}
    _storage = ""  # formats that differ from the parameter's
    _older = {}  # what a group from an older checkpoint may lack
    _reference = None  # torch's class of the same name
    _takes_sparse = False  # whether that takes sparse gradients
    _words = Storage()
    _count_key = "step"
    _always_counts = False

    def _hyper_place(self, name):
        place = self._hypers.get(name, name)
        return place if isinstance(place, tuple) else (place, None)

    def _state_key(self, stream):
        return state_key(stream, self._keys)

    def _stored(self, options):
        """(the compiler's word, key in state) of everything that is stored with these options."""
        return [(name, key) for name, key in self._keys.items()
                if self._only_with.get(name) in (None, *options)] + kept_beside(self._words)

    def _options_of(self, group):
        return tuple(name for name, test in self._options.items() if test(group))
