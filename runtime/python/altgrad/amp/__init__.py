"""Mixed precision: what the devices can do, what a run is to use, and the loss scale."""

from ._config import AmpConfig
from ._detect import (Bf16Capability, detect_bf16_support, get_amp_dtype_for_device,
                      get_bf16_capability, get_optimal_dtype, print_bf16_status)
from ._scaler import GradScaler
from ._tensors import is_bf16_tensor, safe_to_bf16
