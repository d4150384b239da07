"""Early norm under FSDP2: gradients that fully_shard reduces while backward runs are summed as they arrive."""

import sys
import weakref
from collections import deque

import torch

from .layout import is_dtensor, local_of


class _PendingSum:
    """The sum of a row of a table, of the gradient that `param`, a DTensor, has at `take`."""

    def __init__(self, table, row, param):
        self._table, self.row, self.param = table, row, param

    def take(self, grad):
        self._grad, self._version = weakref.ref(grad), grad._version

    def is_still(self):
        grad = self.param.grad
        # The part that lies here has a version of its own, at which the table looks.
        return grad is not None and grad is self._grad() and grad._version == self._version

    def sum(self):
        if self._table() is not None and self.is_still():
            self._table().sum(self.row, local_of(self.param.grad))

    def forget(self):
        if self._table() is not None:
            self._table().forget(self.row)


class FsdpNorm:
    """The sums of gradients of DTensors that FSDP2 has reduced, which hold while nobody can have written into them.

    A collective raises no version, but groups count theirs: from the end of backward to the step none may have begun on
    the host, and from the first gradient to the end of backward none of a group that FSDP2 does not use. `why` says why
    the last step could not use all sums, None where it could.
    """

    def __init__(self):
        self._pending, self._coming, self._meshes = {}, deque(), set()
        self._begun = self._ended = self._refused = self.why = None

    def hook(self, table, lock, row):
        """A hook that fully_shard calls when it has reduced a gradient; `lock` is the lock of steps."""
        held = weakref.ref(self)

        def take(param):
            norm = held()
            if norm is None or table() is None:
                return
            # FSDP2's own call comes when all is added up; autograd's, of other DTensors, before that.
            by_fsdp = _is_fsdp(sys._getframe(1))
            if lock.acquire(blocking=False):
                try:
                    norm._take(_PendingSum(table, row, param), by_fsdp)
                finally:
                    lock.release()
        return take

    def _take(self, pending, by_fsdp):
        param, grad = pending.param, pending.param.grad
        if not by_fsdp or not is_dtensor(grad) or grad.placements != param.placements:
            self._refused = "gradients of DTensors that fully_shard does not reduce are summed in the step"
        elif len(param._post_accumulate_grad_hooks) > 1:
            self._refused = "another hook on a parameter may change its gradient, so the step reads that once more"
        elif self._begun is not None or self._begin():
            pending.take(grad)
            self._meshes.add(param.device_mesh)
            self._pending[id(param), pending.row] = pending
            self._coming.append((pending, _arrival(param.device_mesh)))
            self._sum_arrived()

    def _begin(self):
        """Notes what groups have done before the first gradient of a backward pass. Sums of an earlier one are void."""
        self._forget()
        self._begun = collectives()
        if self._begun is None:
            self._refused = "a process group of the host does not count its collectives, so the step reads all gradients once more"
            return False
        torch.autograd.Variable._execution_engine.queue_callback(self._end)
        return True

    def _sum_arrived(self):
        while self._coming and self._coming[0][1]():
            self._coming.popleft()[0].sum()

    def _end(self):
        """Backward is done, and so is FSDP2, whose own callback came before this one."""
        self._sum_arrived()
        self._coming.clear()
        own = {group for mesh in self._meshes if mesh.device_type == "cpu" for group in mesh.get_all_groups()}
        ended = collectives()
        if ended is not None and self._begun is not None and _without(ended, own) == _without(self._begun, own):
            self._ended = ended
        self._begun = None

    def settle(self):
        """Forgets sums that may be others by now, at the beginning of a step."""
        self.why, self._refused = self._refused, None
        if self._pending and (self._ended is None or collectives() != self._ended):
            self.why = ("ranks exchanged something between a gradient and the step, which may have changed it, so the step "
                        "reads all of them once more")
            self._forget()
        if changed := [pending for pending in self._pending.values() if not pending.is_still()]:
            self.why = f"{len(changed)} gradients were changed after backward, so the step read them once more"
            for pending in changed:
                pending.forget()
        self._pending, self._begun, self._ended = {}, None, None

    def _forget(self):
        for pending in self._pending.values():
            pending.forget()
        self._pending, self._ended = {}, None
        self._coming.clear()


def collectives():
    """{group: how many collectives it has begun on the host}; None where a group does not count."""
    host, counts = torch.device("cpu"), {}
    for group in torch.distributed.distributed_c10d._world.pg_map:
        if host in group._device_types:
            backend = group._get_backend(host)
            if backend.name() != "gloo":
                return None
            counts[group] = backend._get_sequence_number_for_group()
    return counts


def _without(counts, groups):
    return {group: count for group, count in counts.items() if group not in groups}


def _is_fsdp(frame):
    """Whether it is where fully_shard calls hooks."""
    return (frame.f_code.co_name == "foreach_reduce"
            and frame.f_globals.get("__name__", "").endswith("._fsdp_collectives"))


def _arrival(mesh):
    """Asks whether what has been copied to the host so far is there."""
    if mesh.device_type == "cpu":
        return lambda: True
    return torch.get_device_module(mesh.device_type).current_stream().record_event().query
