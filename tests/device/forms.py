"""Every opcode form on a device, against bytes that the oracles of tests/ptx approved when the archive was packed.

Needs NumPy and a driver; formpack.py writes the folder that Pack reads.
"""

import ctypes
import json
import zlib

import numpy as np

# Name of a float format -> (bits, the greatest magnitude that is no NaN).
NAN_ABOVE = {"f16": (16, 0x7C00), "bf16": (16, 0x7F80), "f32": (32, 0x7F800000), "f64": (64, 0x7FF0 << 48),
             "e4m3": (8, 0x7E), "e5m2": (8, 0x7C)}
GAP, CANARY = 256, 0xC5


class DriverError(Exception):
    """A call of the driver failed; after a fault of a kernel all later ones do."""


class Pack:
    def __init__(self, folder):
        self.folder = folder
        index = json.loads((folder / "index.json").read_text())
        self.modules, self.left_out, self.relaxed = index["modules"], index["left_out"], index["relaxed"]

    def text(self, module):
        return zlib.decompress((self.folder / f"{module['name']}.ptx.z").read_bytes())

    def launches(self, module):
        """(launch, bytes of every region before, after)"""
        data, at = zlib.decompress((self.folder / f"{module['name']}.bin.z").read_bytes()), 0

        def take(size):
            nonlocal at
            at += size
            return data[at - size:at]

        for launch in module["launches"]:
            before = [take(size) for size in launch["sizes"]]
            after = [take(len(b)) if n in launch["changed"] else b for n, b in enumerate(before)]
            yield launch, before, after


class Arena:
    """The regions of a launch in one piece of memory, apart and aligned; nothing else in it may change."""

    def __init__(self, regions):
        self.offsets, at = [], GAP
        for region in regions:
            self.offsets.append(at)
            at += -(-len(region) // 256) * 256 + GAP
        self.size = at

    def fill(self, regions):
        memory = bytearray([CANARY]) * self.size
        for offset, region in zip(self.offsets, regions):
            memory[offset:offset + len(region)] = region
        return memory


class Gpu:
    """The driver's own calls, in the context that torch uses."""

    def __init__(self, driver, ordinal=0):
        self.driver, self.base, self.size = driver, ctypes.c_uint64(), 0
        self.device, context, major, minor = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self.device), ordinal)
        for attribute, to in ((75, major), (76, minor)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{MAJOR,MINOR}
            self.call("cuDeviceGetAttribute", ctypes.byref(to), attribute, self.device)
        self.chip = 10 * major.value + minor.value
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *arguments):
        code = getattr(self.driver, name)(*arguments)
        if code:
            words = ctypes.c_char_p()
            self.driver.cuGetErrorName(code, ctypes.byref(words))
            raise DriverError(f"{name}: {(words.value or str(code).encode()).decode()}")

    def load(self, text):
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), ctypes.c_char_p(text), 2, options, values)
        except DriverError as error:
            raise DriverError(f"{error}: {log.value.decode(errors='replace')}") from None
        return module

    def unload(self, module):
        self.call("cuModuleUnload", module)

    def run(self, module, launch, arena, memory):
        """The arena's bytes after the launch."""
        if arena.size > self.size:
            self.free()
            self.call("cuMemAlloc_v2", ctypes.byref(self.base), ctypes.c_size_t(arena.size))
            self.size = arena.size
        parameters = bytearray.fromhex(launch["parameters"])
        for at, region in launch["pointers"]:
            parameters[at:at + 8] = (self.base.value + arena.offsets[region]).to_bytes(8, "little")
        block = (ctypes.c_char * len(parameters)).from_buffer(parameters)
        size = ctypes.c_size_t(len(parameters))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(size), 0)
        kernel, host = ctypes.c_void_p(), (ctypes.c_char * arena.size).from_buffer(memory)
        self.call("cuModuleGetFunction", ctypes.byref(kernel), module, launch["kernel"].encode())
        self.call("cuMemcpyHtoD_v2", self.base, host, ctypes.c_size_t(arena.size))
        self.call("cuLaunchKernel", kernel, *launch["grid"], *launch["block"], 0, None, None, extra)
        self.call("cuCtxSynchronize")
        self.call("cuMemcpyDtoH_v2", host, self.base, ctypes.c_size_t(arena.size))
        return memory

    def free(self):
        if self.size:
            self.call("cuMemFree_v2", self.base)
            self.size = 0

    def release(self):
        """Asks for nothing back: after a kernel's fault every call fails."""
        self.driver.cuMemFree_v2(self.base)
        self.driver.cuDevicePrimaryCtxRelease_v2(self.device)


