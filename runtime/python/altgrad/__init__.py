"""altgrad: optimizers written as mathematics, run as fused kernels.

    import altgrad
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    Mine = altgrad.optim.FromRule("my_rule.mlir", storage="m=bf16")
    norm = altgrad.ops.clip_grad_norm_(model.parameters(), 1.0)

- `altgrad.optim` has the optimizers, FromRule for rules of your own, and Storage.
- `altgrad.language` makes optimizers of Python functions.
- `altgrad.amp` has mixed precision: AmpConfig and GradScaler.
- `altgrad.distributed` has optimizers over several processes.
- `altgrad.ops` has functions of gradients, `altgrad.quant` those of number formats, `altgrad.matrices` those of
  matrices.
- `altgrad.transcode` converts the state_dicts of optimizers.

Functions of `ops` and `quant` that torch or another library has under the same name, and Storage, are found here, too.
Importing this package loads no shared library, starts no thread and opens no driver. The modules, and with them torch
(but for `language`), are imported when they or their functions are first named.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._library import Error, runtime_version
from ._warn import moved

if TYPE_CHECKING:
    from . import amp, distributed, language, matrices, ops, optim, quant
    from .ops import clip_grad_norm_ as clip_grad_norm_
    from .ops import clip_grad_value_ as clip_grad_value_
    from .ops import compute_global_grad_norm as compute_global_grad_norm
    from .ops import dynamic_loss_scale_update as dynamic_loss_scale_update
    from .ops import fused_grad_unscale_clip as fused_grad_unscale_clip
    from .optim import Storage as Storage
    from .optim._transcode import StateError, transcode
    from .quant import AmaxHistory as AmaxHistory
    from .quant import compute_scale as compute_scale
    from .quant import dequantize as dequantize
    from .quant import quantize as quantize

__version__ = "0.1.0"
__all__ = ["Error", "StateError", "__version__", "amp", "distributed", "language", "matrices", "ops", "optim",
           "quant", "runtime_version", "transcode"]

# Where functions are that are found here, too: those of torch and of other libraries, and Storage, which pickles name
# here.
_HOMES = {
    "StateError": ".optim._transcode", "transcode": ".optim._transcode", "Storage": ".optim",
    **dict.fromkeys(("clip_grad_norm_", "clip_grad_value_", "compute_global_grad_norm", "dynamic_loss_scale_update",
                     "fused_grad_unscale_clip"), ".ops"),
    **dict.fromkeys(("AmaxHistory", "compute_scale", "dequantize", "quantize"), ".quant")}
_MOVED = {**dict.fromkeys(("gram", "newton_schulz", "qk_clip_"), "altgrad.matrices"),
          **dict.fromkeys(("quantize_blocks", "quantize_codes"), "altgrad.quant")}

if not TYPE_CHECKING:
    def __getattr__(name):
        if name in ("amp", "distributed", "language", "matrices", "ops", "optim", "quant"):
            return import_module(f".{name}", __name__)
        if name in _HOMES:
            globals()[name] = getattr(import_module(_HOMES[name], __name__), name)
            return globals()[name]
        return moved(__name__, name, _MOVED)

    def __dir__():
        return sorted(__all__)
