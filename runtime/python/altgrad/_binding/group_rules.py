"""What the param_groups ask for: which rule with which options, and one bound of the norm."""

from torch.optim.optimizer import _get_capturable_supported_devices

from .groups import Reading, values_of

BOUND = "max_grad_norm"
# The kinds of bounds: of the norm of all gradients, or adaptive ones, by their words.
CLIP_KINDS = "norm", "percentile", "agc", "agc-unit"
# Bounds that are a multiple of a parameter's norm, or of the norm of each of its units.
OF_PARAMETERS = "agc", "agc-unit"


class GroupRules:
    """The rule of every param_group: (rule, options, whether it is differentiable).

        GroupRules(param_groups, find_rule, clips)

    `find_rule(group)` finds and checks one; `rules` has (rule, options) of each group,
    `keys` the keys of the groups that count, `clip` the kind of the bound or None, which is there only if `clips`;
    `clipped`: whether it is of a norm that all devices share.
    Raises what kind_of raises, and ValueError for two bounds.
    """

    def __init__(self, param_groups, find_rule, clips=True):
        readings = list(map(Reading, param_groups))
        self._group_rules = list(map(find_rule, readings))
        self.rules = [group_rule[:2] for group_rule in self._group_rules]
        # A rule depends on these keys only.
        keys = set().union(*[reading.keys_read for reading in readings])
        self._mark_of = values_of(keys)
        self._marks = list(map(self._mark_of, param_groups))
        _check_bounds(param_groups)
        self.clip = clip_of(param_groups[0])[1] if clips else None
        self.clipped = self.clip not in (None, *OF_PARAMETERS)
        self.keys = {*keys, *[BOUND] * (self.clip is not None)}

    def hold(self, param_groups, changed, find_rule):
        """Whether the groups whose indices are `changed` still have the same rules."""
        _check_bounds(param_groups)
        marks = list(map(self._mark_of, [param_groups[index] for index in changed]))
        try:
            if marks == [self._marks[index] for index in changed] and None not in marks:
                return True
        except (RuntimeError, ValueError):  # a tensor does not compare
            pass
        return all([find_rule(param_groups[index]) == self._group_rules[index] for index in changed])


def _check_bounds(param_groups):
    bounds = {parse_clip(group[BOUND]) if BOUND in group else None for group in param_groups}
    if len(bounds) > 1:
        named = ", ".join(sorted({str(group.get(BOUND)) for group in param_groups}))
        raise ValueError(f"there is one {BOUND} for all param_groups, not {named}")


def clip_of(group):
    """(number, kind) of a group's bound; (None, None) without one."""
    return parse_clip(group[BOUND]) if BOUND in group else (None, None)


def check_bound(value):
    """`value`; raises ValueError unless it is a bound of a norm."""
    parse_clip(value)
    return value


def parse_clip(value):
    """(number, word of KINDS) of a bound: 1.0, "percentile:5", "agc:0.01" or "agc-unit:0.01"."""
    word, number = "norm", value
    if isinstance(value, str):
        word, _, number = value.partition(":")
    try:
        number = float(number)
        valid = number >= 0.0 and word in CLIP_KINDS and (word == "norm") != isinstance(value, str)
        valid = valid and (word != "percentile" or number <= 100.0)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        valid = False
    if not valid:
        raise ValueError(f"Invalid max_grad_norm value: {value}; it has to be a number of at least 0, "
                         "'percentile:P' with P up to 100, 'agc:FACTOR' or 'agc-unit:FACTOR'")
    return number, word


def check_capturable(group):
    """Raises torch's error where `capturable` is True and a parameter is on the CPU."""
    if group.get("capturable") and any(p.grad is not None and p.device.type == "cpu"
                                       for p in group["params"]):
        raise AssertionError("If capturable=True, params and state_steps must be on supported "
                             f"devices: {_get_capturable_supported_devices()}.")
