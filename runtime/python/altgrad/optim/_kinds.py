"""What the param_groups ask for: which rule with which options, and one bound of the norm."""

from torch.optim.optimizer import _get_capturable_supported_devices

from ._groups import Reading, values_of

BOUND = "max_grad_norm"


class Kinds:
    """The kind of every param_group: (rule, options, whether it is differentiable).

        Kinds(param_groups, kind_of)

    `kind_of(group)` finds and checks one; `rules` are (rule, options) of each group,
    `keys` the keys of the groups that count, `clipped` whether there is a bound.
    Raises what kind_of raises, and ValueError for two bounds.
    """

    def __init__(self, param_groups, kind_of):
        readings = list(map(Reading, param_groups))
        self._kinds = list(map(kind_of, readings))
        self.rules = [kind[:2] for kind in self._kinds]
        # A kind hangs on these keys alone.
        keys = set().union(*[reading.asked for reading in readings])
        self._mark_of = values_of(keys)
        self._marks = list(map(self._mark_of, param_groups))
        _check_bounds(param_groups)
        self.clipped = BOUND in param_groups[0]
        self.keys = {*keys, *[BOUND] * self.clipped}

    def hold(self, param_groups, changed, kind_of):
        """Whether the groups whose indices are `changed` are of the kinds that they were."""
        if self.clipped != (BOUND in param_groups[0]):
            return False
        if not changed:
            return True
        _check_bounds(param_groups)
        marks = list(map(self._mark_of, [param_groups[index] for index in changed]))
        try:
            if marks == [self._marks[index] for index in changed] and None not in marks:
                return True
        except (RuntimeError, ValueError):  # a tensor does not compare
            pass
        return all([kind_of(param_groups[index]) == self._kinds[index] for index in changed])


def _check_bounds(param_groups):
    bounds = {float(bound_of(group[BOUND])) if BOUND in group else None for group in param_groups}
    if len(bounds) > 1:
        named = ", ".join(sorted(map(str, bounds)))
        raise ValueError(f"there is one {BOUND} for all param_groups, not {named}")


def bound_of(value):
    """`value`; raises ValueError unless it is a bound of a norm."""
    try:
        valid = float(value) >= 0.0
    except (TypeError, ValueError, OverflowError, RuntimeError):
        valid = False
    if not valid:
        raise ValueError(f"Invalid max_grad_norm value: {value}")
    return value


def check_capturable(group):
    """Raises torch's error for what it has on no CPU."""
    if group.get("capturable") and any(p.grad is not None and p.device.type == "cpu"
                                       for p in group["params"]):
        raise AssertionError("If capturable=True, params and state_steps must be on supported "
                             f"devices: {_get_capturable_supported_devices()}.")
