"""altgrad: optimizers written as mathematics, run as fused kernels.

    import altgrad
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    Mine = altgrad.optim.FromRule("my_rule.mlir", storage="m=bf16")
    norm = altgrad.clip_grad_norm_(model.parameters(), 1.0)

Importing this package loads no shared library, starts no thread and opens no
driver; `altgrad.optim`, `altgrad.amp` and `altgrad.ops` (and with them torch) are imported
when they or the functions of the latter are first named.
"""

from importlib import import_module

from ._library import Error, runtime_version

__version__ = "0.1.0"
_OPS = ("AmaxHistory", "clip_grad_norm_", "clip_grad_value_", "compute_global_grad_norm",
        "compute_scale", "dequantize", "dynamic_loss_scale_update", "fused_grad_unscale_clip", "quantize",
        "quantize_blocks", "quantize_codes")
__all__ = ["Error", "Storage", "__version__", "amp", "ops", "optim", "runtime_version", "transcode", *_OPS]


def __getattr__(name):
    if name in ("amp", "ops", "optim"):
        return import_module(f".{name}", __name__)
    if name == "Storage":
        return import_module("._storage.line", __name__).Storage
    if name == "transcode":
        return import_module(".optim", __name__).transcode
    if name in _OPS:
        globals()[name] = getattr(import_module(".ops", __name__), name)
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
