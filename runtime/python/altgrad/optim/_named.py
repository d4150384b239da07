"""The optimizers by name: which rule, and how its names map to torch's. No arithmetic here."""

import inspect

import torch
from torch.optim.optimizer import _get_scalar_dtype

from .._binding.layout import CODES, PARAM_DTYPES, dtype_of
from .._rule import find_rule, format_of
from .._storage.blocks import BLOCKED_NUMEL, block_of, unblocked
from ._optimizer import Optimizer

_OURS = [
    inspect.Parameter("max_grad_norm", inspect.Parameter.KEYWORD_ONLY, default=None),
    inspect.Parameter("fused_amp", inspect.Parameter.KEYWORD_ONLY, default=False),
    inspect.Parameter("process_group", inspect.Parameter.KEYWORD_ONLY, default=None),
    inspect.Parameter("statistics", inspect.Parameter.KEYWORD_ONLY, default=False),
    inspect.Parameter("norm_in_backward", inspect.Parameter.KEYWORD_ONLY, default=False),
    inspect.Parameter("profile", inspect.Parameter.KEYWORD_ONLY, default=None),
    inspect.Parameter("storage", inspect.Parameter.KEYWORD_ONLY, default=""),
    inspect.Parameter("seed", inspect.Parameter.KEYWORD_ONLY, default=None),
]
_FALLBACK = inspect.Parameter("fallback", inspect.Parameter.KEYWORD_ONLY, default=True)
_BETAS = {"beta1": ("betas", 0), "beta2": ("betas", 1), "decay": "weight_decay"}
_MAXIMIZE = {"maximize": lambda g: g["maximize"]}


class Named(Optimizer):
    """An optimizer of the library: a template, under the signature of `_reference` or `_defaults`.

    `_reference` is asked for the group's defaults and to refuse bad arguments, in
    its own words.
    """

    _template = None
    _defaults = {}

    def __init_subclass__(cls, **arguments):
        super().__init_subclass__(**arguments)
        if cls._reference is not None:
            given = inspect.signature(cls._reference.__init__).parameters
            own = [p for name, p in given.items() if name not in ("self", "params")]
        else:
            own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=value)
                   for name, value in cls._defaults.items()]
        cls._older = {**{p.name: p.default for p in own}, **cls.__dict__.get("_older", {})}
        if "__init__" not in cls.__dict__:
            cls.__init__ = _constructor(cls, own)
        shown = list(inspect.signature(cls.__init__).parameters.values())
        cls.__signature__ = inspect.Signature(shown[1:])

    def _start(self, given):
        """What a constructor does with its arguments."""
        params = given.pop("params")
        ours = {p.name: given.pop(p.name) for p in _ours(type(self))}
        if self._reference is not None:
            example = torch.nn.Parameter(torch.zeros(1, device="cpu"))
            defaults = self._reference([example], **given).defaults
        else:
            _check(given)
            defaults = given
        Optimizer.__init__(self, params, defaults, **ours)

    def _rule_of(self, group):
        return find_template(self._template)


def _ours(cls):
    """The keywords that torch's classes do not have."""
    return _OURS if cls._reference is None else [*_OURS, _FALLBACK]


def _constructor(cls, own):
    """An __init__ that shows its parameters: some tools ask a class, others its constructor."""
    signature = inspect.Signature([
        *(inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD)
          for name in ("self", "params")), *own, *_ours(cls)])

    @torch._disable_dynamo
    def __init__(self, *positional, **keywords):
        bound = signature.bind(self, *positional, **keywords)
        bound.apply_defaults()
        given = dict(bound.arguments)
        del given["self"]
        self._start(given)

    __init__.__signature__ = signature
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    return __init__


_templates = {}


def find_template(name):
    """The Rule of a template, read once per process."""
    if name not in _templates:
        _templates[name] = find_rule(name)
    return _templates[name]


