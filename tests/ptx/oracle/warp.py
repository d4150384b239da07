"""Warp operations against a model of 32 threads in plain Python."""

import random
import struct
from functools import reduce

import numpy as np

from integers import number
from kernels import HEADER, Mismatch
from memory import make

OPCODES = {"shfl", "vote", "match", "redux"}
FULL = 0xFFFFFFFF


def find(form):
    return {"shfl": run_shfl, "vote": run_vote, "match": run_match, "redux": run_redux}[form.split(".")[0]]


def run_warps(library, form, body, rows, sources, results):
    """Runs `body` with one block of 32 threads per row group; returns the outputs.

    `rows` is (warps, 32, sources) of 64-bit slots; %s0.. and %d0.. are theirs.
    """
    warps = len(rows)
    text = HEADER + ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
    text += f".reg .b32 %w, %x;\n.reg .b64 %in, %out;\n.reg .b64 %s<{sources}>, %d<{results}>;\n.reg .b32 %a<{sources}>, %r<{results}>;\n.reg .pred %p, %q;\n"
    text += "ld.param.b64 %in, [in];\nld.param.b64 %out, [out];\nmov.u32 %w, %tid.x;\nmov.u32 %x, %ctaid.x;\nmad.lo.u32 %w, %x, 32, %w;\n"
    text += f"mad.wide.u32 %in, %w, {8 * sources}, %in;\nmad.wide.u32 %out, %w, {8 * results}, %out;\n"
    for n in range(sources):
        text += f"ld.global.b64 %s{n}, [%in+{8 * n}];\ncvt.u32.u64 %a{n}, %s{n};\n"
    for n in range(results):
        text += f"mov.b32 %r{n}, 0xdead;\n"
    text += body
    for n in range(results):
        text += f"cvt.u64.u32 %d{n}, %r{n};\nst.global.b64 [%out+{8 * n}], %d{n};\n"
    slots = np.array(rows, dtype=np.uint64).reshape(warps * 32, sources)
    out = np.zeros((warps * 32, results), dtype=np.uint64)
    module = make(library, form, text + "ret;\n}\n")
    module.launch("k", warps, 32, struct.pack("QQ", module.map(slots), module.map(out)))
    return out.reshape(warps, 32, results).tolist()


def check(form, got, want, rows):
    for g, w, row in zip(got, want, rows):
        if g != w:
            thread = next(i for i in range(32) if g[i] != w[i])
            raise Mismatch(f"{form}: thread {thread} gave {g[thread]}, expected {w[thread]} from {row}")
    return 32 * len(got)


def run_shfl(library, form):
    """The ISA's own loop; segments of 32, 16, 8, 4 and odd clamps."""
    mode = form.split(".")[2]
    r = random.Random(form)
    rows = []
    for n in range(48):
        c = r.choice([31, 0, 0x1F1F, 0x101F, 0x181F, 0x1C1F, 0x1800, 0x0007, r.randrange(0x2000)])
        offset = r.choice([None, 0, 1, 2, 4, 8, 16, 31])
        rows.append([[r.getrandbits(32), r.randrange(40) if offset is None else offset, c] for _ in range(32)])
    got = run_warps(library, form, f"{form} %r0|%p, %a0, %a1, %a2, -1;\nselp.b32 %r1, 1, 0, %p;\n", rows, 3, 2)
    want = []
    for row in rows:
        result = []
        for thread, (_, b, c) in enumerate(row):
            b, clamp, segment = b & 31, c & 31, c >> 8 & 31
            high, low = (thread & segment) | (clamp & ~segment & 31), thread & segment
            j = {"up": thread - b, "down": thread + b, "bfly": thread ^ b, "idx": low | (b & ~segment & 31)}[mode]
            inside = j >= high if mode == "up" else j <= high
            result.append([row[j if inside else thread][0], int(inside)])
        want.append(result)
    return check(form, got, want, rows)


def masks(r, count):
    return [FULL] * (count // 2) + [r.getrandbits(32) | 1 for _ in range(count - count // 2)]


def run_masked(library, form, instruction, draw, expected):
    """Threads outside the mask take the other side of a branch.

    `expected(values, thread)` gets the values of the named threads.
    """
    r = random.Random(form)
    rows = [[[draw(r, n, thread), mask] for thread in range(32)] for n, mask in enumerate(masks(r, 48))]
    body = ".reg .b32 %one;\n.reg .pred %in_mask;\nmov.u32 %one, %lanemask_eq;\nand.b32 %one, %one, %a1;\n"
    body += "setp.ne.b32 %in_mask, %one, 0;\nsetp.ne.b32 %p, %a0, 0;\n@!%in_mask bra skip;\n" + instruction + "skip:\n"
    got = run_warps(library, form, body, rows, 2, 2)
    want = []
    for row in rows:
        mask = row[0][1]
        values = {thread: row[thread][0] for thread in range(32) if mask >> thread & 1}
        want.append([expected(values, thread) if thread in values else [0xDEAD, 0xDEAD] for thread in range(32)])
    return check(form, got, want, rows)


def run_vote(library, form):
    mode = form.split(".")[2]
    draw = lambda r, n, thread: [0, 1, r.randrange(2), int(r.random() < 0.1), int(r.random() < 0.9)][n % 5]
    ballot = lambda v: sum(x << thread for thread, x in v.items())
    result = {
        "all": lambda v: all(v.values()),
        "any": lambda v: any(v.values()),
        "uni": lambda v: len(set(v.values())) == 1,
        "ballot": ballot,
    }[mode]
    tail = f"{form} %r0, %p, %a1;\n" if mode == "ballot" else f"{form} %q, %p, %a1;\nselp.b32 %r0, 1, 0, %q;\n"
    return run_masked(library, form, tail, draw, lambda v, thread: [int(result(v)), 0xDEAD])


def run_match(library, form):
    every, wide = ".all." in form, form.endswith("64")
    draw = lambda r, n, thread: [5, r.randrange(3), r.getrandbits(32), 1 << 31][n % 4] | (r.randrange(2) << 40 if wide and n % 2 else 0)
    key = lambda x: x if wide else x & FULL
    source = "%s0" if wide else "%a0"

    def expected(v, thread):
        same = sum(1 << other for other, x in v.items() if key(x) == key(v[thread]))
        if not every:
            return [same, 0xDEAD]
        agree = same == sum(1 << other for other in v)
        return [same if agree else 0, int(agree)]

    if every:
        return run_masked(library, form, f"{form} %r0|%q, {source}, %a1;\nselp.b32 %r1, 1, 0, %q;\n", draw, expected)
    return run_masked(library, form, f"{form} %r0, {source}, %a1;\n", draw, expected)


def run_redux(library, form):
    operation, kind = form.split(".")[2:]
    step = {
        "add": lambda a, b: a + b, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
        "min": min, "max": max,
    }[operation]
    draw = lambda r, n, thread: [r.getrandbits(32), r.choice([0, 1, FULL, 1 << 31, (1 << 31) - 1])][n % 2]
    result = lambda v: reduce(step, [number(x, kind) for x in v.values()]) & FULL
    return run_masked(library, form, f"{form} %r0, %a0, %a1;\n", draw, lambda v, thread: [result(v), 0xDEAD])
