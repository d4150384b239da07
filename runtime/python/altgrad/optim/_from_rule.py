"""An optimizer class from a rule's text: hyper-parameters and defaults come from the rule."""

import inspect

from .._bundle import compile_rule, find_rule
from ._build import parse_storage
from ._optimizer import Optimizer


class _FromRule(Optimizer):
    _rule = None
    _chosen = ()

    def __init__(self, params, *, max_grad_norm=None, fused_amp=False, **hypers):
        unknown = sorted(set(hypers) - set(self._older))
        if unknown:
            raise TypeError(f"rule @{self._rule.name} has no hyper-parameter "
                            f"{', '.join(unknown)}; it has {', '.join(self._older) or 'none'}")
        missing = [key for key, value in self._older.items() if value is None and key not in hypers]
        if missing:
            raise TypeError(f"rule @{self._rule.name} gives no default to {', '.join(missing)}")
        super().__init__(params, {**self._older, **hypers},
                         max_grad_norm=max_grad_norm, fused_amp=fused_amp)

    def _rule_of(self, group):
        return self._rule

    def _options_of(self, group):
        return self._chosen

    def _hyper_place(self, name):
        return name, None

    def __reduce_ex__(self, protocol):
        if "_recipe" not in type(self).__dict__:
            return super().__reduce_ex__(protocol)
        # The class was made by a call: pickle that call, not a name.
        return _restore, (type(self)._recipe,), self.__getstate__()


def FromRule(source, storage="", options=(), name=None):
    """An Optimizer class that runs a rule of your own.

        Mine = altgrad.optim.FromRule("my_rule.mlir", storage="m=bf16", options=["nesterov"])
        optimizer = Mine(model.parameters(), lr=1e-3, max_grad_norm=1.0)

    `source` is the path of a file, the text itself or a template's name, and
    `name` the rule in it if it holds several. `storage` gives formats to states
    ("m=bf16 v=ocp.e5m2"), a float32 copy that the rule updates instead of the
    parameter ("master=f32"), or a further copy of the parameter
    ("copy=ocp.e4m3fn", state "copy"); what it does not name is stored as the
    parameter is. Weights put into the model later do not reach a master copy
    that is there already: delete state[param]["master"] then. `options` are
    the rule's options that are on.

    The class takes the rule's hyper-parameters as keywords, with the rule's
    defaults, per group as torch's do; states are kept under the rule's names,
    the step count as "step". Raises altgrad.Error with the compiler's words for
    a bad rule, at once.
    """
    if isinstance(options, str):
        options = (options,)
    parse_storage(storage)
    rule, options = find_rule(source, name), tuple(options)
    bundle = compile_rule(rule, options, storage)
    hypers = {hyper.name: hyper.default for hyper in bundle.hypers}
    made = type(_title(rule.name), (_FromRule,), {
        "__doc__": f"The rule @{rule.name} of {rule.origin}.",
        "__module__": __name__,
        "_rule": rule, "_chosen": options, "_storage": storage, "_older": hypers,
        "_keys": {bundle.step: "step"} if bundle.step else {},
        "_recipe": (rule.text, storage, options, rule.name),
    })
    made.__signature__ = _signature(hypers)
    return made


def _signature(hypers):
    keyword, empty = inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.empty
    own = {key: empty if value is None else value for key, value in hypers.items()}
    own.update(max_grad_norm=None, fused_amp=False)
    return inspect.Signature(
        [inspect.Parameter("params", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        + [inspect.Parameter(key, keyword, default=value) for key, value in own.items()])


def _restore(recipe):
    made = FromRule(*recipe)
    return made.__new__(made)


def _title(name):
    return "".join(part.capitalize() for part in name.split("_")) or name
