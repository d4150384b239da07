"""Functions of matrices: the Gram matrix and Newton-Schulz iterations with autograd, and the bound of attention logits.

The first two are torch's products, on any device, and operators of torch.library: `torch.ops.altgrad.gram` and
`torch.ops.altgrad.newton_schulz`. Optimizers do not need them; their products are in their programs.
"""

from ._gram import gram
from ._newton_schulz import newton_schulz
from ._qk_clip import qk_clip_

__all__ = ["gram", "newton_schulz", "qk_clip_"]


def __dir__() -> list[str]:
    return sorted(__all__)
