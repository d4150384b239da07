"""altgrad: optimizers written as mathematics, run as fused kernels.

    import altgrad
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    Mine = altgrad.optim.FromRule("my_rule.mlir", storage="m=bf16")
    norm = altgrad.clip_grad_norm_(model.parameters(), 1.0)

`altgrad.optim` has the optimizers, `altgrad.language` makes new ones of Python functions, `altgrad.amp` has mixed
precision, `altgrad.distributed` optimizers over several processes, and `altgrad.ops` the functions of gradients and of
number formats, which are here, too. Importing this package loads no shared library, starts no thread and opens no
driver. The five modules, and torch with all but `language`, are imported when they or their functions are first named.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ._library import Error, runtime_version

if TYPE_CHECKING:
    from . import amp, distributed, language, ops, optim
    from ._storage.line import Storage
    from .matrices import gram, newton_schulz, qk_clip_
    from .ops import (AmaxHistory, clip_grad_norm_, clip_grad_value_, compute_global_grad_norm, compute_scale,
                      dequantize, dynamic_loss_scale_update, fused_grad_unscale_clip, quantize, quantize_blocks,
                      quantize_codes)
    from .optim import transcode

__version__ = "0.1.0"
__all__ = ["AmaxHistory", "Error", "Storage", "__version__", "amp", "clip_grad_norm_", "clip_grad_value_",
           "compute_global_grad_norm", "compute_scale", "dequantize", "dynamic_loss_scale_update",
           "fused_grad_unscale_clip", "gram", "language", "newton_schulz", "ops", "optim", "qk_clip_", "quantize", "quantize_blocks",
           "quantize_codes", "runtime_version", "transcode"]

_MODULES = {"Storage": "._storage.line", "gram": ".matrices", "newton_schulz": ".matrices", "qk_clip_": ".matrices",
            "transcode": ".optim"}

if not TYPE_CHECKING:
    def __getattr__(name):
        if name in ("amp", "distributed", "language", "ops", "optim"):
            return import_module(f".{name}", __name__)
        if name in __all__:
            globals()[name] = getattr(import_module(_MODULES.get(name, ".ops"), __name__), name)
            return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__():
        return sorted(__all__)
