"""torch's functions and methods on proxies: each is operations of the language, in the order in which torch rounds."""

from typing import Any

import torch

from . import _functions as ag
from ._arithmetic import apply, binary, choose, compare, logic, narrow
from ._errors import fail
from ._from_torch_paths import running
from ._from_torch_reductions import REDUCTIONS, as_float, as_truth, of_number, reduced
from ._from_torch_proxies import (COLUMN, ELEMENTS, FLAT, FLAT_COLUMN, FLAT_ROW, FULL, NUMBER, OF_COLUMNS, OF_ROWS, ROW, TALL, WIDE, Extent, Number,
                                  Proxy, Shape, number, plus, proxy, raw, to_power)
from ._reductions import extent
from ._trace import Symbol


def _is_one(value):
    return not isinstance(value, Symbol) and value == 1


def _add(a, b, alpha=1):
    return plus(a, b) if _is_one(alpha) else ag.fma(b, alpha, a)


def _sub(a, b, alpha=1):
    if not _is_one(alpha):
        return ag.fma(b, -alpha, a)
    return binary("subf", a, b) if isinstance(b, Symbol) else plus(a, -b)


def _addcmul(a, b, c, value=1):
    return ag.fma(b if _is_one(value) else binary("mulf", value, b), c, a)


def _addcdiv(a, b, c, value=1):
    return binary("addf", a, apply("divf", b if _is_one(value) else binary("mulf", value, b), c))


def _div(a, b, rounding_mode=None):
    made = apply("divf", a, b)
    return made if rounding_mode is None else ag.floor(made) if rounding_mode == "floor" else ag.copysign(ag.floor(ag.abs(made)), made)


def _clamp(x, min=None, max=None):
    return ag.clamp(x, min, max)


def _where(condition, a, b):
    return choose(condition, a, b)


def _logical(word):
    return lambda a, b: logic(word, as_truth(a), as_truth(b))


def _compared(how):
    return lambda a, b: compare(how, a, b)


def _is_finite(x):
    return compare("olt", ag.abs(x), float("inf"))


def _nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    top = torch.finfo(torch.float32).max
    x = choose(compare("oeq", x, float("inf")), top if posinf is None else posinf, x)
    x = choose(compare("oeq", x, float("-inf")), -top if neginf is None else neginf, x)
    return choose(compare("une", x, x), 0.0 if nan is None else nan, x)


def _refuse(words):
    def refused(*_, **__):
        fail(words)
    return refused


def _negated(function):
    return lambda x: apply("negf", function(apply("negf", x)))


_OTHER = {name: _refuse(f"torch.{name}: a rule has one tensor at a time; sums over all tensors come with a later version")
          for name in ("stack", "cat", "hstack", "concat")}
_NO_ELEMENT = {name: _refuse(f"torch.{name} of elements: there is no such function of elements yet") for name in ("tan", "erfinv")}
_NARROW = {name: _refuse(f"{name}() in the code of a step: elements are float32, and storage= says how states are stored")
           for name in ("bfloat16", "half")}
_ELEMENT = {name: getattr(ag, name) for name in ("sigmoid", "tanh", "sin", "cos", "atan2", "erf", "expm1", "log1p", "exp2", "log2")}
_ELEMENT |= {"expit": ag.sigmoid, "arctan2": ag.atan2, "atan": lambda x: ag.atan2(x, 1.0), "arctan": lambda x: ag.atan2(x, 1.0), "softplus": lambda x: ag.softplus(x)}
_COMPARISONS = {"gt": "ogt", "lt": "olt", "ge": "oge", "le": "ole", "eq": "oeq", "ne": "une"}

