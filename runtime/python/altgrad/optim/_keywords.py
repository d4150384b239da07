"""The keywords that every optimizer has beyond torch's: their types, defaults and descriptions, in one place."""

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from typing_extensions import TypedDict

from .._storage.line import StorageLike
from ._describe import describe

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup


class Shared(TypedDict, total=False):
    """The keywords that all optimizers share.

    Args:
        max_grad_norm: Clips gradients within the step, which leaves `param.grad` as it is. A number
            bounds the global norm of all gradients, as torch.nn.utils.clip_grad_norm_ does.
            "percentile:P" bounds the global norm by the P-th percentile of the last 100 norms.
            "agc:F" bounds the norm of each gradient by F times the norm of its parameter, and
            "agc-unit:F" does so for each index of dimension 0 (Brock et al., 2021). None clips nothing.
            The bound lies in every param_group.
        fused_amp: Whether a torch.amp.GradScaler hands its scale and its `found_inf` to the step, which
            then unscales and checks the gradients itself. altgrad.amp.GradScaler does not need it.
        process_group: The torch.distributed group of the ranks that hold different parameters or
            different shards. The norm, and `found_inf` of the loss scale, are combined over these ranks, and all of
            them have to take part in every step. Leave it None under
            DistributedDataParallel, whose ranks hold the same gradients. DTensors need none: their ranks are those of their
            meshes. Beside them it is the group of ranks that have other stages of a pipeline.
        statistics: Whether each step also computes norms and counts of every parameter, which
            `statistics()` returns. No further pass over memory is made for them.
        norm_in_backward: Whether the backward pass sums each gradient for the norm as soon as the gradient is
            complete. The step then reads gradients once instead of twice. CPU only, from the second step on. With
            several ranks it works only if fully_shard reduces the gradients. A gradient that is changed later is
            summed again, provided that the change raises its version counter. Writes through `.data` or NumPy do not
            raise it: do not change a gradient that way between backward and step.
        offload: Whether states and masters of parameters on a GPU are kept in the host's memory and updated there.
            Gradients are copied to the host while backward runs and summed for the norm as they arrive; parameters are
            copied back while others are updated. A gradient that is changed later has to raise its version counter, as
            with `norm_in_backward`. Nothing changes for parameters on the CPU; for DTensors use FSDP2's CPUOffloadPolicy.
            Ranks on one host share its cores. "bound" binds the threads of a step to this rank's share, near its GPU
            where Linux reports that.
            Not yet run on a GPU: the tests run it on a device whose memory is the CPU's.
        numerics: "torch" rounds gradients to their dtype after unscaling and after clipping, as
            separate calls of `unscale_` and `clip_grad_norm_` do. None keeps them in float32.
        storage: In which formats the parameters' copies and the states are stored, and how they are rounded:
            an altgrad.optim.Storage, a storage line such as "m=bf16 v=ocp.e5m2:128,keep_positive", or a dict. A class
            with narrow states keeps its own formats for the streams that are not named. templates/Storage.md lists formats
            and modifiers. A param_group may have a "storage" of its own, such as "states=f32" for embeddings, which
            overrides this one for the streams that it names.
        ema: The decay of an exponential moving average of the weights, such as 0.999, which the step keeps as one more state,
            `state[param]["ema"]`: ema = lerp(ema, new parameter, 1 - decay), beginning with the parameter before the first
            step, of the master where there is one. It is float32, or as `storage="ema=bf16,stochastic"` says.
            `ema_weights()` evaluates with it. A group may have a decay of its own.
        seed: The key of the random numbers for stochastic rounding, a whole number of at most 64 bits.
            None takes one from torch's generator. Only allowed where the storage rounds stochastically.
    """

    max_grad_norm: float | str | None
    fused_amp: bool
    process_group: "ProcessGroup | None"
    statistics: bool
    norm_in_backward: bool
    offload: bool | str
    numerics: str | None
    storage: StorageLike
    ema: float | None
    seed: int | None


class OfTorch(Shared, total=False):
    """Those of the classes that torch.optim has under the same name.

    Args:
        fallback: Whether torch's class of the same name steps the parameters that kernels cannot: those in float64 or
            complex numbers, with sparse gradients, two parameters over the same memory, and groups with
            `differentiable=True`. (A weight that a model uses twice is one parameter, and kernels step it.) A warning names the first. With False, or with a
            `storage`, such parameters raise an error.
    """

    fallback: bool


DEFAULTS = OfTorch(max_grad_norm=None, fused_amp=False, process_group=None, statistics=False,
                   norm_in_backward=False, offload=False, numerics=None, storage="", ema=None, seed=None, fallback=True)

Init = TypeVar("Init", bound=Callable[..., None])


def parameters_of(kind: type) -> list[inspect.Parameter]:
    """The keywords in Shared or OfTorch, as a signature shows them."""
    return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS[name],
                              annotation=getattr(hint, "__forward_arg__", hint))
            for name, hint in kind.__annotations__.items()]


def signature_of(init: Callable[..., None]) -> inspect.Signature:
    """The signature of a constructor, with the keywords it takes in place of `**shared`."""
    *own, shared = inspect.signature(init).parameters.values()
    return inspect.Signature([*own, *parameters_of(shared.annotation.__args__[0])])


def shown(init: Init) -> Init:
    """A constructor that shows the keywords in its signature."""
    init.__signature__ = signature_of(init)
    return init


