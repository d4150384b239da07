"""Functions of matrices for formulas of one's own: the Gram matrix and Newton-Schulz iterations, with autograd.

They are torch's products, on any device, and operators of torch.library: `torch.ops.altgrad.gram` and
`torch.ops.altgrad.newton_schulz`. Optimizers do not need them; their products are in their programs.
"""

from ._gram import gram
from ._newton_schulz import newton_schulz

__all__ = ["gram", "newton_schulz"]
