"""What to write here in place of what torch and NumPy have."""

import difflib

_INSTEAD = {
    "pow": "x ** 2", "square": "x * x", "silu": "x * ag.sigmoid(x)", "arctan2": "ag.atan2(y, x)", "arctan": "ag.atan2(x, 1)", "atan": "ag.atan2(x, 1)", "tan": "ag.sin(x) / ag.cos(x)",
    "log10": "ag.log(x) * 0.4342944819032518", "erfc": "1 - ag.erf(x)", "expit": "ag.sigmoid(x)", "relu": "ag.maximum(x, 0)",
    "reciprocal": "1 / x", "addcmul": "ag.fma(a, b, c) or c + a * b",
    "addcdiv": "p - lr * m / d", "mul": "a * b", "multiply": "a * b", "add": "a + b", "sub": "a - b", "subtract": "a - b", "div": "a / b",
    "divide": "a / b", "true_divide": "a / b", "neg": "-x", "norm": "x.norm()", "vector_norm": "x.norm()", "sum": "x.sum()",
    "mean": "x.mean()", "max": "x.max()", "min": "x.min()", "amax": "x.max()", "all": "x.all()", "any": "(x.count() > 0)",
    "clip": "ag.clamp(x, low, high)", "clamp_min": "ag.maximum(x, low)", "clamp_max": "ag.minimum(x, high)", "matmul": "x @ x.T",
    "mm": "x @ x.T", "masked_fill": "ag.where(condition, a, x)", "zeros_like": "0.0", "ones_like": "1.0", "t": "x.T",
    "power": "x ** 2", "greater": "a > b", "less": "a < b", "absolute": "ag.abs(x)", "numel": "ag.numel", "nelement": "ag.numel",
    "size": "ag.rows or ag.columns", "shape": "ag.rows or ag.columns", "std": "ag.sqrt((x * x).mean() - x.mean() ** 2)",
    "where": "ag.where(condition, a, b)", "eigh": "ag.eigenbasis(x)", "diag": "ag.diagonal(x)", "mv": "x @ c", "qr": "ag.orthonormal(x)", "cholesky": "ag.inverse_root(x, 2)",
    **dict.fromkeys(("rand", "rand_like"), 'ag.random("uniform", key=0)'), **dict.fromkeys(("randn", "randn_like"), 'ag.random("normal", key=0)'),
}
_NO_ROLES = {"Rule", "RuleError", "Transform"}
_NOTHING = {"item", "float", "double", "half", "bfloat16", "to", "cpu", "cuda", "clone", "detach", "contiguous", "type", "data", "copy"}


def _functions() -> dict:
    from . import _functions as table
    return table.FUNCTIONS


def instead_of(name: str) -> str:
    """"; write x * x", or nothing: what stands here for a function called `name`."""
    plain = name.rstrip("_")
    if plain in _INSTEAD:
        return f"write {_INSTEAD[plain]}"
    if plain in _functions():
        return f"write ag.{plain}(x)"
    if near := difflib.get_close_matches(plain, _functions(), 1):
        return f"did you mean ag.{near[0]}?"
    return f"there are {', '.join(sorted(_functions()))}"


def hint_of_function(name: str) -> str:
    """Of ag.name, which there is not."""
    from . import __all__ as known
    if name not in _INSTEAD and (near := difflib.get_close_matches(name, known, 1)):
        return f"there is no ag.{name}; did you mean ag.{near[0]}?"
    if name[:1].isupper():
        return f"there is no ag.{name}; arguments are {', '.join('ag.' + one for one in known if one[0].isupper() and one not in _NO_ROLES)}"
    return f"there is no ag.{name}; {instead_of(name)}"


def hint_of_attribute(name: str) -> str:
    """Of x.name, which there is not."""
    if name == "grad":
        return "a value has no .grad: the gradient is an argument of its own, g: ag.Grad"
    if name in _NOTHING:
        return f".{name} has nothing to do here: widths are chosen by themselves and nothing shares memory; leave it out"
    if name.endswith("_"):
        return f".{name}() changes nothing in place, as values never change; {instead_of(name)}, give it a name, and return it"
    return f"a value has no .{name}; {instead_of(name)}"


def hint_of_library(library: str, name: str) -> str:
    """Of torch.name(x) and numpy.name(x)."""
    return (f"{library}'s {name} in a rule, which runs once and on no tensors; of its values {instead_of(name.strip('_'))}; a number of "
            f"{library}'s is one as float(x)")