# Elementwise: they take values of the rule and numbers, and are methods and functions, which change nothing or their first argument.
FUNCTIONS = {
    "add": _add, "sub": _sub, "subtract": _sub, "rsub": lambda a, b: binary("subf", b, a), "__rsub__": lambda a, b: binary("subf", b, a),
    "mul": lambda a, b: binary("mulf", a, b), "multiply": lambda a, b: binary("mulf", a, b),
    "div": _div, "divide": _div, "true_divide": _div, "__rdiv__": lambda a, b: binary("mulf", apply("divf", 1.0, a), b),
    "remainder": lambda a, b: a % b, "floor_divide": lambda a, b: a // b,  # of numbers of the step
    "reciprocal": lambda x: apply("divf", 1.0, x), "neg": lambda x: apply("negf", x), "negative": lambda x: apply("negf", x),
    "abs": ag.abs, "absolute": ag.abs, "sign": ag.sign, "sgn": ag.sign, "copysign": ag.copysign, "floor": ag.floor, "ceil": _negated(ag.floor),
    "sqrt": ag.sqrt, "rsqrt": lambda x: apply("divf", 1.0, ag.sqrt(x)), "square": lambda x: x * x,
    "pow": to_power, "__pow__": to_power, "__rpow__": lambda a, b: to_power(b, a), "exp": ag.exp, "log": ag.log,
    "maximum": ag.maximum, "minimum": ag.minimum, "clamp": _clamp, "clip": _clamp, "relu": lambda x: ag.maximum(x, 0.0),
    "clamp_min": lambda x, min: ag.maximum(x, min), "clamp_max": lambda x, max: ag.minimum(x, max),
    "lerp": lambda a, b, weight: ag.lerp(a, b, weight), "addcmul": _addcmul, "addcdiv": _addcdiv,
    **{name: _compared(how) for name, how in _COMPARISONS.items()}, **{f"__{name}__": _compared(how) for name, how in _COMPARISONS.items()},
    "greater": _compared("ogt"), "less": _compared("olt"), "isnan": lambda x: compare("une", x, x), "isfinite": _is_finite,
    "isinf": lambda x: compare("oeq", ag.abs(x), float("inf")), "nan_to_num": _nan_to_num,
    "logical_and": _logical("andi"), "logical_or": _logical("ori"), "logical_not": lambda x: logic("xori", as_truth(x), True),
    "bitwise_and": _logical("andi"), "bitwise_or": _logical("ori"), "bitwise_not": lambda x: logic("xori", x, True),
    "__and__": _logical("andi"), "__or__": _logical("ori"), "__invert__": lambda x: logic("xori", x, True),
    "where": _where, "masked_fill": lambda x, mask, value: choose(mask, value, x), "copy": lambda a, b, non_blocking=False: b,
    "fill": lambda a, value: value, "zero": lambda a: 0.0, "float": as_float, "type_as": lambda a, b: as_float(a), **_ELEMENT, **_NO_ELEMENT, **_OTHER, **_NARROW}
_KEEP_TRUTH = {"where", "logical_and", "logical_or", "logical_not", "bitwise_and", "bitwise_or", "bitwise_not", "__and__", "__or__",
               "__invert__", "masked_fill", "copy", "fill", "float", "type_as"}
# Another proxy for the same elements, which has the same memory where torch's has.
_SAME = {"clone", "resolve_conj", "conj", "double", "cpu", "cuda"}
_SHARES = {"detach", "contiguous", "view_as_real", "alias", "requires_grad_", "view_as", "view", "reshape", "flatten", "ravel",
           "reshape_as", "squeeze"}


def _numel(*_):
    return Number(extent("numel"))


def _dim(x):
    if x.form in (FULL, ROW, COLUMN):
        running.get().asks_rank = True
        return running.get().rank
    return 0 if x.form == NUMBER else 2 if x.form in (WIDE, TALL) else 1


def _sizes(form):
    """The sizes of a form: 1 and numbers of the rule."""
    names = {NUMBER: (), FLAT: ("numel",), WIDE: (1, "numel"), TALL: ("numel", 1), FLAT_ROW: ("rows",), FLAT_COLUMN: ("columns",)}.get(form)
    if names is None and (rank := _dim(proxy(0.0, form))) > 2:
        fail(f"the sizes of a parameter of {rank} dimensions: there are those of vectors and matrices")
    if names is None:
        names = {FULL: ("rows", "columns"), ROW: ("rows", 1), COLUMN: (1, "columns")}[form] if rank == 2 else ("numel",)
    return [extent(one) if isinstance(one, str) else one for one in names]


def _shape(x):
    return Shape(Extent(one) if isinstance(one, Symbol) else one for one in _sizes(x.form))


def _size(x, dim=None):
    return _shape(x) if dim is None else _shape(x)[dim]


def _item(x):
    return number(x.symbol)


def _set_item(x, key, value):
    if type(key) is Proxy:
        x.cell.symbol = narrow(choose(raw(key), raw(value), x.symbol), x.symbol.trace)
    elif key is Ellipsis or key == slice(None):
        call_method("copy_", (x, value), {})
    else:
        fail("an element by its index: a rule is the same for all elements")


def _get_item(x, key):
    """x[:, None] of a list of rows and x[None, :] of one of columns."""
    around = [None if one is None else ... if one is Ellipsis or one == slice(None) else one for one in key] if isinstance(key, tuple) else []
    if x.form in (FLAT_ROW, FLAT_COLUMN) and around in ([..., None], [None, ...]):
        return _moved("unsqueeze", x, around.index(None))
    return fail("an element by its index: a rule is the same for all elements")


