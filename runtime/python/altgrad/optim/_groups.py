"""The param_groups of an optimizer as they were last read."""

from itertools import chain
from operator import is_, itemgetter

_params_of = itemgetter("params")
_PLAIN = (float, int, bool, str, type(None))


class Groups:
    """What the step depends on in the param_groups.

        Groups(param_groups, keys)

    `keys` are those whose values count; `params` is the list of all parameters,
    group by group.

    `changed(param_groups)` is called in every step. It answers the indices of the
    groups that have to be read again, because a value is another or can change in
    place, as a tensor does; None when there are other groups, or other parameters
    in them.

    `remember(param_groups, indices)`: these groups were read.
    """

    def __init__(self, param_groups, keys):
        self._values_of = itemgetter(*keys, "params") if keys else lambda group: ()
        lists = list(map(_params_of, param_groups))
        self.params = list(chain.from_iterable(lists))
        self._lengths = list(map(len, lists))
        self._seen = [self._values(group) for group in param_groups]
        self._restless = self._find_restless()

    def changed(self, param_groups):
        lists = list(map(_params_of, param_groups))
        if (list(map(len, lists)) != self._lengths
                or not all(map(is_, chain.from_iterable(lists), self.params))):
            return None
        now = list(map(self._values, param_groups))
        try:
            if now == self._seen:
                return self._restless
            return [index for index, (mine, seen) in enumerate(zip(now, self._seen))
                    if mine != seen or index in self._restless]
        except (RuntimeError, ValueError):  # a tensor, or what else does not compare
            return list(range(len(now)))

    def remember(self, param_groups, indices):
        for index in indices:
            self._seen[index] = self._values(param_groups[index])
        if indices:
            self._restless = self._find_restless()

    def _values(self, group):
        try:
            # A key that came or went is a change, whatever it is.
            return len(group), *self._values_of(group)[:-1]
        except KeyError:  # not one that the step needs, or its reader says so
            return None

    def _find_restless(self):
        return [index for index, values in enumerate(self._seen)
                if values is None or not all(map(_is_plain, values))]


def _is_plain(value):
    """Whether it cannot change in place: a number, a text, or a tuple of them."""
    if type(value) is tuple:
        return all([isinstance(part, _PLAIN) for part in value])
    return isinstance(value, _PLAIN)
