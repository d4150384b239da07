"""libcuda's calls as forms.Gpu makes them, carried out by the interpreter of tests/ptx; `flip` spoils one result."""

import ctypes
import itertools

import numpy as np

from interpreter import Faulted, Module, Refused

INVALID_PTX, LAUNCH_FAILED = 218, 719
ERRORS = {INVALID_PTX: b"CUDA_ERROR_INVALID_PTX", LAUNCH_FAILED: b"CUDA_ERROR_LAUNCH_FAILED"}


class FakeDriver:
    """`flip`: (kernel number, byte of the memory, mask), applied when that kernel has run."""

    def __init__(self, library, chip=90, flip=None):
        self.library, self.chip, self.flip = library, chip, flip
        self.modules, self.kernels, self.memory, self.fault, self.launches = {}, {}, None, 0, 0
        self.handles = itertools.count(1)

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, device, ordinal):
        device._obj.value = ordinal
        return 0

    def cuDeviceGetAttribute(self, to, attribute, device):
        to._obj.value = {75: self.chip // 10, 76: self.chip % 10}[attribute]
        return 0

    def cuDevicePrimaryCtxRetain(self, context, device):
        context._obj.value = 1
        return 0

    def cuCtxSetCurrent(self, context):
        return 0

    def cuDevicePrimaryCtxRelease_v2(self, device):
        return 0

    def cuGetErrorName(self, code, words):
        words._obj.value = ERRORS[code]
        return 0

    def cuModuleLoadDataEx(self, module, text, count, options, values):
        try:
            made = Module(self.library, text.value)
        except Refused as error:
            assert list(options) == [5, 6]
            ctypes.memmove(values[0], str(error).encode()[:values[1] - 1], min(len(str(error)), values[1] - 1))
            return INVALID_PTX
        module._obj.value = next(self.handles)
        self.modules[module._obj.value] = made
        return 0

    def cuModuleUnload(self, module):
        del self.modules[module.value]
        return 0

    def cuModuleGetFunction(self, kernel, module, name):
        kernel._obj.value = next(self.handles)
        self.kernels[kernel._obj.value] = module.value, name.decode()
        return 0

    def cuFuncSetAttribute(self, kernel, attribute, value):
        assert kernel.value in self.kernels and attribute == 8
        return 0

    def cuMemAlloc_v2(self, base, size):
        room = np.zeros(size.value + 256, np.uint8)
        self.memory = room[-room.ctypes.data % 256:][:size.value]  # as the driver aligns
        base._obj.value = self.memory.ctypes.data
        return 0

    def cuMemFree_v2(self, base):
        self.memory = None
        return 0

    def cuMemcpyHtoD_v2(self, base, host, size):
        ctypes.memmove(base.value, host, size.value)
        return 0

    def cuMemcpyDtoH_v2(self, host, base, size):
        ctypes.memmove(host, base.value, size.value)
        return 0

    def cuLaunchKernel(self, kernel, gx, gy, gz, bx, by, bz, shared, stream, arguments, extra):
        assert (extra[0], extra[2], extra[4]) == (1, 2, None) and not arguments
        parameters = ctypes.string_at(extra[1], ctypes.c_size_t.from_address(extra[3]).value)
        handle, name = self.kernels.pop(kernel.value)
        module = self.modules[handle]
        address = module.map(self.memory)
        try:
            module.launch(name, (gx, gy, gz), (bx, by, bz), parameters, dynamic_shared_bytes=shared)
        except Faulted:
            self.fault = LAUNCH_FAILED
        finally:
            module.unmap(address)
            module.kept.clear()
        if self.flip and self.flip[0] == self.launches:
            self.memory[self.flip[1]] ^= self.flip[2]
        self.launches += 1
        return 0

    def cuCtxSynchronize(self):
        return self.fault
