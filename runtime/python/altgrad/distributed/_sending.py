"""When the gradients of a Sharded travel, and what the ranks say of themselves meanwhile."""

import torch
import torch.distributed as dist

from ._agreement import unpack_changes, pack_changes
from ._buckets import IN_FLIGHT


class Sending:
    """What a Sharded has for its buckets.

    They are sent as backward fills them, in one order on all ranks. Where `_tells` is true, the last one waits for the
    step, which tells the other ranks with it what this one has found; `_waits` says that it does so now.
    """

    def _ready(self, param):
        if not self._syncs:
            return
        if self._backward_of != (now := torch._C._current_graph_task_id()):  # the one before may have raised
            self._send_last()
            self._sent, self._backward_of = 0, now
            torch.autograd.Variable._execution_engine.queue_callback(self._flush)
        self._take(param)
        # In one order on all ranks, whatever came first.
        while self._overlap and self._sent < len(self._buckets) - self._tells and self._buckets[self._sent].is_full():
            self._send()

    def _take(self, param):
        bucket, place = self._at[param]
        if param.grad.is_sparse:
            raise RuntimeError(f"altgrad.distributed.{type(self).__name__} does not support sparse gradients, and a parameter "
                               f"of shape {tuple(param.shape)} has one: make its layer with sparse=False")
        bucket.take(place)
        self._used.add(param)

    def _send(self):
        self._arrive(self._buckets[self._sent])
        self._buckets[self._sent].send()
        if self._sent >= IN_FLIGHT:  # lets go of what is averaged
            self._arrive(self._buckets[self._sent - IN_FLIGHT])
        self._sent += 1

    def _arrive(self, bucket):
        """Waits for the averages of a bucket, and sums for the clip what came while it is near."""
        if bucket.wait():
            parts = [self._parts[param] for param in bucket.params]
            for place, part in enumerate(parts):
                part.grad = bucket.grad_of(place)
            self._early_norm.take(self._inner, parts)

    def _flush(self, takes=True):
        """Sends what backward has not: what no_sync has left behind, and zeros for gradients that are missing."""
        for param in self._at if takes else ():
            if param.grad is not None:
                self._take(param)
        while self._sent < len(self._buckets) - self._tells:
            self._send()
        self._sent, self._backward_of, self._waits = 0, None, self._tells

    def _send_last(self):
        """Sends the bucket that waits for the step, if one does."""
        if self._waits:
            self._sent, self._waits = len(self._buckets) - 1, False
            self._send()
            self._sent = 0

    def _exchange_changes(self, change, used):
        """(the Change that each rank found, which parameters have a gradient on some rank). Reading it waits for a GPU."""
        rank, ranks = self._ranks.members.index(dist.get_rank()), len(self._ranks.members)
        if not self._waits:
            averages = self._gather_numbers(*pack_changes(change, used, rank, ranks)).mean(0)
        else:
            self._buckets[-1].piggyback(pack_changes(change, used, rank, ranks))
            self._send_last()
            self._arrive(self._buckets[-1])
            averages = self._buckets[-1].piggybacked
        return unpack_changes(averages, ranks, len(used))

    def _send_rest(self, takes):
        """Sends what backward has left; where it has sent all, nothing. `takes`: whether the gradients are of use."""
        sent = self._waits or not self._tells and any([bucket.sum is not None or bucket._pending for bucket in self._buckets])
        if not sent or any([param.grad is not None for param in self._at]):
            self._send_last()
            self._flush(takes)

    def _gather_numbers(self, *numbers):
        """[ranks, numbers]: what every rank says of itself."""
        return self._ranks.gather(torch.tensor(numbers, dtype=torch.float32, device=self._device))

    def _rank_and_size(self):
        """Of those that share the parts."""
        return dist.get_rank(self._group), dist.get_world_size(self._group)
