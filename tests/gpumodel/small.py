"""Cycles of what lies between sweeps: a fold of partial sums, a step's totals and scalars, a row's scalars.

These wait for loads one after the other, so one warp on its own is walked through them; how often it goes round a loop
follows from the shape. A loop that loads nothing raises a number to a power, by squaring."""

import math
import re

import flow
from machine import BLOCK_WARPS, WARP
from simulate import walk

THREADS = WARP * BLOCK_WARPS
SQUARINGS = 14            # of a power with a step count of about ten thousand
FEW, MANY = 8, 16384      # partial sums that a thread, or no less than a block, folds: codegen/gpu


def accesses(instruction):
    return instruction.bytes() > 0


class Small:
    def __init__(self, function, machine, latency):
        self.flow = flow.Flow(function, accesses)
        self.machine, self.latency = machine, latency
        self.outer = [h for h in self.flow.loops if not self._around(h)]
        self.barriers = any(i.base == "BAR" for i in function.instructions)

    def _around(self, head):
        return [o for o, body in self.flow.loops.items() if o != head and head in body]

    def _inner(self, outer):
        return [h for h in self.flow.loops if h != outer and h in self.flow.loops[outer]]

    def walk(self, way, following=None):
        return walk(self.machine, self.flow.code(way, following), self.latency)

    def _most(self, ways):
        """Of ways the one that loads and stores most."""
        return ways[max(ways)]

    def _powers(self, way):
        """Further rounds of the loops on a way that load nothing."""
        heads = [h for h in way if h in self.flow.loops and self._body_counts(h) == (0, 0)]
        return sum((SQUARINGS - 1) * self.walk(self._most(self.flow.around(h)), h) for h in heads)

    def _body_counts(self, head):
        return tuple(map(sum, zip(*(self.flow.blocks[n].counts for n in self.flow.loops[head]))))

    def _outside(self, head):
        """From the start to a loop, and from it to the end."""
        before = self.flow.ways(0, {a for a in self.flow.order if head in self.flow.blocks[a].after}
                                - self.flow.loops[head])
        leaving = {b for n in self.flow.loops[head] for b in self.flow.blocks[n].after} - self.flow.loops[head]
        ways = [self._most(w) for b in leaving if (w := self.flow.ways(b, self.flow.exits()))]
        end = max(map(self.walk, ways), default=0)
        return (self.walk(self._most(before)) if before else 0) + end

    def rows(self, rounds):
        """Of scalars of rows, so many in one thread."""
        head = self.outer[0]
        way = self._most(self.flow.around(head))
        return self._outside(head) + rounds * (self.walk(way, head) + self._powers(way))

    def once(self, rows):
        """Totals over rows, all loaded by one thread or by a block, and the step's scalars."""
        loading = [h for h in self.outer if self._body_counts(h)[0]]
        if not loading:
            return self.walk(self._most(self.flow.ways(0, self.flow.exits())))
        head = max(loading, key=lambda h: self._most_loads(h))
        way = self._most(self.flow.around(head))
        at_once = THREADS if self.barriers else self._most_loads(head)
        cycles = self._outside(head) + math.ceil(rows / at_once) * self.walk(way, head)
        for inner in self._inner(head):
            once = self._most(self.flow.around(inner))
            words = sum(4 if "128" in i.modifiers else 1 for i, _ in self.flow.code(once, inner) if i.base == "LDS")
            if words:
                cycles += max(0, math.ceil(rows / words) - math.ceil(rows / at_once)) * self.walk(once, inner)
        return cycles

    def _most_loads(self, head):
        return max(loads for loads, _ in self.flow.around(head))

    def _together(self, head):
        """The threads whose loads lie side by side in a loop, from the distances of its addresses."""
        found = set()
        for i, _ in self.flow.code(self._most(self.flow.around(head)), head):
            if i.base == "LDG" and (offset := re.search(r"\+(-?0x[0-9a-f]+)\]", i.operands)):
                found.add(int(offset[1], 16))
        steps = sorted(found)
        return (steps[1] - steps[0]) // 4 if len(steps) > 1 else 0

    def fold(self, rounds, partials):
        """So many rows in a warp, each with `partials` sums."""
        head = self.outer[0]
        loops = {self._together(h): h for h in self._inner(head) if self._together(h)}
        if self.barriers and partials <= FEW:
            way = self._most(self.flow.ways(head, {a for a, b in self.flow.backward if b == head},
                                            self.flow.loops[head] - set(loops.values())))
            return self._outside(head) + math.ceil(rounds / WARP) * self.walk(way, head)
        threads = max(loops) if partials > MANY else min(loops)
        inner = loops[threads]
        once = self._most(self.flow.around(inner))
        loads = sum(i.base == "LDG" for i, _ in self.flow.code(once, inner))
        around = self.flow.around(head, inner)
        row = self.walk(min(around.values(), key=self.flow.cost), head)
        turns = max(0, math.ceil(partials / (threads * loads)) - 1)
        return self._outside(head) + rounds * (row + turns * self.walk(once, inner))
