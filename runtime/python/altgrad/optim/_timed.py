"""Options of a rule that are on in some steps: the host counts, and takes the program with the options of each step."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._binding.group_rules import clip_of
from .._binding.matrix_blocks import count_in
from .._binding.table import FRESH
from .._rule import Rule
from ._optimizer import Optimizer


# What Optimizer._rebuild makes, and of how many programs it is kept.
_PARTS = ("_watched", "_built", "_fallback_part", "_kernel_params", "_rows", "_is_joint", "_group_rules", "_settings", "_multiplied",
          "_step_ranks")
_KEPT = 8


class Timed(Optimizer):
    """What an optimizer has whose rule computes something in its first step, or in every k-th one.

    A step is counted for each parameter by itself, in its state, and a skipped one is none. So a step with an option
    and one without are two programs over the same states.
    """

    _programs: "list[tuple[Any, dict[str, Any]]] | None" = None  # what the last steps with other options ran: (settings, parts)
    _calls: "dict[int, int] | None" = None  # steps by the id of a parameter on a device; None: states are on the host
    _flag: Any = 1.0  # of the last step: 0 where it was made and is not counted in `_calls` yet; on a device it is read in the next one

    def _words_at(self, step, group):
        """The timed options that are on in a step of a group's parameter, the first of which is 1."""
        def number_of(name):
            key, place = self._hyper_place(name)
            return float(group[key] if place is None else group[key][place])

        return tuple([name for name, one in self._timed_of(group).items() if one.holds(step, number_of)])

    def _group_rule_with(self, group_rule, matrices, param):
        rule, options = super()._group_rule_with(group_rule, matrices, param)
        return rule, (*options, *self._words_at(self._count_of(param) + 1, self._group_of(param)))

    def _group_of(self, param):
        return next((group for group in self.param_groups if any([param is one for one in group["params"]])), self.param_groups[0])

    def _count_of(self, param):
        """How many steps a parameter has made. Of one on a device the count is read where tables are made, and then raised with each
        step that is not skipped."""
        if self._calls is not None and id(param) in self._calls:
            return self._calls[id(param)]
        count = count_in(self.state.get(param, {}))
        return 0 if count is None else int(count)

    def _settings_for(self, scaler):
        if self._calls and not float(self._flag):
            self._calls = {param: count + 1 for param, count in self._calls.items()}
        self._flag, words = 1.0, []
        for group in self.param_groups:
            steps = [self._count_of(param) + 1 for param in group["params"] if param.grad is not None]
            known = {step: self._words_at(step, group) for step in {*steps}}
            words += [known[step] for step in steps]
        return *super()._settings_for(scaler), tuple(words)

    def _rebuild(self, fit, settings):
        if self._take_program(settings):
            return
        self._calls = None
        super()._rebuild(fit, settings)
        if self._built and not self._built.on_host:
            self._calls = {id(row.owner): self._count_of(row.owner) for row in self._built.rows}
        # With several tables, as of several devices, each has counts of its own, which would fall behind.
        if self._built and len(self._built.tables) == 1 and not (self._is_joint or self._offload or self.norm_in_backward):
            self._programs = [*(self._programs or [])[-_KEPT + 1:], (settings, {key: getattr(self, key) for key in _PARTS})]

    def _take_program(self, settings):
        """Runs tables again that an earlier step with these options has made, if they fit the parameters, states and groups."""
        known = next((one for one in self._programs or [] if one[0] == settings), None)
        if known is None:
            return False
        before = {key: getattr(self, key) for key in _PARTS}
        vars(self).update(known[1])
        fit, changed, numbers = self._fit_of_step(clip_of(self.param_groups[0])[1] if self._clips else None)
        counted = self._calls is None or {id(row.owner) for row in known[1]["_built"].rows} <= self._calls.keys()
        if fit != FRESH or not counted:
            self._programs = [one for one in self._programs if one is not known]
            vars(self).update(before)
            return False
        self._hold()
        if changed:
            self._take_groups(changed, *numbers)
        return True

    def _run(self, scalars, scaler, own):
        super()._run(scalars, scaler, own)
        self._flag = scalars["flag"]

    def _forget(self):
        self._calls, self._programs = None, None
        super()._forget()


class Every(NamedTuple):
    """Every k-th step after the first one; for 0 the first one."""

    every: int

    def holds(self, step: int, number_of: Any) -> bool:
        return step > 1 and (step - 1) % self.every == 0 if self.every else step == 1


def check_timed(timed: "Mapping[str, int]", rule: Rule) -> None:
    """Raises ValueError where options that are on in some steps are none of a rule, or the rule has no step to count."""
    for name, every in timed.items():
        if name not in rule.options():
            raise ValueError(f"rule @{rule.name} has no option {name!r}, which timed= names; there are {', '.join(rule.options()) or 'none'}")
        if not isinstance(every, int) or isinstance(every, bool) or every < 0:
            raise ValueError(f"timed={{{name!r}: {every!r}}}: write 0 for the first step, or k for every k-th one")
    if timed and not rule.declared("step"):
        raise ValueError(f"rule @{rule.name} counts no steps, which timed= needs: give it an argument step t")
