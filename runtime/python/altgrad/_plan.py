"""A bundle bound to tensors' memory: pointers go in by name, one call runs the step."""

import ctypes
import weakref
from array import array
from itertools import count

from ._library import TensorWords, library

_POINTER = "Q"
_INDEX = "q"
_TENSOR_BYTES = ctypes.sizeof(TensorWords)

_HOLD, _RELEASE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p), ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_owned, _numbers = {}, count(1)  # what captured graphs keep
_release = _RELEASE(_owned.pop)


class Plan:
    """One altgrad_plan on `device` ("cpu", "cuda:N"), on the CPU on the threads behind
    the address `parallel_for` if given.

    The caller keeps alive whatever it binds; names are bytes and pointers
    Python integers. The plan knows nothing of torch but the buffer that its
    caller runs it with.
    """

    def __init__(self, bundle, device="cpu", parallel_for=None, threads=0):
        handle = ctypes.c_void_p()
        native = library()
        native.altgrad_plan_create(bundle.handle, device.encode(), ctypes.byref(handle))
        weakref.finalize(self, native.altgrad_plan_free, handle).atexit = False
        self.handle = handle
        self._native = native
        if parallel_for:
            native.altgrad_set_parallel_for(handle, parallel_for)
        else:
            native.altgrad_set_threads(handle, threads)

    def keep_in_graphs(self, memory):
        """Has every graph in which the plan is captured keep what the method `memory` returns then."""
        memory = weakref.WeakMethod(memory)

        @_HOLD
        def hold(_):
            number = next(_numbers)
            _owned[number] = memory()()
            return number

        self._hold = hold
        self._native.altgrad_set_owner(self.handle, hold, _release, None)

    def bind_tensors(self, tensors, groups):
        """Declares (elements, group, set, tag, (rows, columns), units) of each tensor, set by set, in `groups` groups.

        Behind these, a part of a whole has (index of its first element, elements of the whole).
        """
        words = array(_INDEX)
        for numel, group, index, tag, matrix, units, *part in tensors:
            offset, whole = part or (0, numel)
            # The members of TensorWords.
            words.extend((_TENSOR_BYTES, numel, offset, *matrix, group, index, tag, units, whole, 0))
        self._native.altgrad_bind_tensors(self.handle, words.buffer_info()[0],
                                          len(words) * words.itemsize // _TENSOR_BYTES, groups)

    def bind_stream(self, name, pointers):
        """Binds a stream, one pointer per tensor of its set."""
        held = array(_POINTER, pointers)
        self._native.altgrad_bind_stream(self.handle, name, held.buffer_info()[0], len(held))

    def bind_scalar(self, name, pointers):
        """Binds a scalar: one pointer, one per group or one per tensor, as its scope asks."""
        held = array(_POINTER, pointers)
        self._native.altgrad_bind_scalar(self.handle, name, held.buffer_info()[0], len(held))

    def workspace_bytes(self):
        """How many bytes of workspace a run with the bound tensors needs; folds and totals only what `partials` says."""
        count = ctypes.c_uint64()
        self._native.altgrad_workspace(self.handle, ctypes.byref(count))
        return count.value

    def partials(self):
        """(offset, words, chunks) of the partial sums of chunks: [words][chunks] from byte `offset` of a workspace on."""
        found = ctypes.c_uint64(), ctypes.c_int64(), ctypes.c_int64()
        self._native.altgrad_partials(self.handle, *map(ctypes.byref, found))
        return tuple([number.value for number in found])

    def run(self, workspace, size, first=0, last=-1, stream=None):
        """Runs phases [first, last); `workspace` is the address of `size` bytes, `stream` a CUstream."""
        self._native.altgrad_run(self.handle, workspace, size, first, last, stream)
