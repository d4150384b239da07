"""Loops of a kernel, and the shortest ways through it for each number of (16-byte) loads and stores on them, or for
what else a function counts."""

WIDE = 16  # bytes of the access that every stream should have
NEVER = 10_000  # what a call of a slow path weighs, in instructions


def is_wide(instruction):
    return instruction.bytes() == WIDE


class Block:
    def __init__(self, first, code, counted):
        self.first, self.code, self.after = first, code, []
        self.counts = tuple(sum(int(counted(i)) for i in code if i.base[0] == kind) for kind in "LS")
        self.cost = sum(NEVER if i.base == "CALL" and not i.guarded else 1 for i in code)


def jumps(instruction):
    """Whether it goes elsewhere in its function; ptxas leaves loops by calls that nothing returns from."""
    return instruction.base == "BRA" or (instruction.base == "CALL" and instruction.guarded)


def blocks_of(instructions, counted):
    """Basic blocks, with the indices of those that follow each."""
    place = {i.address: n for n, i in enumerate(instructions)}
    starts = {0} | {place[i.target] for i in instructions if jumps(i) and i.target in place}
    for n, i in enumerate(instructions[:-1]):
        if jumps(i) or i.base in ("EXIT", "RET"):
            starts.add(n + 1)
    bounds = sorted(starts) + [len(instructions)]
    blocks = [Block(a, instructions[a:b], counted) for a, b in zip(bounds, bounds[1:])]
    number = {block.first: n for n, block in enumerate(blocks)}
    for n, block in enumerate(blocks):
        last = block.code[-1]
        if (last.conditional() or last.base not in ("BRA", "EXIT", "RET")) and n + 1 < len(blocks):
            block.after.append(n + 1)
        if jumps(last) and last.target in place:
            block.after.append(number[place[last.target]])
    return blocks


class Flow:
    """The loops of a function, and best ways between its blocks."""

    def __init__(self, function, counted=is_wide):
        self.blocks = blocks_of(function.instructions, counted)
        self.order = self._order()
        above = self._dominators()
        self.backward = {(a, b) for a in self.order for b in self.blocks[a].after if b in above[a]}
        self.loops = {head: self._body(head) for head in sorted({b for _, b in self.backward})}

    def _order(self):
        """Reachable blocks, each before its successors but for jumps backward."""
        done, seen, stack = [], {0}, [(0, iter(self.blocks[0].after))]
        while stack:
            block, rest = stack[-1]
            following = next((b for b in rest if b not in seen), None)
            if following is None:
                done.append(stack.pop()[0])
            else:
                seen.add(following)
                stack.append((following, iter(self.blocks[following].after)))
        return done[::-1]

    def _dominators(self):
        before = {n: [a for a in self.order if n in self.blocks[a].after] for n in self.order}
        above = {n: set(self.order) for n in self.order}
        above[0], changed = {0}, True
        while changed:
            changed = False
            for n in self.order[1:]:
                new = {n} | set.intersection(*(above[a] for a in before[n]))
                changed |= new != above[n]
                above[n] = new
        return above

    def _body(self, head):
        body, work = {head}, [a for a, b in self.backward if b == head]
        while work:
            block = work.pop()
            if block not in body:
                body.add(block)
                work += [a for a in self.order if block in self.blocks[a].after]
        return body

    def ways(self, start, ends, within=None, through=None):
        """{(loads, stores): way}: for each number of accesses that count, the shortest way from a block to one of `ends`,
        both included, as block numbers; `through` is a block that it has to pass."""
        place = {n: k for k, n in enumerate(self.order)}
        reached = {n: {} for n in self.order}
        reached[start][(start == through or through is None, *self.blocks[start].counts)] = (self.blocks[start].cost, None)
        for n in self.order[place[start]:]:
            for (passed, loads, stores), (cost, _) in list(reached[n].items()):
                for b in self.blocks[n].after:
                    if place[b] <= place[n] or (within is not None and b not in within):
                        continue
                    block = self.blocks[b]
                    state = (passed or b == through, loads + block.counts[0], stores + block.counts[1])
                    if cost + block.cost < reached[b].get(state, (float("inf"),))[0]:
                        reached[b][state] = (cost + block.cost, (n, (passed, loads, stores)))
        found = {}
        for end in ends:
            for state, (cost, _) in reached[end].items():
                if state[0] and cost < found.get(state[1:], (float("inf"),))[0]:
                    found[state[1:]] = (cost, end, state)
        return {key: self._back(reached, end, state) for key, (_, end, state) in found.items()}

    def _back(self, reached, block, state):
        way = []
        while True:
            way.append(block)
            before = reached[block][state][1]
            if before is None:
                return way[::-1]
            block, state = before

    def around(self, head, through=None):
        """The ways once around a loop."""
        return self.ways(head, {a for a, b in self.backward if b == head}, self.loops[head], through)

    def cost(self, way):
        return sum(self.blocks[n].cost for n in way)

    def forget_outside_loops(self):
        """Counts accesses in inner loops only: outside, tables are read by as many bytes."""
        inner = [body for h, body in self.loops.items() if any(h != o and h in b for o, b in self.loops.items())]
        for n, block in enumerate(self.blocks):
            if not any(n in body for body in inner):
                block.counts = (0, 0)

    def exits(self):
        return {n for n in self.order if self.blocks[n].code[-1].base == "EXIT"}

    def code(self, way, following=None):
        """Pairs (instruction, whether it jumps away) along a way of blocks."""
        found = []
        for n, block in enumerate(way):
            after = way[n + 1] if n + 1 < len(way) else following
            found += [(i, False) for i in self.blocks[block].code]
            found[-1] = (found[-1][0], after is not None and after != block + 1)
        return found
