"""Loads the torch device of these tests; they run in ctest's entry pytest-devices."""

import ctypes
import os
import types
from contextlib import contextmanager

import pytest

torch = pytest.importorskip("torch")
KIND, PRIVATE_USE = "privateuseone", 20  # c10::DeviceType


def cu(name, *arguments):
    """Calls a function of the test driver."""
    library, function, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    library.cuGetProcAddress_v2.argtypes = [
        ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]
    assert library.cuGetProcAddress_v2(
        name.encode(), ctypes.byref(function), 12080, 0, ctypes.byref(found)) == 0
    kinds = [type(argument) for argument in arguments]
    assert ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(function.value)(*arguments) == 0, name


@contextmanager
def use_device(device):
    """torch.cuda.device of this device."""
    before = torch.ops.altgrad_test_device.use_device(torch.device(device).index or 0)
    try:
        yield
    finally:
        torch.ops.altgrad_test_device.use_device(before)


class Stream(torch.Stream):
    """With the stream's address, as torch.cuda.Stream has it."""

    @property
    def cuda_stream(self):
        return self.stream_id


def current_stream(device):
    index = device if isinstance(device, int) else torch.device(device).index or 0
    address = torch.ops.altgrad_test_device.use_stream(index, 0)
    torch.ops.altgrad_test_device.use_stream(index, address)
    return Stream(stream_id=address, device_index=index, device_type=PRIVATE_USE)


@contextmanager
def use_stream(stream):
    """torch.cuda.stream of this device."""
    before = torch.ops.altgrad_test_device.use_stream(stream.device_index, stream.stream_id)
    try:
        yield
    finally:
        torch.ops.altgrad_test_device.use_stream(stream.device_index, before)


def is_capturing(stream):
    if not stream.cuda_stream:  # nobody captures the default one, nor asks before there is a context
        return False
    status = ctypes.c_int()
    cu("cuStreamIsCapturing", ctypes.c_void_p(stream.cuda_stream),
       ctypes.c_void_p(ctypes.addressof(status)))
    return status.value == 1


def forked(*_):
    raise RuntimeError("Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use "
                       "the 'spawn' start method")


def uninitialized():
    raise torch.AcceleratorError("CUDA error: initialization error")


def after_fork():
    """What torch.cuda is in a child of fork; torch's own optimizers ask it for captures, also where they step on the CPU."""
    module._is_in_bad_fork, module._lazy_init, module.current_stream = (lambda: True), forked, forked
    for asked in module, torch.cuda:
        asked.is_available, asked.is_current_stream_capturing = (lambda: True), uninitialized


_blocks = {}


def allocate(size, device, stream):
    """torch.cuda.caching_allocator_alloc of this device."""
    before = torch.ops.altgrad_test_device.use_stream(device, stream)
    try:
        block = torch.empty(size, dtype=torch.uint8, device=f"{KIND}:{device}")
    finally:
        torch.ops.altgrad_test_device.use_stream(device, before)
    _blocks[block.data_ptr()] = block
    return block.data_ptr()


if "ALTGRAD_TEST_DEVICE" not in os.environ:
    collect_ignore_glob = ["test_*.py"]
else:
    from altgrad._binding import device_context

    torch.ops.load_library(os.environ["ALTGRAD_TEST_DEVICE"])
    ctypes.CDLL(os.environ["ALTGRAD_TEST_DEVICE"], ctypes.RTLD_GLOBAL)  # its products are found by their names
    module = types.ModuleType(f"torch.{KIND}")
    module.is_available, module.device_count = (lambda: True), (lambda: 2)
    module._is_in_bad_fork, module._lazy_init = (lambda: False), (lambda: None)
    module.manual_seed_all = lambda seed: None
    module.current_device = torch.ops.altgrad_test_device.current_device
    module.device, module.current_stream = use_device, current_stream
    module.stream, module.Stream, module.Event = use_stream, Stream, lambda: torch.Event(device=KIND)
    module.caching_allocator_alloc, module.caching_allocator_delete = allocate, _blocks.pop
    module.is_current_stream_capturing = lambda: is_capturing(current_stream(module.current_device()))
    torch._register_device_module(KIND, module)
    device_context.cuda_stand_in = KIND
    os.register_at_fork(after_in_child=after_fork)


@pytest.fixture(autouse=True)
def reproducible():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.ops.altgrad_test_device.take_notes()


@pytest.fixture
def notes():
    """What the device was asked since the last call."""
    return torch.ops.altgrad_test_device.take_notes
