"""Mixed precision: AmpConfig says what a run is to use, GradScaler scales its loss.

    config = altgrad.amp.AmpConfig.auto()
    scaler = config.scaler()

AmpConfig chooses the dtype, the autocast and the loss scale by what the devices can do. Single questions that it asks
are answered by functions with the names that geometry_os has for them:

- `get_optimal_dtype()` is `AmpConfig.auto().dtype`; `get_amp_dtype_for_device(device)` is that of one device.
- `detect_bf16_support()` and `get_bf16_capability()` say whether and why, and `print_bf16_status()` prints it.
- `is_bf16_tensor(x)` is `x.dtype == torch.bfloat16`, and `safe_to_bf16(x)` a cast that rounds float64 once.
"""

from ._config import AmpConfig
from ._detect import Bf16Capability as Bf16Capability
from ._detect import detect_bf16_support as detect_bf16_support
from ._detect import get_amp_dtype_for_device as get_amp_dtype_for_device
from ._detect import get_bf16_capability as get_bf16_capability
from ._detect import get_optimal_dtype as get_optimal_dtype
from ._detect import print_bf16_status as print_bf16_status
from ._scaler import GradScaler
from ._tensors import is_bf16_tensor as is_bf16_tensor
from ._tensors import safe_to_bf16 as safe_to_bf16

__all__ = ["AmpConfig", "GradScaler"]


def __dir__() -> list[str]:
    return sorted(__all__)
