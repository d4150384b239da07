"""The param_groups of an optimizer as they were last read."""

from array import array
from itertools import chain
from operator import is_, itemgetter

from .._core import core, has_lock

_params_of = itemgetter("params")
_PLAIN = (float, int, bool, str, type(None))


class Groups:
    """What the step depends on in the param_groups.

        Groups(param_groups, keys)

    `keys` are the keys of a group on which the step depends. `params` lists all parameters, group by group.

    `changed(param_groups)` is called in every step. It returns the indices of the groups that have to be read again:
    those with another value than before, or with a value that can change in place, such as a tensor. It returns None if
    the groups are others, or hold other parameters.

    `remember(param_groups, indices)` notes that these groups have been read.

    `expect(places, convert)` says what the plan's groups read: for each of them `places` has (index of a param_group,
    ((key, part or None), ...)). `convert(key, part, value)` makes a float of a value that is none.
    `numbers(param_groups, cells)` returns the floats for the plan's groups `cells`.
    """

    def __init__(self, param_groups, keys):
        self._values = values_of(keys)
        lists = list(map(_params_of, param_groups))
        self.params = list(chain.from_iterable(lists))
        self._lengths = list(map(len, lists))
        self._kept = array("q", self._lengths), array("Q", map(id, self.params))
        self._words = [words.buffer_info()[0] for words in self._kept]
        self._seen = [self._values(group) for group in param_groups]
        self._restless = self._find_restless()

    def changed(self, param_groups):
        lists = list(map(_params_of, param_groups))
        if list(map(len, lists)) != self._lengths or not self._are_same(lists):
            return None
        now = list(map(self._values, param_groups))
        try:
            if now == self._seen:
                return self._restless
            return [index for index, (mine, seen) in enumerate(zip(now, self._seen))
                    if mine != seen or index in self._restless]
        except (RuntimeError, ValueError):  # a tensor, or what else does not compare
            return list(range(len(now)))

    def _are_same(self, lists):
        if has_lock() and set(map(type, lists)) <= {list}:
            lengths, ids = self._words
            return core().altgrad_core_same_lists(id(lists), lengths, len(lists), ids)
        return all(map(is_, chain.from_iterable(lists), self.params))

    def remember(self, param_groups, indices):
        for index in indices:
            self._seen[index] = self._values(param_groups[index])
        if indices:
            self._restless = self._find_restless()

    def expect(self, places, convert):
        self._places, self._convert = places, convert

    def numbers(self, param_groups, cells):
        values = []
        for index, keys in [self._places[cell] for cell in cells]:
            group = param_groups[index]
            for key, part in keys:
                value = group[key]
                plain = part is None and type(value) is float
                values.append(value if plain else self._convert(key, part, value))
        return values

    def _find_restless(self):
        return [index for index, values in enumerate(self._seen)
                if values is None or not all(map(_is_plain, values))]


def plain(group):
    """The group itself, of one of which a Reading notes the keys."""
    return group._group if isinstance(group, Reading) else group


def values_of(keys):
    """A function of a group: its length and its values of `keys`; None where one is missing."""
    # "params" is read, too, so that itemgetter returns a tuple even for one key.
    read = itemgetter("params", *keys)

    def values(group):
        try:
            return len(group), *read(group)[1:]
        except KeyError:
            return None
    return values


class Reading(dict):
    """A copy of a group that knows which of its keys were asked for."""

    def __init__(self, group):
        super().__init__(group)
        self.keys_read, self._group = set(), group

    def __getitem__(self, key):
        self.keys_read.add(key)
        return self._group[key]

    def get(self, key, default=None):
        self.keys_read.add(key)
        return self._group.get(key, default)

    def _all(name):
        def every(self, *arguments):
            self.keys_read.update(dict.keys(self))
            return getattr(dict, name)(self, *arguments)
        return every

    __contains__, __iter__, __eq__, items, keys, values, copy = map(
        _all, ("__contains__", "__iter__", "__eq__", "items", "keys", "values", "copy"))
    del _all


def _is_plain(value):
    """Whether a value cannot change in place: a number, a string, or a tuple of them."""
    if type(value) is tuple:
        return all([isinstance(part, _PLAIN) for part in value])
    return isinstance(value, _PLAIN)