def _to(x, *args, **kwargs):
    return proxy(as_float(x.symbol), x.form) if x.symbol.kind == "i1" else proxy(None, x.form, x.cell)


def _always(value):
    return lambda *_, **__: value


# What a proxy is asked for.
ASKED = {
    "numel": _numel, "nelement": _numel, "dim": _dim, "ndimension": _dim, "size": _size, "item": _item, "to": _to, "type": _to,
    "is_floating_point": lambda x: x.symbol.kind != "i1", "__bool__": lambda x: running.get().decide(x.symbol),
    "is_nonzero": lambda x: running.get().decide(x.symbol), "__float__": lambda x: float(_item(x)), "__int__": lambda x: int(_item(x)),
    "__index__": lambda x: int(_item(x)), "__setitem__": _set_item, "result_type": _always(torch.float32), "is_complex": _always(False),
    "is_contiguous": _always(True), "is_tensor": _always(True), "is_same_size": _always(True), "element_size": _always(4),
    "get_device": _always(-1), "storage_offset": _always(0), "data_ptr": lambda x: id(x.cell), "record_stream": _always(None),
    "stride": _refuse("strides of a parameter: a rule is the same for all orders of memory"),
    "__len__": _refuse("len() of a tensor: a rule is the same for all sizes"),
    "__getitem__": _get_item}
PROPERTIES = {
    "grad": lambda x: x.held_grad, "data": lambda x: proxy(None, x.form, x.cell), "shape": _shape, "ndim": _dim, "real": lambda x: x,
    "dtype": _always(torch.float32), "device": _always(torch.device("cpu")), "layout": _always(torch.strided), "is_cpu": _always(True),
    "is_leaf": _always(True), "names": _always(()), "grad_fn": _always(None), "itemsize": _always(4),
    **dict.fromkeys(("is_sparse", "is_sparse_csr", "is_cuda", "is_mps", "is_meta", "is_quantized", "requires_grad"), _always(False))}
MAKERS = {"zeros": 0.0, "ones": 1.0, "empty": 0.0, "full": None, "tensor": None, "as_tensor": None, "scalar_tensor": None,
          "zeros_like": 0.0, "ones_like": 1.0, "empty_like": 0.0, "full_like": None, "new_zeros": 0.0, "new_ones": 1.0, "new_empty": 0.0,
          "new_full": None, "new_tensor": None, "rand_like": None, "randn_like": None, "bernoulli": None, "rand": None, "randn": None,
          "normal": None, "randint": None, "arange": None, "eye": None}


def _make(name, args, kwargs):
    """zeros, ones_like, tensor and so on."""
    if name in ("rand_like", "randn_like", "bernoulli", "rand", "randn", "normal", "randint"):
        fail(f"torch.{name}: a rule has random numbers of its own and not those of torch's generator: write a rule with ag.random")
    if name in ("tensor", "as_tensor", "scalar_tensor", "new_tensor"):
        value = (args[1:] if name == "new_tensor" else args)[0] if args else kwargs["data"]
        if type(value) is Proxy:
            return value
        if isinstance(value, (list, tuple)) and len(value) == 1:
            value = value[0]
        if isinstance(value, (list, tuple)):
            fail("a tensor of several numbers: a rule has states of the parameter's shape, and of one number")
        return proxy(raw(value), NUMBER)
    if name.endswith("_like"):
        like, given = args[0], args[1:]
        value = given[0] if name == "full_like" and given else kwargs.get("fill_value", MAKERS[name])
        return proxy(raw(value), like.form)
    args = args[1:] if name.startswith("new_") else args
    size = kwargs.get("size", args[0] if args else ())
    if name in ("zeros", "ones", "empty", "new_zeros", "new_ones", "new_empty") and args and not isinstance(size, (tuple, list)):
        size = args
    value = kwargs.get("fill_value", args[1] if name in ("full", "new_full") and len(args) > 1 else MAKERS[name])
    if value is None:
        fail(f"torch.{name}: a rule has no such tensor")
    return proxy(raw(value), _form_of(size))


def _form_of(size):
    """The form of tensors of a size."""
    if all(one == 1 for one in size if not isinstance(one, Extent)) and not any(isinstance(one, Extent) for one in size):
        return NUMBER
    forms = (FULL, *OF_ROWS, *OF_COLUMNS) if running.get().rank == 2 else (FULL,)
    return _fitting(size, forms) or fail("a state of another shape than the parameter's, a row's or a column's: a rule has none of other shapes")