def _check(given):
    """Refuses what torch's classes refuse, in the same words."""
    for name, words in (("lr", "learning rate"), ("eps", "epsilon value"),
                        ("weight_decay", "weight_decay value")):
        if name in given and not 0.0 <= given[name]:
            raise ValueError(f"Invalid {words}: {given[name]}")
    if not 0 <= (bits := given.get("mantissa_bits", 0)) <= 23 or bits != int(bits):
        raise ValueError(f"Invalid mantissa_bits value: {bits}; it is a whole number of 0 to 23")
    if isinstance(given["lr"], torch.Tensor) and given["lr"].numel() != 1:
        raise ValueError("Tensor lr must be 1-element")
    for index, beta in enumerate(given.get("betas", ())):
        if not 0.0 <= beta < 1.0:
            raise ValueError(f"Invalid beta parameter at index {index}: {beta}")


class Adam(Named):
    """torch.optim.Adam on altgrad's kernels (templates/adam.mlir, adamw.mlir).

    Same arguments, group keys and state keys; with `max_grad_norm` and
    `fused_amp` of altgrad.optim.Optimizer.
    """

    _reference = torch.optim.Adam
    _hypers = _BETAS
    _keys = {"m": "exp_avg", "v": "exp_avg_sq", "vmax": "max_exp_avg_sq"}
    _only_with = {"vmax": "amsgrad"}
    _options = {"amsgrad": lambda g: g["amsgrad"], **_MAXIMIZE}

    def _rule_of(self, group):
        return find_template("adamw" if group["decoupled_weight_decay"] else "adam")


class AdamW(Adam):
    """torch.optim.AdamW on altgrad's kernels; see Adam."""

    _reference = torch.optim.AdamW
    # In every group, but no argument.
    _older = {"decoupled_weight_decay": True}

    def __setstate__(self, state):
        super().__setstate__(state)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True


class SGD(Named):
    """torch.optim.SGD on altgrad's kernels (templates/sgd.mlir)."""

    _reference = torch.optim.SGD
    _template = "sgd"
    _hypers = {"decay": "weight_decay"}
    _keys = {"buf": "momentum_buffer"}
    _only_with = {"buf": "momentum_on"}
    # torch stores no step count: the first step is the one without a buffer.
    _count_key = None
    _takes_sparse = True
    _options = {"momentum_on": lambda g: g["momentum"] != 0,
                "nesterov": lambda g: g["nesterov"], **_MAXIMIZE}


class Adagrad(Named):
    """torch.optim.Adagrad on altgrad's kernels (templates/adagrad.mlir).

    State is made in the constructor, as torch does, but where a `storage` has a word for it.
    """

    _reference = torch.optim.Adagrad
    _template = "adagrad"
    _hypers = {"decay": "weight_decay"}
    _keys = {"sum": "sum"}
    _takes_sparse = True
    _options = _MAXIMIZE

    def _start(self, given):
        super()._start(given)
        for group in self.param_groups:
            for param in group["params"]:
                if self._word:
                    self._check_first(param, group)
                else:
                    self.state[param] = _accumulator(param, group)

    @property
    def _word(self):
        return self._words.get("sum") or self._words.get("states")

    def _check_first(self, param, group):
        """Raises where a sum would begin with a number that its codes do not have as their own."""
        words = self._words if param.numel() >= BLOCKED_NUMEL else unblocked(self._words)
        word = words.get("sum") or words.get("states") or "f32"
        first = group["initial_accumulator_value"]
        if first and (block_of(word) > 1 or dtype_of(format_of(word)) in CODES):
            raise ValueError(f"initial_accumulator_value={first}, but sum={word} begins with 0: leave "
                             "it 0, or store the sum as f32, bf16 or f16")

    def _before_torch(self, param, group):
        if not self.state.get(param):
            self.state[param] = _accumulator(param, group)

    def share_memory(self):
        """Moves the states to shared memory."""
        for group in self.param_groups:
            for param in group["params"]:
                for tensor in self.state[param].values():
                    tensor.share_memory_()

    def _first_state(self, stream, row, dtype):
        state, group = super()._first_state(stream, row, dtype), self.param_groups[row.group]
        if stream.role != "state":
            return state
        self._check_first(row.param, group)
        return state.fill_(group["initial_accumulator_value"])


def _accumulator(param, group):
    first, ours = group["initial_accumulator_value"], param.dtype in PARAM_DTYPES
    count = torch.float32 if ours else _get_scalar_dtype(is_fused=group["fused"])
    return {"step": torch.tensor(0.0, dtype=count, device="cpu"),
            "sum": torch.full_like(param, complex(first, first) if param.is_complex() else first,
                                   memory_format=torch.preserve_format)}


