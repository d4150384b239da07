"""Integrations: what ZeRO, DDP, Accelerate, checkpoints and tracers expect of an optimizer beside torch's contract."""

import gc
import sys

import torch
from torch._C import _get_dispatch_mode, _is_tracing, _len_torch_dispatch_stack, _TorchDispatchModeKey
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.nn.parallel import DistributedDataParallel

from .._binding.group_rules import OF_PARAMETERS, parse_clip
from .._storage.portable import callers
from .._warn import warn


def group_of_zero(optimizer, bound):
    """The process group of the ZeroRedundancyOptimizer whose constructor calls that of `optimizer`; else None.

    It keeps `process_group=` for itself, and each rank's optimizer gets a part of the parameters:
    `bound` is of the norm of all of them, unless it is one of each parameter, and so are a rule's sums over the step.
    """
    zero = sys.modules.get("torch.distributed.optim.zero_redundancy_optimizer")
    begins = getattr(getattr(zero, "ZeroRedundancyOptimizer", None), "_init_local_optimizer", None)
    frame = sys._getframe(1) if begins else None
    while frame:
        if frame.f_code is begins.__code__:
            common = bound is not None and parse_clip(bound)[1] not in OF_PARAMETERS
            totals = any([rule.totals() for rule in optimizer._every_rule()])
            return frame.f_locals["self"].process_group if common or totals else None
        frame = frame.f_back
    return None


def is_state_probe(optimizer):
    """Whether torch.distributed.checkpoint calls this step, for which it has put gradients of 0 in place.

    It wants states that it can save or load into. A step that counted would be the first one of a run that was only
    asked for its states. States that count themselves, as SGD's, begin then as torch's do: a file does not tell
    momentum of 0 from none.
    """
    return bool(optimizer._count_key) and not optimizer.state and "_init_optim_state" in callers()


def tell_accelerate(optimizer, flag):
    """Says that this step was skipped to an AcceleratedOptimizer, which takes a call for a step.

    It puts a function of its own in the place of `step`, into the object, and reads an attribute afterwards. Only
    then is `flag`, a number or a tensor, read back.
    """
    for cell in getattr(vars(optimizer).get("step"), "__closure__", None) or ():
        seen = cell.cell_contents
        if hasattr(seen, "_accelerate_step_called") and getattr(seen, "optimizer", None) is optimizer:
            seen._accelerate_step_called = float(flag) == 0.0


def warn_of_ddp(owner, params):
    """Warns where a DistributedDataParallel has some of these parameters, and averages their gradients, too."""
    mine = set(map(id, params))
    for other in gc.get_objects():
        # A question to some objects would run their code; their type is asked.
        if issubclass(type(other), DistributedDataParallel) and not mine.isdisjoint(
                map(id, vars(other).get("_module_parameters", ()))):
            warn(f"{owner}: the model is in a DistributedDataParallel, which averages gradients as this optimizer does, so that "
                 "they travel twice: give it the model as it is, or take a class of altgrad.optim")
            break


def check_untraced(owner):
    """Raises RuntimeError where a tracer looks on, as a graph would lack the update, or where new tensors have no memory."""
    if not _is_tracing() and not _len_torch_dispatch_stack():
        return
    if _is_tracing() or get_proxy_mode() is not None:
        raise RuntimeError(
            f"altgrad.optim.{owner}: step() runs compiled kernels, which a tracer (make_fx, torch.export, "
            "torch.jit.trace) cannot record; call it outside of what is traced, or trace torch's class")
    for key in (_TorchDispatchModeKey.FAKE, _TorchDispatchModeKey.FUNCTIONAL):
        if mode := _get_dispatch_mode(key):
            raise RuntimeError(
                f"altgrad.optim.{owner}: step() runs compiled kernels, and under {type(mode).__name__} what it makes has no "
                "memory for them; call it outside of the mode")
