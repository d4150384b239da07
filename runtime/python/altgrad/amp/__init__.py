"""Mixed precision around altgrad's optimizers."""

from ._scaler import GradScaler

__all__ = ["GradScaler"]
