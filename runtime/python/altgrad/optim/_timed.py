"""Options of a rule that are on in some steps: the host counts, and takes the program with the options of each step."""

from collections.abc import Mapping

from .._rule import Rule
from ._optimizer import Optimizer


class Timed(Optimizer):
    """What an optimizer has whose rule computes something in its first step, or in every k-th one.

    A step is counted for each parameter by itself, in its state, and a skipped one is none. So a step with an option
    and one without are two programs over the same states.
    """

    _timed: "dict[str, int]" = {}  # {option: 0 for the first step, or k for every k-th one}
    _variants: "dict[tuple[str, ...], Rule]" = {}  # rules that have such options decided, by these; else the rule decides
    _calls: "dict[int, int] | None" = None  # steps by the id of a parameter on a device; None: states are on the host

    def _words_of(self, param, group):
        """The timed options of a parameter's next step."""
        count = self._count_of(param)
        return tuple([name for name, every in self._timed.items() if (count % every == 0 and count > 0 if every else count == 0)])

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options = super()._group_rule_with(group_rule, matrices, param)
        words = self._words_of(param, self._group_of(param))
        return (self._variants[words], options) if self._variants else (rule, (*options, *words))

    def _group_of(self, param):
        return next(group for group in self.param_groups if any([param is one for one in group["params"]]))

    def _count_of(self, param):
        """How many steps a parameter has made. Of one on a device the count is read where tables are made, and then raised here."""
        if self._calls is not None and id(param) in self._calls:
            return self._calls[id(param)]
        count = self.state.get(param, {}).get("step")
        return 0 if count is None else int(count)

    def _settings_for(self, scaler):
        words = tuple([self._words_of(param, group) for group in self.param_groups
                       for param in group["params"] if param.grad is not None])
        return *super()._settings_for(scaler), words

    def _rebuild(self, fit, settings):
        self._calls = None
        super()._rebuild(fit, settings)
        if self._built and not self._built.on_host:
            self._calls = {id(row.owner): self._count_of(row.owner) for row in self._built.rows}

    def _run(self, scalars, scaler, own):
        super()._run(scalars, scaler, own)
        for param in self._calls or ():
            self._calls[param] += 1

    def _forget(self):
        self._calls = None
        super()._forget()


def check_timed(timed: "Mapping[str, int]", rule: Rule) -> None:
    """Raises ValueError where options that are on in some steps are none of a rule, or the rule has no step to count."""
    for name, every in timed.items():
        if name not in rule.options():
            raise ValueError(f"rule @{rule.name} has no option {name!r}, which timed= names; there are {', '.join(rule.options()) or 'none'}")
        if not isinstance(every, int) or isinstance(every, bool) or every < 0:
            raise ValueError(f"timed={{{name!r}: {every!r}}}: write 0 for the first step, or k for every k-th one")
    if timed and not rule.declared("step"):
        raise ValueError(f"rule @{rule.name} counts no steps, which timed= needs: give it an argument step t")
