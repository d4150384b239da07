"""Parameters of a device that are stepped on the host: gradients come in, parameters go out."""

import weakref
from collections import defaultdict, deque
from contextlib import nullcontext

import torch

from .._core import core
from .layout import is_dtensor
from .early_norm import in_ranks
from .device_context import unwritten
from .host_threads import HostThreads


def take_offload(owner, given):
    """`offload` as it is given, a bool or "bound". Raises ValueError for anything else."""
    if given not in (False, True, "bound"):
        raise ValueError(f"{owner}: offload is {given!r}, not False, True or 'bound'")
    return given if given == "bound" else bool(given)


def check_offload(optimizer):
    """Raises RuntimeError where `offload` is asked for what other ranks have parts of."""
    if optimizer.offload and any([is_dtensor(param) for group in optimizer.param_groups for param in group["params"]]):
        raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__}: a parameter is a DTensor, and offload=True is for "
                           "plain ones: give fully_shard an offload_policy, CPUOffloadPolicy()")


def home_of(optimizer, param):
    """The device on which the states of a parameter lie."""
    return torch.device("cpu") if optimizer.offload else param.device


def at_home(optimizer, state):
    """A state where its parameter is stepped."""
    return state.to("cpu") if optimizer.offload else state


# Bytes of parameters that are stepped at once, while the numbers of others travel.
_BUCKET = 8 << 20
_NOTHING = (lambda: None), 0


class HostCopy:
    """The parameter `param` on the host for `owner` on a device; numbers come on one stream and go on another.

    A gradient travels once if its object, its version counter and its norm are as they were: unscale_ and collectives
    raise no version. What is written into `owner` between steps comes to the host before the next one.
    """

    is_whole = True

    def __init__(self, owner, come, go):
        self._torch = torch.get_device_module(owner.device)
        self.owner, self._come, self._go, self._event = owner, come, go, self._torch.Event()
        self._place, self._buffer, self._fetched, self._norm = owner.data_ptr(), None, _NOTHING, None
        with torch.inference_mode(False), torch.no_grad():
            self.param = torch.nn.Parameter(_on_host(owner, owner.dtype))
            self._read(self.param, owner)
        self._version = owner._version

    def local(self):
        return self.param

    def is_still(self, tensor):
        """Whether `tensor` is what this has been for a parameter that is where it was."""
        return tensor is self.param and self._place == self.owner.data_ptr() and self.param.dtype == self.owner.dtype

    def grad(self, fallbacks):
        """The gradient, which may be on its way here until `wait`; None without one."""
        self.fetch()
        return self.param.grad

    def _is_here(self, grad):
        known, version = self._fetched
        return grad is not None and known() is grad and version == grad._version and self.param.grad is not None

    @torch.no_grad()
    def fetch(self, early=False):
        """Begins to bring the gradient here, if it has changed since it last came; `early`: before the step."""
        grad = self.owner.grad
        if grad is None or grad.layout != torch.strided:
            self.param.grad = grad  # which is refused
            return
        if self._is_here(grad):
            return
        if self._buffer is None or self._buffer.dtype != grad.dtype:
            self._buffer, self.param.grad = _on_host(self.param, grad.dtype), None
            self.param.grad_dtype = grad.dtype
        self.wait()  # for what was on its way to the same place
        self._read(self._buffer, grad)
        self.param.grad, self._fetched = self._buffer, (weakref.ref(grad), grad._version)
        self._norm = _norms([grad])[0] if early else None

    def arrived(self):
        return self._event.query()

    def wait(self):
        self._event.synchronize()

    @torch.no_grad()
    def begin(self, wait):
        """Has everything here that a step reads; the gradient only if it is to `wait` for that."""
        if self.owner._version != self._version:
            self.wait()
            self._read(self.param, self.owner)
            self._version, wait = self.owner._version, True
        if wait:
            self.wait()

    @torch.no_grad()
    def send(self):
        """Begins to bring the stepped parameter to its device, whose current stream waits for it."""
        current = self._torch.current_stream(self.owner.device)
        self._go.wait_stream(current)
        with self._torch.stream(self._go):
            self.owner.copy_(self.param, non_blocking=True)
        self._event.record(self._go)
        current.wait_event(self._event)
        self._version = self.owner._version

    def _read(self, here, there):
        self._come.wait_stream(self._torch.current_stream(there.device))
        with self._torch.stream(self._come):
            here.copy_(there, non_blocking=True)
        there.record_stream(self._come)
        self._event.record(self._come)


