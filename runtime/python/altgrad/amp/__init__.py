"""Mixed precision: what the devices can do, what a run is to use, and the loss scale.

Begin with AmpConfig, which chooses the dtype, the autocast and the loss scale of a run. The functions about
bfloat16 answer single questions that `AmpConfig.auto()` has asked already.
"""

from ._config import AmpConfig
from ._detect import (Bf16Capability, detect_bf16_support, get_amp_dtype_for_device,
                      get_bf16_capability, get_optimal_dtype, print_bf16_status)
from ._scaler import GradScaler
from ._tensors import is_bf16_tensor, safe_to_bf16

__all__ = ["AmpConfig", "Bf16Capability", "GradScaler", "detect_bf16_support", "get_amp_dtype_for_device",
           "get_bf16_capability", "get_optimal_dtype", "is_bf16_tensor", "print_bf16_status", "safe_to_bf16"]
