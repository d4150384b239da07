"""torch's global settings, each as it is while altgrad runs: the caller's own code is outside of them.

`install("float64,meta")` wraps what altgrad's users call, so that a test compares what altgrad does under these settings
with what its references do without them.
"""

import functools
import inspect
from contextlib import ExitStack, contextmanager

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

# What users call of an optimizer and of a scaler, beside what their constructors do.
_METHODS = ("step", "zero_grad", "state_dict", "load_state_dict", "add_param_group", "__getstate__", "__setstate__", "statistics",
            "unscale_", "update")
_FUNCTIONS = ("clip_grad_norm_", "clip_grad_value_", "compute_global_grad_norm", "fused_grad_unscale_clip",
              "dynamic_loss_scale_update", "quantize_blocks", "quantize_codes", "compute_scale", "transcode", "qk_clip_")


class SeesAll(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})


class SeesFunctions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **kwargs or {})


@contextmanager
def _set(read, write, value):
    before = read()
    write(value)
    try:
        yield
    finally:
        write(before)


def _dtype(dtype):
    return lambda: _set(torch.get_default_dtype, torch.set_default_dtype, dtype)


@contextmanager
def _filled():
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = before[1]


MODES = {
    "float64": _dtype(torch.float64), "bfloat16": _dtype(torch.bfloat16), "float16": _dtype(torch.float16),
    "meta": lambda: torch.device("meta"), "inference": torch.inference_mode, "filled": _filled,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16), "no_grad": torch.no_grad, "grad": torch.enable_grad,
    "dispatch": SeesAll, "function": SeesFunctions,
    "medium": lambda: _set(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"),
}


def under(names):
    """A context with all of these settings."""
    stack = ExitStack()
    for name in names:
        stack.enter_context(MODES[name]())
    return stack


def _wrapped(function, names):
    @functools.wraps(function)
    def wrapper(*positional, **keywords):
        with under(names) as stack:
            def outside(closure):
                def call():
                    stack.close()
                    try:
                        return closure()
                    finally:
                        stack.enter_context(under(names))
                return call
            if closure := keywords.get("closure"):
                keywords["closure"] = outside(closure)
            elif function.__name__ == "step":
                positional = [outside(of) if inspect.isfunction(of) else of for of in positional]
            return function(*positional, **keywords)
    return wrapper


def _all_of(kind):
    return {kind, *[each for below in kind.__subclasses__() for each in _all_of(below)]}


def install(words):
    """Has altgrad run under these settings from now on."""
    import altgrad
    names = words.split(",")
    for kind in _all_of(altgrad.optim.Optimizer) | {altgrad.amp.GradScaler}:
        for name in ("__init__", *_METHODS):
            if name in vars(kind):
                setattr(kind, name, _wrapped(vars(kind)[name], names))
    for name in _FUNCTIONS:
        setattr(altgrad, name, _wrapped(getattr(altgrad, name), names))