@torch.no_grad()
def drop_stale(host_copies):
    """Drops fetched gradients that may be stale, at the beginning of a step: those of an earlier step, and early ones
    whose norm has changed."""
    kept = defaultdict(list)
    for host_copy in host_copies:
        if host_copy._norm is not None and host_copy._is_here(host_copy.owner.grad):
            kept[host_copy.owner.device].append(host_copy)
        else:
            host_copy._fetched = _NOTHING
    for here in kept.values():
        was = torch.stack([host_copy._norm for host_copy in here])
        now = torch.stack(_norms([host_copy.owner.grad for host_copy in here]))
        for host_copy, same in zip(here, (was.isfinite() & (was == now)).tolist()):
            host_copy._fetched = host_copy._fetched if same else _NOTHING


def _norms(grads):
    return torch._foreach_norm(grads, 2, torch.float32)


class Buckets:
    """The rows of a table in parts that are stepped one by one, while the numbers of others travel.

    It is false where no row is a HostCopy's, or a HostCopy has several rows. `wait`: all gradients have to be here
    first.
    """

    def __init__(self, rows, handle):
        self._handle, self._first_phase, self._parts = handle, core().altgrad_table_rows_from(handle), []
        if any([isinstance(row.part, HostCopy) for row in rows]) and not any([row.piece >= 0 for row in rows]):
            self._cut(rows)
        # What is left of the first sweep is swept for all rows at once.
        self.wait = self._first_phase > 0 or not self or core().altgrad_table_unsummed(handle) is None

    def __bool__(self):
        return bool(self._parts)

    def _cut(self, rows):
        first, size = 0, 0
        for place, row in enumerate(rows):
            size += row.param.nbytes
            if size >= _BUCKET or place + 1 == len(rows):
                host_copies = [(at, rows[at].part) for at in range(first, place + 1) if isinstance(rows[at].part, HostCopy)]
                self._parts.append((first, place + 1, host_copies))
                first, size = place + 1, 0

    def run(self, present, run_to):
        """Ends a step, of which `run_to(phase)` runs what rows share; parameters that are `present` go once done."""
        if self._first_phase:
            run_to(self._first_phase)
        for first, last, host_copies in reversed(self._parts):  # backward has the last gradients first
            host_copies = [host_copy for place, host_copy in host_copies if present[place]]
            for host_copy in host_copies:
                host_copy.wait()
            core().altgrad_table_run_rows(self._handle, first, last, None)
            for host_copy in host_copies:
                host_copy.send()


class Offload:
    """The HostCopies of an optimizer, whose gradients come to the host while backward goes on, and are summed there."""

    def __init__(self, lock, bound):
        self._host_copies, self._streams, self._handles = {}, {}, []
        self._lock, self._rows, self._coming = lock, {}, deque()
        self._bound, self._threads = bound, None

    def threads(self, groups):
        """A context in which the host has the threads for steps of these param_groups."""
        if self._threads is None:
            index = next((param.device.index for of in groups for param in of["params"] if param.is_cuda), None)
            self._threads = HostThreads(self._bound, index)
        return self._threads.here()

    def host_copy(self, owner):
        """The HostCopy of a parameter; None of one on the CPU."""
        if owner.device.type == "cpu":
            return None
        host_copy = self._host_copies.get(id(owner))
        if host_copy is None or host_copy.owner is not owner or not host_copy.is_still(host_copy.param):
            if owner.device not in self._streams:
                stream = torch.get_device_module(owner.device).Stream
                self._streams[owner.device] = stream(device=owner.device), stream(device=owner.device)
            host_copy = self._host_copies[id(owner)] = HostCopy(owner, *self._streams[owner.device])
            if owner.requires_grad:
                hook = _hook(weakref.ref(self), weakref.ref(host_copy))
                self._handles.append(owner.register_post_accumulate_grad_hook(hook))
        return host_copy

    def attach(self, tables):
        """Has the gradients of these tables summed as they come, where the step begins with their norm."""
        self._coming.clear()
        self._rows = {row.part: (weakref.ref(table), index) for table in tables if table.unsummed() is None
                      for index, row in enumerate(table.rows) if isinstance(row.part, HostCopy)}

    def come(self, host_copy):
        """Takes a gradient that is complete, and sums those that have arrived since."""
        if in_ranks() or not self._lock.acquire(blocking=False):
            return
        try:
            host_copy.fetch(early=True)
            if host_copy in self._rows:
                self._coming.append(host_copy)
            with self._threads.here() if self._threads else nullcontext():
                while self._coming and self._coming[0].arrived():
                    table, row = self._rows[self._coming.popleft()]
                    if table() is not None:
                        table().sum(row)
        finally:
            self._lock.release()

    def remove(self):
        for handle in self._handles:
            handle.remove()


def _hook(offload, host_copy):
    def come(param):
        if offload() is not None and host_copy() is not None:
            offload().come(host_copy())
    return come


def _on_host(like, dtype):
    """Memory of the host for a tensor of a device; CUDA's copies do not wait where it is pinned."""
    made = torch.empty_like(like, dtype=dtype, device="cpu", memory_format=torch.preserve_format, requires_grad=False,
                            pin_memory=like.is_cuda or like.is_pinned())
    return unwritten(made)
