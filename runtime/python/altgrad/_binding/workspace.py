"""The memory that holds values from one phase of a step to a later one."""

import torch

from .._bundle import ALL

_ALIGNMENT = 64


class Workspace:
    """The workspace of a plan: `memory` is (address, bytes), as Plan.run takes them."""

    def __init__(self, plan, where):
        size = plan.workspace_bytes()
        self.tensor = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=where.device)
        self._begin = -self.tensor.data_ptr() % _ALIGNMENT
        self.memory = self.tensor.data_ptr() + self._begin, size

    def words(self, entries):
        """(reduction, word) of an exchange's entries: 0-dim tensors of float32, of int32 for ALL."""
        return [(reduction, self._word(self._begin + offset, reduction)) for offset, reduction in entries]

    def every(self):
        """All of it as int32."""
        return self.tensor[self._begin:][:self.memory[1] // 4 * 4].view(torch.int32)

    def _word(self, begin, reduction):
        dtype = torch.int32 if reduction == ALL else torch.float32
        return self.tensor[begin:begin + 4].view(dtype)[0]