def _fitting(size, forms):
    """The first of these forms that has a size, in which one may be -1; None for none."""
    words = [getattr(getattr(one, "symbol", None), "name", one) for one in size]
    for form in forms:
        own = [getattr(one, "name", one) for one in _sizes(form)] if form != FULL or running.get().rank < 3 else []
        if len(own) == len(words) and words.count(-1) <= 1 and all(a in (-1, b) for a, b in zip(words, own)):
            return form
    return None


def _normalize(x, p=2.0, dim=1, eps=1e-12):
    return x / x.norm(p, dim, keepdim=True).clamp_min(eps)


# As torch computes them of other functions.
_COMPOSED = {
    "normalize": _normalize, "cosine_similarity": lambda x, y, dim=1, eps=1e-8: (_normalize(x, 2, dim, eps) * _normalize(y, 2, dim, eps)).sum(dim),
    "aminmax": lambda x, dim=None, keepdim=False: torch.return_types.aminmax((x.amin(dim, keepdim), x.amax(dim, keepdim))),
    "std_mean": lambda x, *args, **kwargs: (x.std(*args, **kwargs), x.mean(*args, **{key: kwargs[key] for key in kwargs.keys() & {"dim", "keepdim"}}))}


def has_proxies(values: Any) -> bool:
    """Whether a proxy is among arguments."""
    if isinstance(values, dict):
        values = values.values()
    return any(isinstance(one, (Proxy, Number, Extent, Shape)) or isinstance(one, (tuple, list, dict)) and has_proxies(one)
               for one in values)


_EXACT = {torch.float32, torch.float64, torch.bool, torch.long, torch.int}
# x.add_(alpha, y) and x.addcdiv_(value, y, z), which torch still takes: how many arguments these have.
_OLD_ORDER = {"add": 3, "sub": 3, "addcmul": 4, "addcdiv": 4}
_DROPPED = {"memory_format", "dtype", "device", "non_blocking", "layout", "requires_grad", "pin_memory", "copy", "generator"}


def call(function: Any, args: Any, kwargs: Any) -> Any:
    """What a function of torch's does with proxies."""
    name, kwargs = getattr(function, "__name__", "?"), dict(kwargs)
    if name in ("__get__", "__set__", "__delete__"):
        return _property(getattr(function.__self__, "__name__", "?"), name, args)
    return call_method(name, args, kwargs)


def _property(name, way, args):
    if way == "__get__" and name in PROPERTIES:
        return PROPERTIES[name](args[0])
    if name == "grad":
        args[0].held_grad = args[1] if way == "__set__" else None
    elif name == "data" and way == "__set__":
        args[0].cell.symbol = narrow(raw(args[1]), args[0].symbol.trace)
    elif name not in ("requires_grad", "_backward_hooks"):
        fail(f"x.{name} of a tensor: there is no such thing of one while the rule is traced")


def call_method(name: str, args: Any, kwargs: Any) -> Any:
    for given in (*args, kwargs.get("dtype")):
        if isinstance(given, torch.dtype) and given not in _EXACT:
            fail(f"{str(given)} in the code of a step: elements are float32, and storage= says how states are stored")
    if name in MAKERS:
        return _make(name, args, kwargs)
    kwargs = {key: value for key, value in kwargs.items() if key not in _DROPPED and value is not None}
    name = name.removeprefix("special_")
    plain = name[:-1] if name.endswith("_") and not name.endswith("__") else name
    if name.startswith("_foreach_"):
        return _foreach(name[len("_foreach_"):], args, kwargs)
    if name in ASKED:
        return ASKED[name](*args, **kwargs)
    if plain in ("max", "min") and (kwargs.keys() & {"other", "out"} or len(args) > 1 and type(args[1]) is Proxy):
        plain = name = plain + "imum"
    if plain in _COMPOSED:
        return _COMPOSED[plain](*args, **kwargs)
    if plain in REDUCTIONS and args[0].form == NUMBER:
        return proxy(of_number(plain, raw(args[0])), NUMBER)
    if plain in REDUCTIONS:
        return reduced(plain, args[0], args[1:], kwargs)
    if plain == "unsqueeze" and args[0].form == NUMBER:
        return proxy(None, NUMBER, args[0].cell)
    if plain in _MOVES and type(args[0]) is Proxy and args[0].form in OF_ROWS + OF_COLUMNS:
        return _moved(plain, *args, **kwargs)
    if plain in ("matmul", "mm", "__matmul__") and [getattr(one, "form", "") for one in args] == [ROW, COLUMN] or plain in (
            "outer", "ger") and [getattr(one, "form", "") for one in args] == [FLAT_ROW, FLAT_COLUMN]:
        return proxy(binary("mulf", raw(args[0]), raw(args[1])), FULL)
    if name in _SHARES or name in _SAME:
        return _same(name, args)
    if len(args) == _OLD_ORDER.get(plain):
        first, value, *others = args
        args, kwargs = (first, *others), {**kwargs, "value" if plain.startswith("addc") else "alpha": value}
    if plain not in FUNCTIONS:
        fail(f"torch's {plain.strip('_')}: there is no such function of elements in a rule")
    return _elementwise(name, plain, args, kwargs)