def is_nan(words, kind):
    bits, greatest = NAN_ABOVE[kind]
    return (words & ((1 << (bits - 1)) - 1)) > greatest


def excuse(launch, want, got, wrong):
    """Clears what the ISA leaves open in the results' slots; returns how many NaNs have bits of their own."""
    columns = len(launch["nan"])
    rows = wrong.view(np.uint64).reshape(-1, columns)
    rows[launch["open"]] = 0
    nans = 0
    for column, kind in enumerate(launch["nan"]):
        if kind and rows[:, column].any():
            word = np.dtype(f"u{NAN_ABOVE[kind][0] // 8}")
            # Every number of the slot: of a packed pair one half may be a NaN.
            numbers = [np.ascontiguousarray(x.view(np.uint64).reshape(-1, columns)[:, column]).view(word)
                     for x in (want, got, rows.view(np.uint8))]
            free = is_nan(numbers[0], kind) & is_nan(numbers[1], kind) & (numbers[2] != 0)
            nans += int(free.sum())
            numbers[2][free] = 0
            rows[:, column] = numbers[2].view(np.uint64)
    return nans


def describe(launch, before, region, want, got, at):
    """Form, operands, result, expectation and the bits that differ, of the 8-byte slot around byte `at`."""
    slot, rows = at // 8, launch["rows"]
    expected, value = (int.from_bytes(x[8 * slot:8 * slot + 8], "little") for x in (want, got))
    bits = f"gave {value:#x}, expected {expected:#x}, bits {value ^ expected:#x} differ"
    if not rows or region != 1:
        return f"{launch['form']}: region {region} byte {at} {bits}, operands {before[0][:32].hex()}"
    width, row = len(before[0]) // rows, 8 * slot // (len(want) // rows)
    operands = np.frombuffer(before[0], np.uint64, width // 8, row * width).tolist()
    return f"{launch['form']}({', '.join(map(hex, operands))}) case {row} {bits}"


def compare(launch, arena, before, after, memory):
    """(a sentence about the first difference or None, NaNs with bits of their own)"""
    want, got = (np.frombuffer(bytes(m), np.uint8) for m in (arena.fill(after), memory))
    if np.array_equal(want, got):
        return None, 0
    wrong, nans = want ^ got, 0
    if launch["nan"]:
        span = slice(arena.offsets[1], arena.offsets[1] + launch["sizes"][1])
        piece = wrong[span].copy()
        nans = excuse(launch, want[span], got[span], piece)
        wrong[span] = piece
    if not wrong.any():
        return None, nans
    first = int(wrong.nonzero()[0][0])
    for region, (offset, size) in enumerate(zip(arena.offsets, launch["sizes"])):
        if offset <= first < offset + size:
            pieces = (bytes(x[offset:offset + size]) for x in (want, got))
            return describe(launch, before, region, *pieces, first - offset), nans
    return f"{launch['form']}: wrote outside its memory, {first} of {arena.size}", nans


def run(pack, gpu, say=print):
    """Counts, and a sentence for each launch whose bytes are not the expected ones."""
    counts, wrong = {"forms": set(), "launches": 0, "skipped": set(), "nans": 0}, []
    for module in pack.modules:
        if module["chip"] > gpu.chip:
            counts["skipped"] |= {launch["form"] for launch in module["launches"]}
            continue
        try:
            handle = gpu.load(pack.text(module))
        except DriverError as error:
            wrong.append(f"{module['name']}: {error}")
            continue
        for launch, before, after in pack.launches(module):
            arena = Arena(before)
            try:
                memory = gpu.run(handle, launch, arena, arena.fill(before))
            except DriverError as error:
                raise DriverError(f"{launch['form']}: {error}") from None
            sentence, nans = compare(launch, arena, before, after, memory)
            counts["forms"].add(launch["form"])
            counts["launches"] += 1
            counts["nans"] += nans
            if sentence:
                wrong.append(sentence)
                say(f"    {sentence}")
        gpu.unload(handle)
    return counts, wrong
