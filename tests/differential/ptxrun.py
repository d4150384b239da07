"""Runs a bundle's PTX, phase by phase, in the interpreter of tests/ptx on a Memory."""

import ctypes
import os

import numpy as np

import program

LIBRARY = os.environ.get("ALTGRAD_PTXINTERP", str(program.ROOT / "build/tests/ptx/libptxinterp.so"))
CHUNK, HEADER, THREADS, SQUARE_BYTES = 4096, 12, 256, 4 * 128 * 128
READ_ONLY, UNINITIALISED = 1, 2


class Fault(Exception):
    """The interpreter refused a module or stopped a kernel; the words are its own."""


class Options(ctypes.Structure):
    _fields_ = [("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
                ("dynamic_shared_bytes", ctypes.c_uint32), ("resident_blocks", ctypes.c_uint32),
                ("parameters", ctypes.c_void_p), ("parameter_bytes", ctypes.c_uint64),
                ("first_block", ctypes.c_uint64), ("last_block", ctypes.c_uint64),
                ("step_limit", ctypes.c_uint64), ("order", ctypes.c_uint32),
                ("skip_race_check", ctypes.c_uint32), ("seed", ctypes.c_uint64),
                ("perturbation", ctypes.c_uint64), ("follows", ctypes.c_uint32)]


def available():
    return os.path.exists(LIBRARY)


def _library():
    library = ctypes.CDLL(LIBRARY)
    u64, p = ctypes.c_uint64, ctypes.c_void_p
    library.ptx_create.restype = p
    library.ptx_error.restype = ctypes.c_char_p
    library.ptx_create.argtypes = [ctypes.c_char_p]
    library.ptx_destroy.argtypes = [p]
    library.ptx_map.argtypes = [p, u64, p, u64, ctypes.c_uint]
    library.ptx_unmap.argtypes = [p, u64]
    library.ptx_launch.argtypes = [p, ctypes.c_char_p, p]
    library.ptx_steps.argtypes, library.ptx_steps.restype = [p], u64
    return library


class Tables:
    """What kernels of bundle.h are given, with the memory behind it."""

    def __init__(self, manifest, memory):
        self.manifest, self.memory = manifest, memory
        rows, space = memory.rows, manifest["workspace"]
        count = len(rows.numel)
        self.chunk_list = [(r, first) for r in range(count)
                           for first in range(0, rows.numel[r], CHUNK)]
        tiles = {phase["set"]: phase["tiles"] for phase in manifest["phases"] if phase["tiles"]}
        self.tile_list = [(r, row * rows.shape[r][1] + column) for r in range(count) if rows.begins(r)
                          for high in [tiles.get(rows.set[r], tiles.get(None))] if rows.numel[r] and high
                          for row in range(0, rows.shape[r][0] * rows.shape[r][2], high)
                          for column in range(0, rows.shape[r][1], 128)]
        squares = [[(r, first) for r in range(count) for first in range(0, rows.square(r, side), CHUNK)]
                   for side in ("rows", "columns") if space.get("squares")]
        self.item_lists = [self.chunk_list, self.tile_list, *squares]
        chunks = max(1, len(self.chunk_list))
        self.rows = np.zeros((count, manifest["row_words"]), np.uint64)
        self.inputs = np.zeros((count, max(1, manifest["inputs"])), np.uint64)
        self.chunks = np.array(sum(self.item_lists, []) or [(0, 0)], np.int64)
        self.groups = np.zeros((max(rows.group) + 1, max(1, manifest["group_scalars"])), np.uint64)
        self.scalars = np.zeros(max(1, manifest["step_scalars"]), np.uint64)
        self.sets = np.searchsorted(rows.set, np.arange(manifest["sets"] + 1)).astype(np.int64)
        self.finished = np.zeros(1, np.uint32)
        self.step_words = _garbage(space["step_words"] * 8)
        self.row_words = _garbage(count * space["row_words"] * 8)
        self.chunk_words = _garbage(chunks * space["chunk_words"] * 4)
        self._headers()
        self.spills = _garbage(4 * (chunks * CHUNK * space["spills"] + self._squares(space.get("squares"))))
        self._pointers()

    def _headers(self):
        first = 0
        rows = self.memory.rows
        for r, (numel, group) in enumerate(zip(rows.numel, rows.group)):
            chunks = -(-numel // CHUNK)
            words = [numel, rows.offset[r], rows.tag[r], group, first, chunks, rows.tensor[r], *rows.extents(r),
                     rows.shape[r][0] * rows.shape[r][2], rows.shape[r][1]]
            self.rows[r, :HEADER] = np.array(words, np.int64).view(np.uint64)
            first += chunks

    def _squares(self, lists):
        """Says where each tensor's squares and their partial sums lie, behind the lists of elements; how many floats all are."""
        floats = 0
        for r in self.memory.rows.firsts(None) if lists else ():
            self.rows[r, HEADER + lists["slot"]] = floats
            for side, word in (("rows", "row_words"), ("columns", "column_words")):
                numel = self.memory.rows.square(r, side)
                floats += lists[side] * numel + lists[word] * -(-numel // CHUNK)
        return floats

    def _pointers(self):
        for stream in self.manifest["streams"]:
            buffer, slot = self.memory.streams[stream["name"]], stream["slot"]
            for r in self.memory.rows.own(stream["set"]):
                if stream["access"] == "in":
                    self.inputs[r, slot] = buffer.address(r)
                else:
                    self.rows[r, HEADER + slot] = buffer.address(r)
        for scalar in self.manifest["scalars"]:
            array, slot = self.memory.scalars[scalar["name"]], scalar["slot"]
            for i in self._places(scalar, len(array)):
                place = self.memory.rows.tensor[i] if scalar["scope"] == "tensor" else int(i)
                address = array.ctypes.data + place * array.strides[0]
                if scalar["scope"] == "step":
                    self.scalars[slot] = address
                elif scalar["scope"] == "group":
                    self.groups[i, slot] = address
                else:
                    self.rows[i, HEADER + slot] = address

    def _places(self, scalar, count):
        """The tensors or groups of a scalar's set: those of other sets have the word too."""
        own = self.memory.rows.own(scalar["set"])
        if scalar["scope"] == "group":
            return {self.memory.rows.group[r] for r in own}
        return own if scalar["scope"] in ("tensor", "unit") else range(count)

    def items(self, phase):
        """The first item of a phase and the one after its last."""
        if phase["domain"] == "once":
            return 0, 1
        rows = self.memory.rows
        walks = ["chunks", "tiles", "row_squares", "column_squares"]
        which = walks.index("tiles" if phase["tiles"] else phase.get("walk", "chunks"))
        sets = [rows.set[r] for r, _ in self.item_lists[which]] if phase["domain"] == "chunks" else rows.set
        before = sum(map(len, self.item_lists[:which]))
        if phase["set"] is None:
            return before, before + len(sets)
        return before + sum(s < phase["set"] for s in sets), before + sum(s <= phase["set"] for s in sets)

    def parameters(self, phase, finishes=False):
        """`finishes`: the last block does the phases after this one that it may."""
        arrays = [self.rows, self.inputs, self.chunks, self.groups, self.scalars, self.sets, self.step_words,
                  self.row_words, self.chunk_words, self.spills]
        return np.array([a.ctypes.data for a in arrays] + [self.finished.ctypes.data * finishes]
                        + [len(self.rows), len(self.chunk_list), *self.items(phase)], np.uint64)

    def regions(self, reads_out):
        """(address, bytes, flags) of all that a kernel may touch; tensors one by one."""
        for array in (self.rows, self.inputs, self.chunks, self.groups, self.scalars, self.sets):
            yield array.ctypes.data, array.nbytes, READ_ONLY
        yield self.finished.ctypes.data, self.finished.nbytes, 0
        for array in (self.step_words, self.row_words, self.chunk_words, self.spills):
            yield array.ctypes.data, array.nbytes, UNINITIALISED
        flags = {"in": READ_ONLY, "out": 0 if reads_out else UNINITIALISED, "inout": 0}
        for stream in self.manifest["streams"]:
            buffer = self.memory.streams[stream["name"]]
            for r, numel in enumerate(buffer.numel):
                yield buffer.address(r), numel * buffer.size, flags[stream["access"]]
        for scalar in self.manifest["scalars"]:
            array = self.memory.scalars[scalar["name"]]
            yield array.ctypes.data, array.nbytes, flags[scalar["access"]]


def _garbage(size):
    raw = np.full(size + 128, 0xA5, np.uint8)
    return raw[-raw.ctypes.data % 64:][:size]


def launches(manifest, finishing):
    """(phase, whether its last block goes on) as the runtime launches them."""
    phases, at = manifest["phases"], 0
    while at < len(phases):
        yield phases[at], finishing and phases[at]["finishes"] > 0
        at += 1 + finishing * phases[at]["finishes"]


class PtxPlan:
    """`blocks`: grid sizes that runs take in turn; `races`: whether to look for them; `perturbation`: the first run's
    drawing of errors of .approx instructions, the next run has the next. Every other run, from the first one on, has
    the last block of a launch do the phases after it."""

    def __init__(self, compiled, target, blocks=(1, 3, 2), races=False, order=0, perturbation=1):
        self.lib, self.manifest = _library(), compiled.manifest
        self.reads_out = compiled.keeps_old
        self.blocks, self.races, self.order, self.runs = blocks, races, order, 0
        self.perturbation = perturbation
        text = compiled.ptx(target)
        self.overlaps = "altgrad_kernels_wait" in text
        self.vm = self.lib.ptx_create(text.encode())
        if not self.vm:
            raise Fault(f"{target}: {self.lib.ptx_error().decode()}")

    def run(self, memory):
        tables = Tables(self.manifest, memory)
        mapped = []
        try:
            for address, size, flags in tables.regions(self.reads_out):
                if size:
                    self._check(self.lib.ptx_map(self.vm, address, address, size, flags), "map")
                    mapped.append(address)
            for phase, finishes in launches(self.manifest, self.runs % 2 == 0):
                follows = self.overlaps and phase != self.manifest["phases"][0]
                shared = SQUARE_BYTES if phase["tiles"] == 128 else 0
                self._launch(phase["symbol"], tables.parameters(phase, finishes), follows, shared)
                if tables.finished[0]:
                    raise Fault(f"{phase['symbol']} leaves {tables.finished[0]} finished blocks")
        finally:
            for address in mapped:
                self.lib.ptx_unmap(self.vm, address)
        self.runs += 1

    def _launch(self, symbol, parameters, follows=False, shared=0):
        options = Options()
        grid = self.blocks[self.runs % len(self.blocks)]
        options.grid[:], options.block[:] = (grid, 1, 1), (THREADS, 1, 1)
        options.parameters, options.parameter_bytes = parameters.ctypes.data, parameters.nbytes
        options.skip_race_check, options.order = not self.races, self.order
        options.perturbation = self.perturbation + self.runs
        options.follows = follows
        options.dynamic_shared_bytes = shared
        self._check(self.lib.ptx_launch(self.vm, symbol.encode(), ctypes.byref(options)), symbol)

    def _check(self, done, what):
        if not done:
            raise Fault(f"{what}: {self.lib.ptx_error().decode()}")

    def __del__(self):
        if getattr(self, "vm", None):
            self.lib.ptx_destroy(self.vm)