def _same(name, args):
    """Another proxy for the same elements; of the same memory where torch's is."""
    x, form = args[0], _viewed(name, *args)
    return proxy(None, form, x.cell) if name in _SHARES else proxy(x.symbol, form)


def _viewed(name, x, *args):
    """The form of x under another shape."""
    if name in ("view_as", "reshape_as") and type(args[0]) is Proxy:
        return args[0].form
    if x.form == NUMBER or name not in ("view", "reshape", "squeeze", "flatten", "ravel") or name == "flatten" and args:
        return x.form
    size = [-1] if name in ("flatten", "ravel") else args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    forms = next(forms for forms in (ELEMENTS, OF_ROWS, OF_COLUMNS) if x.form in forms)
    if forms is ELEMENTS and all(type(one) is int for one in size):  # which asks for no sizes
        forms = FLAT, WIDE, TALL
    return name != "squeeze" and _fitting(size, forms) or fail(
        f"{name}() to another shape: a rule is the same for all elements, whatever their shape")


# {a form: (another one of the same numbers, the dimension that one of them has more)}
_MOVED = {FLAT_ROW: (ROW, 1), ROW: (FLAT_ROW, 1), FLAT_COLUMN: (COLUMN, 0), COLUMN: (FLAT_COLUMN, 0)}
_MOVES = {"unsqueeze": (FLAT_ROW, FLAT_COLUMN), "squeeze": (ROW, COLUMN)}


def _moved(name, x, dim=None):
    """A list of rows or of columns with one dimension more or less."""
    form, at = _MOVED[x.form]
    if x.form not in _MOVES[name] or dim is None and name == "unsqueeze" or dim is not None and dim % 2 != at:
        fail(f"{name}() of {x.form} at dimension {dim}: a rule has numbers for each row, (rows, 1), and each column, (1, columns)")
    return proxy(None, form, x.cell)


def _elementwise(name, plain, args, kwargs):
    out = kwargs.pop("out", None)
    form = _form_together([one.form for one in [*args, *kwargs.values()] if type(one) is Proxy])
    values, named = [raw(one) for one in args], {key: raw(value) for key, value in kwargs.items()}
    if plain not in _KEEP_TRUTH:
        values = [as_float(value) for value in values]
    if form not in ELEMENTS:
        values = [_as_stored(value) for value in values]
    made = FUNCTIONS[plain](*values, **named)
    if out is None and name != plain:
        out = args[0]
    if out is None:
        return proxy(made, form)
    if form not in (out.form, NUMBER) and not {form, out.form} <= {*ELEMENTS}:
        fail(f"{name}() writes {form} into {out.form}: a rule's states keep their shapes")
    out.cell.symbol = proxy(as_float(made) if out.symbol.kind not in ("i1", "i64") else made, form).symbol
    return out


def _form_together(forms):
    """The form of what is computed of tensors of these, as torch spreads them."""
    forms = {*forms} - {NUMBER}
    if len(forms) <= 1:
        return forms.pop() if forms else NUMBER
    if forms <= {*ELEMENTS}:
        return FULL if FULL in forms else WIDE if TALL not in forms else fail("a list of elements meets a column of them, which makes a square")
    if FLAT_ROW in forms or forms & {FLAT, WIDE, TALL}:
        odd = FLAT_ROW if FLAT_ROW in forms else min(forms & {FLAT, WIDE, TALL})
        fail(f"{odd} meets {min(forms - {odd})}: torch would lay it along the columns; write x.unsqueeze(-1)")
    return COLUMN if forms == {COLUMN, FLAT_COLUMN} else FULL


def _as_stored(value):
    """A number beside a tensor of one number: as float32, too, but for the number of the step."""
    return narrow(value, value.trace) if isinstance(value, Symbol) and value.kind == "f64" else value


def _foreach(name, args, kwargs):
    first, made = args[0], []
    for place in range(len(first)):
        made.append(call_method(name, tuple(one[place] if isinstance(one, (list, tuple)) else one for one in args),
                                {key: value[place] if isinstance(value, (list, tuple)) else value for key, value in kwargs.items()}))
    return None if name.endswith("_") else made
