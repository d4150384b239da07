"""Python's math under numbers of the rule, while the step of an optimizer runs."""

import contextlib
import math
import sys
import threading
from collections.abc import Iterator
from typing import Any

from . import _functions as ag
from ._arithmetic import apply, compare
from ._errors import fail
from ._from_torch_proxies import Extent, Number, Proxy, raw, to_power

_PLACEHOLDERS = Number, Extent, Proxy
_lock = threading.RLock()
_WITH = {"sqrt": ag.sqrt, "exp": ag.exp, "log": ag.log, "pow": to_power, "fabs": ag.abs, "copysign": ag.copysign,
         "isnan": lambda x: compare("une", x, x), "isinf": lambda x: compare("oeq", ag.abs(x), math.inf),
         "isfinite": lambda x: compare("olt", ag.abs(x), math.inf), "log2": lambda x: apply("divf", ag.log(x), math.log(2.0)),
         "log10": lambda x: apply("divf", ag.log(x), math.log(10.0)), "hypot": lambda a, b: ag.sqrt(a * a + b * b)}
# ceil and floor ask the number itself. Of others a number of the hyper-parameters is taken as it is now.
_NAMES = [name for name in dir(math) if callable(getattr(math, name)) and name not in ("ceil", "floor", "trunc")
          and not name.startswith("_")]


def _of_rule(name, real):
    def function(*values):
        if any(isinstance(value, (list, tuple)) and any(isinstance(one, _PLACEHOLDERS) for one in value) for value in values):
            fail(f"math.{name} of several numbers of the rule: write Python's operators")
        if not any(isinstance(value, _PLACEHOLDERS) for value in values):
            return real(*values)
        if name in _WITH:
            return Number(_WITH[name](*[raw(value.item() if type(value) is Proxy else value) for value in values]))
        if any(isinstance(value, Proxy) for value in values):
            fail(f"math.{name} of a tensor: there is no such function in a rule")
        return real(*[float(value) for value in values])
    return function


@contextlib.contextmanager
def patched(kind: type) -> Iterator[None]:
    """math's functions, in math and in the modules of a class, take numbers of the rule, too."""
    modules = {id(module): module for module in [math, *[sys.modules.get(of.__module__) for of in kind.__mro__]]
               if module is not None and module.__name__ != "builtins"}
    originals = {name: getattr(math, name) for name in _NAMES}
    replaced: dict[Any, Any] = {originals[name]: _of_rule(name, originals[name]) for name in _NAMES}
    with _lock:
        kept = [(vars(module), name, value) for module in modules.values() for name, value in list(vars(module).items())
                if isinstance(value, type(math.sqrt)) and value in replaced]
        try:
            for names, name, value in kept:
                names[name] = replaced[value]
            yield
        finally:
            for names, name, value in kept:
                names[name] = value