class RMSprop(Named):
    """torch.optim.RMSprop on altgrad's kernels (templates/rmsprop.mlir)."""

    _reference = torch.optim.RMSprop
    _template = "rmsprop"
    _hypers = {"decay": "weight_decay"}
    _keys = {"v": "square_avg", "mean": "grad_avg", "buf": "momentum_buffer"}
    _only_with = {"mean": "centered", "buf": "momentum_on"}
    _options = {"centered": lambda g: g["centered"],
                "momentum_on": lambda g: g["momentum"] > 0, **_MAXIMIZE}
    # Whether or not the rule counts, checkpoints have torch's count.
    _always_counts = True


class Lion(Named):
    """Lion (Chen et al., 2023; templates/lion.mlir); the authors' arguments and state keys."""

    _template = "lion"
    _defaults = dict(lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, maximize=False)
    _hypers = _BETAS
    _keys = {"m": "exp_avg"}
    _options = _MAXIMIZE


class ManifoldAdamW(Named):
    """AdamW on the grid of a format with `mantissa_bits` (ParkerWilliams/altgrad; templates/manifoldadamw.mlir).

    Gradients are first multiplied by a parameter's distance to the next number of that format, up to
    `max_stiffness`, unless `manifold_aware` is False. With `bit_position=True` state has the source's
    `bit_position`, in float32: by how many of its places in float32 a parameter has moved in all.
    """

    _template = "manifoldadamw"
    _defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, mantissa_bits=2, max_stiffness=1e6,
                     manifold_aware=True, bit_position=False, maximize=False)
    _hypers = _BETAS
    _keys = {"m": "exp_avg", "v": "exp_avg_sq", "position": "bit_position"}
    _only_with = {"position": "positions"}
    _options = {"plain": lambda g: not g["manifold_aware"], "positions": lambda g: g["bit_position"], **_MAXIMIZE}


class LAMB(Named):
    """LAMB (You et al., 2020; templates/lamb.mlir); the arguments of apex's FusedLAMB.

    apex clips the global norm by 1 unless told otherwise, this class only with
    `max_grad_norm`, and then by torch's formula.
    """

    _template = "lamb"
    _defaults = dict(lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.01, adam_w_mode=True,
                     grad_averaging=True, use_nvlamb=False, maximize=False)
    _hypers = _BETAS
    _keys = {"m": "exp_avg", "v": "exp_avg_sq"}
    _options = {"l2": lambda g: not g["adam_w_mode"], "nvlamb": lambda g: g["use_nvlamb"],
                "no_grad_averaging": lambda g: not g["grad_averaging"], **_MAXIMIZE}


class ADOPT(Named):
    """ADOPT (Taniguchi et al., 2024; templates/adopt.mlir).

    `clip=False` leaves out the clamp by (t - 1)^(1/4), `decouple=True` decays
    the parameter instead of the gradient.
    """

    _template = "adopt"
    _defaults = dict(lr=1e-3, betas=(0.9, 0.9999), eps=1e-6, weight_decay=0.0, decouple=False,
                     clip=True, maximize=False)
    _hypers = _BETAS
    _keys = {"m": "exp_avg", "v": "exp_avg_sq"}
    _options = {"no_clip": lambda g: not g["clip"], "decoupled": lambda g: g["decouple"],
                **_MAXIMIZE}


class AdEMAMix(Named):
    """AdEMAMix (Pagliardini, Ablin and Grangier, 2024; templates/ademamix.mlir).

    The authors' arguments; a warm-up of None is none.
    """

    _template = "ademamix"
    _defaults = dict(lr=1e-3, betas=(0.9, 0.999, 0.9999), alpha=2.0, beta3_warmup=None,
                     alpha_warmup=None, eps=1e-8, weight_decay=0.0, maximize=False)
    _hypers = {**_BETAS, "beta3": ("betas", 2)}
    _absent = ("beta3_warmup", "alpha_warmup")
    _keys = {"fast": "exp_avg_fast", "slow": "exp_avg_slow", "v": "exp_avg_sq"}
    _options = _MAXIMIZE
