"""altgrad: optimizers written as mathematics, run as fused kernels.

    import altgrad
    optimizer = altgrad.optim.AdamW(model.parameters(), lr=1e-3, max_grad_norm=1.0)
    Mine = altgrad.optim.FromRule("my_rule.mlir", storage="m=bf16")

Importing this package loads no shared library, starts no thread and opens no
driver; `altgrad.optim` (and with it torch) is imported when it is first named.
"""

from importlib import import_module

from ._library import Error, runtime_version

__version__ = "0.1.0"
__all__ = ["Error", "__version__", "amp", "optim", "runtime_version"]


def __getattr__(name):
    if name in ("amp", "optim"):
        return import_module("." + name, __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
