"""The workspace of a step: memory that holds values from one phase to a later one."""

import torch

from .._bundle import ALL

_ALIGNMENT = 64


class Workspace:
    """The workspace of a plan: `memory` is (address, bytes), as Plan.run takes them.

        Workspace(plan, where, sums)

    With `sums` it is that of folds and totals alone, without whole tensors, which lie behind the partial sums.
    """

    def __init__(self, plan, context, sums=False):
        offset, count, chunks = plan.partials()
        size = -(-(offset + 4 * count * chunks) // _ALIGNMENT) * _ALIGNMENT if sums else plan.workspace_bytes()
        self.tensor = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=context.device)
        self._begin = -self.tensor.data_ptr() % _ALIGNMENT
        self.memory = self.tensor.data_ptr() + self._begin, size

    def words(self, entries):
        """(reduction, word, name of a rule's sum or "") of an exchange's entries: 0-dim tensors of float32, of int32 for ALL."""
        return [(reduction, self._word(self._begin + offset, reduction), name) for _, offset, reduction, name in entries]

    def every(self):
        """All of it as int32."""
        return self.tensor[self._begin:][:self.memory[1] // 4 * 4].view(torch.int32)

    def _word(self, begin, reduction):
        dtype = torch.int32 if reduction == ALL else torch.float32
        return self.tensor[begin:begin + 4].view(dtype)[0]
