"""The interpreter's C interface as Python objects; ctypes alone."""

import ctypes
import os

READ_ONLY, UNINITIALISED, NO_RACES = 1, 2, 4


class Options(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("dynamic_shared_bytes", ctypes.c_uint32),
        ("resident_blocks", ctypes.c_uint32),
        ("parameters", ctypes.c_void_p),
        ("parameter_bytes", ctypes.c_uint64),
        ("first_block", ctypes.c_uint64),
        ("last_block", ctypes.c_uint64),
        ("step_limit", ctypes.c_uint64),
        ("order", ctypes.c_uint32),
        ("skip_race_check", ctypes.c_uint32),
        ("seed", ctypes.c_uint64),
        ("perturbation", ctypes.c_uint64),
        ("follows", ctypes.c_uint32),
    ]


class Refused(Exception):
    """The text is not accepted, or a call is wrong."""


class Faulted(Exception):
    """A launch ended in a fault; `kind` is its name."""

    def __init__(self, kind, message):
        super().__init__(message)
        self.kind = kind


class Library:
    def __init__(self, path=None):
        path = path or os.environ.get("PTXINTERP", "libptxinterp.so")
        self.c = ctypes.CDLL(path)
        p, s, u64 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64
        for name, result, arguments in [
            ("create", p, [s]),
            ("destroy", None, [p]),
            ("error", s, []),
            ("map", ctypes.c_int, [p, u64, p, u64, ctypes.c_uint]),
            ("reserve", ctypes.c_int, [p, u64, u64, ctypes.c_uint]),
            ("unmap", ctypes.c_int, [p, u64]),
            ("write", ctypes.c_int, [p, u64, p, u64]),
            ("read", ctypes.c_int, [p, u64, p, u64]),
            ("launch", ctypes.c_int, [p, s, ctypes.POINTER(Options)]),
            ("fault_kind", s, [p]),
            ("fault_line", ctypes.c_uint, [p]),
            ("steps", u64, [p]),
            ("kernel_name", s, [p, ctypes.c_size_t]),
            ("parameter_bytes", ctypes.c_int64, [p, s]),
            ("module_form", s, [p, ctypes.c_size_t]),
            ("known_form", s, [ctypes.c_size_t]),
        ]:
            function = getattr(self.c, "ptx_" + name)
            function.restype, function.argtypes = result, arguments

    def known_forms(self):
        return list(self._strings(self.c.ptx_known_form))

    @staticmethod
    def _strings(function):
        index = 0
        while (text := function(index)) is not None:
            yield text.decode()
            index += 1

    def error(self):
        return self.c.ptx_error().decode(errors="replace")


class Module:
    """A parsed module with its memory. `arrays` are numpy arrays."""

    texts = None  # a list: records every text, for assemble.py
    launches = None  # a list: records every launch that ends well, for tests/device

    def __init__(self, library, text):
        if Module.texts is not None:
            Module.texts.append(text)
        self.text = text
        self.library, self.c, self.kept = library, library.c, []
        self.vm = self.c.ptx_create(text if isinstance(text, bytes) else text.encode())
        if not self.vm:
            raise Refused(library.error())

    def __del__(self):
        if getattr(self, "vm", None):
            self.c.ptx_destroy(self.vm)

    def _check(self, ok):
        if not ok:
            raise Refused(self.library.error())

    def map(self, array, flags=0, address=None):
        """Maps a contiguous array; at its own address unless one is given."""
        host = array.ctypes.data
        address = host if address is None else address
        self.kept.append(array)
        self._check(self.c.ptx_map(self.vm, address, host, array.nbytes, flags))
        return address

    def reserve(self, address, size, flags=0):
        self._check(self.c.ptx_reserve(self.vm, address, size, flags))
        return address

    def unmap(self, address):
        self._check(self.c.ptx_unmap(self.vm, address))

    def write(self, address, data):
        self._check(self.c.ptx_write(self.vm, address, data, len(data)))

    def read(self, address, size):
        data = ctypes.create_string_buffer(size)
        self._check(self.c.ptx_read(self.vm, address, data, size))
        return data.raw

    def forms(self):
        return list(self.library._strings(lambda i: self.c.ptx_module_form(self.vm, i)))

    def launch(self, kernel, grid, block, parameters=b"", **options):
        triple = lambda d: tuple(d) + (1,) * (3 - len(d)) if isinstance(d, tuple) else (d, 1, 1)
        o = Options(**options)
        o.grid, o.block = triple(grid), triple(block)
        buffer = ctypes.create_string_buffer(parameters, max(len(parameters), 1))
        o.parameters = ctypes.cast(buffer, ctypes.c_void_p)
        o.parameter_bytes = len(parameters)
        before = [a.tobytes() for a in self.kept] if Module.launches is not None else None
        if not self.c.ptx_launch(self.vm, kernel.encode(), ctypes.byref(o)):
            raise Faulted(self.c.ptx_fault_kind(self.vm).decode(), self.library.error())
        if before is not None:
            Module.launches.append((self, tuple(o.grid), tuple(o.block), parameters, before, [a.tobytes() for a in self.kept]))
        return self.c.ptx_steps(self.vm)
