"""Fork safety: a child of fork finds no thread that would ever end a step which ran in its parent."""

import os
import threading
import weakref

# Every optimizer of the process.
_every = weakref.WeakSet()


def register(optimizer):
    """Has a child of fork look after the lock of this optimizer."""
    _every.add(optimizer)


def _after_fork():
    for optimizer in list(_every):
        # What this thread holds itself, it holds in the child.
        if optimizer._lock.acquire(blocking=False):
            optimizer._lock.release()
        else:
            optimizer._lock, optimizer._running = threading.RLock(), False
            optimizer._watched = optimizer._built = optimizer._programs = None  # another thread was in the midst of it


os.register_at_fork(after_in_child=_after_fork)
