"""Memory for one run: guarded, chosen misalignment, filled and compared byte by byte."""

import numpy as np

import formats

SCALARS = {"f32": np.float32, "f64": np.float64, "i64": np.int64, "i32": np.int32}
HISTORY = 101  # f32 behind a scalar of that role
GUARD = 64  # bytes of 0xA5 before and behind every tensor
FILL = 0xA5


class Buffer:
    """The tensors of one stream, each 64-byte aligned plus `shift` elements.

    `packed`: by how many bits the codes of even and odd elements are shifted in the byte that they share.
    `joined`: of each tensor whether it is a unit that lies directly behind the one before.
    """

    def __init__(self, form, numel, shifts, packed=None, joined=None):
        self.size = form.code().itemsize
        self.code = form.code
        self.counts, self.packed, self.offsets = numel, packed, []
        self.numel = [-(-n // 2) for n in numel] if packed else numel  # of stored values
        end = 0
        joined = joined or [False] * len(numel)
        for count, shift, behind in zip(self.numel, shifts, joined):
            if behind:
                end = self.offsets[-1] + before * self.size
                self.offsets.append(end)
            else:
                self.offsets.append(end + GUARD + shift * self.size)
            before = count
            end = self.offsets[-1] + count * self.size + GUARD
            end += -end % 64
        raw = np.full(end + 128, FILL, np.uint8)
        self.bytes = raw[-raw.ctypes.data % 64:][:end + 64]

    def address(self, row):
        """Of the row's tensor; for none or an empty one any address must do."""
        if not self.numel[row]:
            return int(row) % 2  # NULL, or no address at all
        return self.bytes.ctypes.data + self.offsets[row]

    def view(self, row):
        start = self.offsets[row]
        return self.bytes[start:start + self.numel[row] * self.size].view(np.uint8)

    def set(self, codes):
        start = 0
        for row, count in enumerate(self.counts):
            own = codes[start:start + count].view(np.uint8)
            if self.packed:
                own = np.append(own, np.zeros(count % 2, np.uint8)) & 15
                own = own[::2] << self.packed[0] | own[1::2] << self.packed[1]
            self.view(row)[:] = own
            start += count

    def get(self):
        parts = [self.view(row) for row in range(len(self.numel))]
        if self.packed:
            halves = [np.stack([part >> shift & 15 for shift in self.packed], 1) for part in parts]
            parts = [each.ravel()[:count] for each, count in zip(halves, self.counts)]
        return np.concatenate(parts).view(self.code) if parts else np.empty(0, self.code)


class Memory:
    """Every argument of a step: a buffer per stream, an array per scalar."""

    def __init__(self, signature, rows, shifts):
        """`shifts`: a number of elements per row, which streams turn into others; or {a stream: its own, of all or each}."""
        self.streams, self.scalars = {}, {}
        self.signature, self.rows, self.shifts = signature, rows, shifts
        count = {"step": 1, "group": max(rows.group) + 1, "tensor": len(rows.numel), "unit": len(rows.numel)}
        for index, (name, _, scope, kind) in enumerate(signature):
            if kind.startswith("!altgrad.tensors"):
                form = formats.of_list(kind)[0]
                moved = (np.broadcast_to(shifts.get(name, 0), len(rows.numel)).tolist() if isinstance(shifts, dict)
                         else [(s + 5 * index * (s > 0)) % 16 for s in shifts])
                self.streams[name] = Buffer(form, rows.sizes(name), moved, formats.shifts_of(kind),
                                            [not rows.begins(r) for r in range(len(rows.numel))])
            else:
                self.scalars[name] = (np.zeros((count[scope], HISTORY), np.float32) if kind == "history"
                                      else np.zeros(count[scope], SCALARS[kind]))

    def fill(self, values):
        for name, buffer in self.streams.items():
            buffer.set(values[name])
        for name, array in self.scalars.items():
            array[:] = values[name]
        return self

    def values(self):
        return {**{n: b.get() for n, b in self.streams.items()},
                **{n: a.copy() for n, a in self.scalars.items()}}

    def twin(self, values=None):
        """The same layout with these values, or with the values of this one."""
        return Memory(self.signature, self.rows, self.shifts).fill(values or self.values())

    def difference(self, other):
        """Words on the first byte in which two memories differ, or None."""
        for name, buffer in self.streams.items():
            mine, theirs = buffer.bytes, other.streams[name].bytes
            if mine.tobytes() != theirs.tobytes():
                return self._stream_words(name, np.flatnonzero(mine != theirs), other)
        for name, array in self.scalars.items():
            theirs = other.scalars[name]
            if array.tobytes() != theirs.tobytes():
                bits = {4: np.uint32, 8: np.uint64}[array.itemsize]
                array, theirs = array.ravel(), theirs.ravel()
                row = int(np.flatnonzero(array.view(bits) != theirs.view(bits))[0])
                return (f"scalar {name}[{row}]: {array[row]!r} ({int(array.view(bits)[row]):x}), "
                        f"not {theirs[row]!r} ({int(theirs.view(bits)[row]):x})")
        return None

    def _stream_words(self, name, where, other):
        buffer, at = self.streams[name], int(where[0])
        for row, (offset, count) in enumerate(zip(buffer.offsets, buffer.numel)):
            index = (at - offset) // buffer.size
            if 0 <= index < count and at >= offset:
                mine = int(buffer.view(row).view(buffer.code)[index])
                theirs = int(other.streams[name].view(row).view(buffer.code)[index])
                return (f"stream {name}, tensor {row} of {count} elements, element {index}: "
                        f"{mine:x}, not {theirs:x} ({len(where)} bytes differ)")
        return f"stream {name}: a guard byte at {at} was written"
