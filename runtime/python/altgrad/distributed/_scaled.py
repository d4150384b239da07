"""A step of this rank's part under a loss scaler, whose `found_inf` and scale become those of all ranks."""

import torch
from torch.amp.grad_scaler import OptState

from ..amp import GradScaler


def check_scaler(owner, optimizer, closure, scaler):
    """Raises RuntimeError where a scaler has been asked for gradients that are on other ranks, or would not know."""
    if closure is not None and scaler is not None:
        raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
    if getattr(optimizer, "grad_scale", None) is not None:
        raise RuntimeError(f"{owner}: this scaler looks at param.grad, which is None: use altgrad.amp.GradScaler")
    if scaler is not None and scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.UNSCALED:
        raise RuntimeError(f"{owner}: scaler.unscale_(optimizer) found no gradients, which are on their way to other "
                           "ranks: leave it out, for the step unscales them; max_grad_norm= clips")


def step_part(part, ranks, scaler):
    """Steps the optimizer of this rank's part, whose gradients are scaled by `scaler`; None: they are not."""
    if scaler is None:
        part.step()
    elif isinstance(scaler, GradScaler):
        scaler.step(part)
    else:
        scale = scaler._get_scale_async()
        shares = [share.to(scale.device) for share in scaler._check_inf_per_device(part).values()]
        found = ranks.sum(sum(shares, torch.zeros_like(scale))).float()
        # From here update() takes it.
        scaler._per_optimizer_states[id(part)]["found_inf_per_device"] = {found.device: found}
        if not part.fused_amp and found.item():  # torch's scaler calls no step then, and the last norm stays
            return
        part.grad_scale, part.found_inf = scale, found
        try:
            part.step()
        finally:
            del part.grad_scale, part.found_inf
