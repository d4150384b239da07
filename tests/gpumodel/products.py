"""Our kernels for symmetric products on the model: what share of the rate of mma they reach.

All tiles take as long, so one processor is simulated, with as many tiles as the busiest has, and its part of the L2 cache's
bandwidth, in which a product of this size lies. What is added to it is left out."""

import math

import flow
import simulate
from kernels import NoVectorLoop
from machine import BLOCK_WARPS, WARP

ROWS, COLUMNS, DEPTH, STAGES = 128, 192, 32, 4  # dialect/Target.h
SHARED = STAGES * (ROWS + COLUMNS) * DEPTH * 2
STORED = ROWS * COLUMNS // 8 // 256  # pieces of a thread, of the tile or of its mirror
FMAS = 16 * 8 * 16


def tiles(n):
    """Those with a number on or below the diagonal."""
    return sum(min(math.ceil(ROWS * (i + 1) / COLUMNS), math.ceil(n / COLUMNS)) for i in range(math.ceil(n / ROWS)))


def moved(instruction):
    """Bytes of a thread; of a wait, how many groups it leaves."""
    if instruction.base == "DEPBAR":
        return int(instruction.operands.rpartition(",")[2], 16) / WARP
    if instruction.base in ("LDSM", "LDGSTS"):
        return 16
    if instruction.base in ("LDS", "STS"):
        return 16 if "128" in instruction.modifiers else 2 if "U16" in instruction.modifiers else 4
    return instruction.bytes()


class Product:
    """A kernel's code before, in and behind its loop over stages."""

    def __init__(self, function):
        self.registers = function.registers
        self.flow = flow.Flow(function)
        loops = self.flow.loops
        has = lambda head, base: any(i.base == base for n in loops[head] for i in self.flow.blocks[n].code)  # noqa: E731
        heads = [head for head in loops if has(head, "HMMA")]
        if len(heads) != 1:
            raise NoVectorLoop(f"{function.name}: {len(heads)} loops with products")
        head = heads[0]
        before = {a for a in self.flow.order if head in self.flow.blocks[a].after} - loops[head]
        self.entry = self.flow.code(self._shortest(self.flow.ways(0, before)), head)
        self.loop = self.flow.code(self._shortest(self.flow.around(head)), head)
        behind = {b for n in loops[head] for b in self.flow.blocks[n].after} - loops[head]
        self.after = self._stores(self._shortest(self.flow.ways(min(behind), self.flow.exits())), head)

    def _shortest(self, ways):
        return min(ways.values(), key=self.flow.cost)

    def _stores(self, way, main):
        """The way behind the loop, with every round of the loops that store the tile and its mirror."""
        loops = {h: body for h, body in self.flow.loops.items() if h != main and (0, 1) in self.flow.around(h)}
        code, inside = [], set()
        for n in way:
            if n in loops and n not in inside:
                code += STORED * self.flow.code(self.flow.around(n)[0, 1], n)
                inside |= loops[n]
            elif n not in inside:
                code += self.flow.code([n])
        if len(loops) != 2:
            raise NoVectorLoop(f"{len(loops)} loops that store 16 bytes")
        return code

    def multiplies(self):
        """FMAs of a warp in a round of the loop."""
        return sum(i.base == "HMMA" for i, _ in self.loop) * FMAS


class Job:
    def __init__(self, machine, product, n, k):
        self.machine, self.product, self.n, self.k = machine, product, n, k
        self.resident = machine.resident_blocks(product.registers, SHARED)

    def text(self):
        busy = min(self.machine.processors, tiles(self.n))
        words = self.machine.words(self.resident, (1, busy), self.machine.l2_bytes_cycle)
        mine = math.ceil(tiles(self.n) / self.machine.processors)
        rounds = " ".join([str(math.ceil(self.k / DEPTH))] * BLOCK_WARPS)
        rows = [words, f"{mine} {2**31 - 1} 1 {BLOCK_WARPS}", rounds]
        parts = (self.product.entry, [], self.product.loop, self.product.after, [])
        return "\n".join(rows + [line for part in parts for line in simulate.lines(part, moved)])

    def share(self, result):
        """Of the rate of mma: the products on and below the diagonal."""
        rate = 4 * FMAS / self.machine.intervals["mma"] * self.machine.processors
        return self.n * (self.n + 1) / 2 * self.k / (rate * result.cycles)
