"""The way that a warp takes through a sweep when nothing is special: full chunks, aligned streams, ordinary numbers.

The manifest says how many bytes an element moves, so the way is known by its accesses: those in front of the vector
loop, those of as many rounds as it takes, and those behind it add up to a chunk. Of such ways it is the shortest."""

import math

import flow

CHUNK, THREADS, WARP = 4096, 256, 32


class NoVectorLoop(Exception):
    """No way through a sweep moves a chunk by 16-byte accesses."""


class Sweep:
    """Of one kernel: what a warp does before its chunks, before and after the vector loop of each, in the loop,
    and at the end, as pairs (instruction, whether it jumps away)."""
    neighbours = 8  # elements of a thread: not more are loaded at a time

    def __init__(self, function, phase):
        self.name, self.registers, self.shared = function.name, function.registers, function.shared
        self.warps_per_chunk = THREADS // WARP // phase["per_block"]
        self.bytes = phase["read"] + phase["written"]
        self.width = self._width()
        self.function = function
        self.flow = flow.Flow(function, self.counts)
        if self.width < flow.WIDE:
            self.flow.forget_outside_loops()
        share = CHUNK / (self.warps_per_chunk * WARP * self.width)  # accesses of a thread for a byte of an element
        self.wanted = (phase["read"] * share, phase["written"] * share)
        self._choose(self._found())

    def _width(self):
        """Bytes of an access. A sweep that only reduces single bytes loads 8 at a time, as words for as many sums."""
        return flow.WIDE // 2 if self.bytes == 1 else flow.WIDE

    def counts(self, instruction):
        """Whether it brings a thread on; what a guard loads again does not."""
        return instruction.bytes() == self.width and not instruction.again()

    def moved(self, instruction):
        """Bytes of streams that a thread moves."""
        return instruction.bytes() if instruction.bytes() == self.width else 0

    def narrow(self):
        """How many narrower accesses a round of the loop has to have."""
        return 0

    def _found(self):
        # What the last block does after the sweep has loops of its own, behind that over chunks.
        loops = self.flow.loops
        outer = next((h for h in self.flow.order if h in loops), None)
        for inner in loops if outer is not None else ():
            if inner == outer:
                yield from self._straight(outer)
            elif inner in loops[outer]:
                yield from self._looped(outer, inner)

    def _straight(self, outer):
        """Ways that move a chunk without a loop."""
        for accesses, way in self.flow.around(outer).items():
            if self._all(accesses):
                yield self.flow.cost(way), outer, None, 1, way, way

    def _all(self, accesses):
        """Whether these are a chunk's accesses."""
        return accesses == self.wanted

    def _looped(self, outer, inner):
        around = self.flow.around(inner)
        for rest, way in self.flow.around(outer, inner).items():
            for accesses, once in around.items():
                rounds = self._rounds(rest, accesses)
                if rounds:
                    cost = self.flow.cost(way) + rounds * self.flow.cost(once)
                    yield cost, outer, inner, rounds, way, once

    def _rounds(self, rest, accesses):
        """How many rounds of a loop make up what is wanted; 0 if no number does."""
        left = [w - r for w, r in zip(self.wanted, rest)]
        kind = 0 if accesses[0] else 1
        if not accesses[kind] or left[kind] <= 0 or left[kind] % accesses[kind]:
            return 0
        rounds = int(left[kind] // accesses[kind])
        return rounds if all(rounds * a == l for a, l in zip(accesses, left)) else 0

    def _choose(self, found):
        found = list(found)
        if not found:
            raise NoVectorLoop(f"{self.name}: no way through it loads {self.wanted[0]:g} and stores {self.wanted[1]:g} "
                               f"times {self.width} bytes in a thread, which a chunk takes")
        _, outer, inner, self.rounds, way, once = min(found, key=lambda f: f[:2])
        self.head = outer if inner is None else inner
        first = self.flow.blocks[outer].first
        entry = self.flow.ways(0, {a for a in self.flow.order if outer in self.flow.blocks[a].after}
                               - self.flow.loops[outer])
        self.entry = self._shortest(entry, outer) if first else []
        self.unrolled = inner is None
        if self.unrolled:
            self.before, self.loop, self.after = [], self.flow.code(once, outer), []
        else:
            at = way.index(inner)
            self.before = self.flow.code(way[:at], inner)
            self.loop = self.flow.code(once, inner)
            self.after = self.flow.code(way[at:], outer)
        self.end = self._end(outer, way)
        self.last = int(self._moved(self.after) // max(1, self._moved(self.loop)))

    def _end(self, outer, way):
        """From the end of the last chunk to the end of the kernel."""
        for n in reversed(way):
            if n in self.flow.exits():
                return []
            for after in self.flow.blocks[n].after:
                if after not in self.flow.loops[outer]:
                    return self._shortest(self.flow.ways(after, self.flow.exits()), None)
        return []

    def exact(self):
        """The loop where every guard says no: what it is about is loaded again, and stored once."""
        # ptxas loads again only the words of an access that a guard is about.
        ways = flow.Flow(self.function, lambda i: i.bytes() == self.width or i.again()).around(self.head)
        stores = sum(i.bytes() == self.width and i.base in ("STG", "ST") for i, _ in self.loop)
        return self.flow.code(ways[max(key for key in ways if key[1] == stores)], self.head)

    def _shortest(self, ways, following):
        return self.flow.code(min(ways.values(), key=self.flow.cost), following) if ways else []

    def _moved(self, code):
        return sum(self.moved(i) for i, _ in code)

    def elements(self):
        """What a thread does in one round of the loop."""
        return self._moved(self.loop) / self.bytes

    def instructions_per_byte(self):
        """Of a chunk, what is around the loop included, per thread."""
        count = len(self.before) + self.rounds * len(self.loop) + len(self.after)
        return count / (self.width * sum(self.wanted))

    def rounds_of(self, warp, elements):
        """How often a warp runs the loop for a chunk of `elements`, -1 where none of them is its own. Its last round
        may be behind the loop."""
        lanes = self.warps_per_chunk * WARP
        access = min(self.neighbours, self.elements())
        mine = elements - warp * WARP * access
        return max(0, math.ceil(mine / (lanes * self.elements())) - self.last) if mine > 0 else -1


class InBlocks(Sweep):
    """The way through a sweep whose blocks of elements share values. A thread loads its elements once for each of them
    and once for the body, and only what comes first is brought by the memory; the first thread of a block has the
    value, of few bytes. Of the ways that store a chunk it is the one with most accesses: elsewhere is what elements
    do alone."""

    def __init__(self, function, phase, shares):
        self.shares = shares  # for each stream of values, of an element: (its bytes loaded, its bytes stored)
        whole = {**phase, "read": phase["read"] // 1, "written": phase["written"] // 1}
        super().__init__(function, whole)

    def _all(self, accesses):
        return accesses[1] == self.wanted[1] and accesses[0] >= self.wanted[0]

    def _rounds(self, rest, accesses):
        stores = self.wanted[1] - rest[1]
        if not accesses[1] or stores <= 0 or stores % accesses[1]:
            return 0
        rounds = int(stores // accesses[1])
        return rounds if rest[0] + rounds * accesses[0] >= self.wanted[0] else 0

    def _choose(self, found):
        # Costs stay the second key: of ways with as many accesses the shortest.
        def counted(one):
            _, outer, _, rounds, way, once = one
            loads = sum(self.counts(i) for i, _ in self.flow.code(way, outer) + rounds * self.flow.code(once, outer)
                        if i.base in ("LDG", "LD"))
            return -loads
        found = list(found)
        most = min(map(counted, found), default=0)
        super()._choose([one for one in found if counted(one) == most])
        self.first = self._first_loads()

    def _first_loads(self):
        """Of the wide loads in the loop those that the memory answers: of each address the first, in all as many as
        an element's bytes ask for."""
        loads = [i for i, _ in self.loop if i.base in ("LDG", "LD") and self.counts(i)]
        wanted, seen, first = int(self.wanted[0] / self.rounds), set(), []
        for i in loads:
            address = i.operands.partition(",")[2]
            if address not in seen and len(first) < wanted:
                seen.add(address)
                first.append(id(i))
        first += [id(i) for i in loads if id(i) not in first][:wanted - len(first)]
        return set(first)

    def narrow(self):
        """How many accesses to values of blocks a round has."""
        return sum(bool(loaded) + bool(stored) for loaded, stored in self.shares)

    def moved(self, instruction):
        if instruction.bytes() != self.width:
            return self._of_values(instruction)
        loads = instruction.base in ("LDG", "LD")
        return 0 if loads and getattr(self, "first", None) and id(instruction) not in self.first else self.width

    def _of_values(self, instruction):
        kind = 0 if instruction.base in ("LDG", "LD") else 1 if instruction.bytes() else None
        if kind is None or id(instruction) not in {id(i) for i, _ in getattr(self, "loop", [])}:
            return 0
        alike = [share[kind] for share in self.shares if share[kind]]
        return sum(alike) / len(alike) * self.elements() if alike else 0

    def elements(self):
        return CHUNK / (self.warps_per_chunk * WARP) / self.rounds


class Unaligned(Sweep):
    """The way through chunks of which a stream is not 16-byte aligned: each access is one element's."""
    neighbours = 1

    def __init__(self, function, phase, sizes):
        self.sizes = sizes  # bytes of an element of each stream
        super().__init__(function, phase)

    def _width(self):
        return 1  # what differs between streams: bytes are counted

    def counts(self, instruction):
        return instruction.bytes() if instruction.bytes() in self.sizes else 0

    moved = counts


def in_flight(code, width=flow.WIDE, brings=lambda load: True):
    """The most bytes that a warp has asked for on its way through `code` and not yet waited for. `brings`: whether a load's
    are counted."""
    waited, pending, most = set(), [], 0
    for instruction, _ in code:
        waited = {b for b in range(6) if instruction.waits >> b & 1}
        pending = [(b, size) for b, size in pending if b not in waited]
        if instruction.base in ("LDG", "LD") and instruction.bytes() == width and brings(instruction):
            pending.append((instruction.sets, width * WARP))
            most = max(most, sum(size for _, size in pending))
    return most
