"""Optimizers in Python: a function is run once, on names, and becomes a rule, which is compiled.

    import altgrad.language as ag

    @ag.rule
    def signum(p: ag.Param, g: ag.Grad, m: ag.State, *, lr=1e-3, beta=0.9):
        m = ag.lerp(m, g, 1 - beta)
        return p - lr * ag.sign(m), dict(m=m)

    optimizer = signum.optimizer(storage="m=bf16")(model.parameters(), lr=1e-4)
"""

from typing import TYPE_CHECKING, Any

from ._errors import RuleError, fail
from ._functions import (abs, atan2, cbrt, clamp, copysign, cos, erf, exp, exp2, expm1, floor, fma, lerp, log, log1p, log2, maximum,
                         minimum, pow, random, rms, rsqrt, sigmoid, sign, sin, softplus, sqrt, tanh, where)
from ._functions import EXTENTS as _EXTENTS
from ._hints import hint_of_function as _hint
from ._matrices import (descend, diagonal, eigenbasis, identity, inverse_root, matrix, order, orthogonalize, orthonormal, product,
                        scale_by_shape, trace)
from ._reductions import extent as _extent, total
from ._rule import Rule, rule
from ._signature import Column, Global, Grad, Input, New, Option, Param, Row, Scalar, Square, State, Step, Unit
from ._trace import now as _now
from ._transform import Transform, compose, transform
from ._when import when

if TYPE_CHECKING:
    rows: Any
    columns: Any
    numel: Any
    unit: Any

# Not rows, columns, numel and unit: they are read in the function of a rule alone.
__all__ = ["Column", "Global", "Grad", "Input", "New", "Option", "Param", "Row", "Rule", "RuleError", "Scalar",
           "Square", "State", "Step", "Transform", "Unit", "abs", "atan2", "cbrt", "clamp", "compose", "copysign",
           "cos", "descend", "diagonal", "eigenbasis", "erf", "exp", "exp2", "expm1", "floor", "fma", "identity", "inverse_root", "lerp",
           "log", "log1p", "log2", "matrix", "maximum", "minimum", "order", "orthogonalize", "orthonormal", "pow", "product",
           "random", "rms", "rsqrt", "rule", "scale_by_shape",
           "sigmoid", "sign", "sin", "softplus", "sqrt", "tanh", "total", "trace", "transform", "when", "where"]

if not TYPE_CHECKING:
    def __getattr__(name):
        if name in _EXTENTS:
            return _extent(name)
        if _now.get() is not None and not name.startswith("_"):
            fail(_hint(name))
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: {_hint(name)}")