def filled(owner: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """These keywords beside the defaults of all others. Raises TypeError where there is no such keyword."""
    for name in given.keys() - DEFAULTS.keys():
        raise TypeError(f"altgrad.optim.{owner} got an unexpected keyword argument {name!r}"
                        + meant(name, DEFAULTS))
    return {**DEFAULTS, **given}


# What others call a keyword.
_ELSEWHERE = {"learning_rate": "lr", "decay": "weight_decay", "wd": "weight_decay", "l2": "weight_decay",
              "max_norm": "max_grad_norm", "clip": "max_grad_norm", "clip_norm": "max_grad_norm",
              "grad_clip": "max_grad_norm", "beta1": "betas", "beta2": "betas", "epsilon": "eps",
              "dtype": "storage", "state_dtype": "storage", "formats": "storage", "bits": "storage"}


# What others have a keyword for, and how it is said here: bitsandbytes', torchao's, apex's and TransformerEngine's, Dion's.
_MIGRATION = {
    "optim_bits": "states in 8 bits are classes of their own: AdamW8bit, Adam8bit, Lion8bit",
    "min_8bit_size": 'classes with narrow states, such as AdamW8bit, take it; write it into storage here, as in '
                     'storage="m=bnb8:256,min_size:8192"',
    "percentile_clipping": 'write max_grad_norm="percentile:5"',
    "block_wise": "every block of a state has a scale",
    "block_size": 'write it into storage, as in storage="states=bnb8u:128,keep_positive m=bnb8:128"',
    "is_paged": "offload=True keeps states on the host",
    "bf16_stochastic_round": 'write storage="param=bf16,stochastic"',
    "master_weights": 'write storage="master=f32"',
    "master_weight_dtype": 'write storage="master=f32", or "master=bf16+i16"',
    "exp_avg_dtype": 'write storage="m=bf16"',
    "exp_avg_sq_dtype": 'write storage="v=bf16,stochastic"',
    "store_param_remainders": 'write storage="master=bf16+i16"',
    "adam_w_mode": "AdamW decays weights apart from the gradient, and Adam adds the decay to it",
    "set_grad_none": "write optimizer.zero_grad(set_to_none=...)",
    "mu": "write momentum=",
    "adjust_lr": "write adjust_lr_fn=, or preset=\"dion\"",
    "cautious_wd": "write cautious=True",
    "use_polar_express": 'write orthogonalize=altgrad.optim.NewtonSchulz(coefficients="polar_dion")',
    "newton_schulz_func": "write orthogonalize=altgrad.optim.NewtonSchulz(...)",
    "algorithm": 'write "use_muon": False in a group that AdamW steps',
    "muon_params": 'write params=[{"params": muon_params}, {"params": adamw_params, "use_muon": False}]',
    "adamw_params": 'write params=[{"params": muon_params}, {"params": adamw_params, "use_muon": False}]',
    **dict.fromkeys(("qr_method", "cqr_warmup_steps", "rcqr_oversample"), "torch's QR decomposition factorizes; leave it out"),
    "mixed_precision_config": 'write storage="m=bf16 v=bf16"; Q is float32',
    **dict.fromkeys(("replicate_mesh", "outer_shard_mesh", "inner_shard_mesh"), "give DTensors, which have their mesh; leave it out"),
    "replicate_mesh_grad_sync": "DDP or fully_shard reduces gradients before the step; leave it out",
    "distributed_mesh": "altgrad.distributed.DistMuon takes DTensors and a process_group",
}


def meant(name: str, known: Iterable[str]) -> str:
    """"; did you mean lr?" where one of `known` means what `name` says, and all of them."""
    known = list(known)
    if name in _MIGRATION and "max_grad_norm" in known:  # an optimizer's
        return f"; {_MIGRATION[name]}"
    near = [_ELSEWHERE[name]] if _ELSEWHERE.get(name) in known else difflib.get_close_matches(name, known, 1)
    return (f"; did you mean {near[0]}? It takes " if near else "; it takes ") + (", ".join(known) or "none")


def check_group_keys(owner: str, group: Iterable[str], known: Iterable[str]) -> None:
    """Raises TypeError for a key of a param_group that another library reads and this class does not."""
    for name in group:
        if name in _MIGRATION and name not in known:
            raise TypeError(f"{owner}: got an unexpected key {name!r}; {_MIGRATION[name]}")


def check_numbers(owner: str, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raises TypeError where a number, or a tuple of numbers, is something else."""
    for name, default in defaults.items():
        value = given.get(name, default)
        if isinstance(default, tuple):
            right = isinstance(value, (tuple, list)) and len(value) == len(default)
            right = right and not any(isinstance(part, (str, bytes, complex, type(None))) for part in value)
            wanted = f"a tuple of {len(default)} numbers"
        elif isinstance(default, (int, float)) and not isinstance(default, bool):
            right, wanted = not isinstance(value, (str, bytes, complex, type(None), tuple, list, dict)), "a number"
        else:
            continue
        if not right:
            raise TypeError(f"altgrad.optim.{owner}: {name} is {value!r}, not {wanted} such as {default}")


def document(cls: type) -> None:
    """Completes the docstring of a class: every argument is described, and those of all classes in the base alone."""
    is_base = cls.__name__ == "Optimizer"
    describe(cls, list(inspect.signature(cls).parameters), (Shared, OfTorch), () if is_base else DEFAULTS)
