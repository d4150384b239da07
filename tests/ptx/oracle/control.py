"""Branches, barriers and fences: small programs whose result needs the form to work."""

import struct

import numpy as np

from interpreter import NO_RACES, Faulted
from kernels import HEADER, Mismatch
from memory import make

OPCODES = {"bra", "brx", "ret", "exit", "trap", "nanosleep", "griddepcontrol", "bar", "barrier", "fence", "membar"}


def find(form):
    opcode = form.split(".")[0]
    if form == "bar.warp.sync":
        return run_warp_barrier
    if opcode in ("bar", "barrier"):
        return run_arrive if ".arrive" in form else run_barrier
    if opcode in ("fence", "membar"):
        return run_fence
    return {"bra": run_branch, "brx": run_table, "ret": run_leave, "exit": run_leave, "trap": run_trap}.get(opcode, run_nothing)


def run(library, form, body, threads=1, grid=1, words=None, flags=0, module_text="", **options):
    text = HEADER + module_text + ".visible .entry k(.param .u64 out)\n{\n.reg .b32 %r<16>;\n.reg .b64 %rd<8>;\n.reg .pred %p<4>;\n"
    text += ".shared .align 4 .b32 sh[64];\nld.param.b64 %rd1, [out];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, %ctaid.x;\n"
    text += "mad.wide.u32 %rd2, %r0, 4, %rd1;\nmov.b64 %rd3, sh;\nmad.wide.u32 %rd4, %r0, 4, %rd3;\n"
    module = make(library, form, text + body + "}\n")
    out = np.zeros(words or threads, dtype=np.uint32)
    module.launch("k", grid, threads, struct.pack("Q", module.map(out, flags)), **options)
    return out.tolist()


def same(form, got, want):
    if got != want:
        raise Mismatch(f"{form}: {got}, expected {want}")
    return len(want)


def run_branch(library, form):
    """A loop, a skip, and a jump over an instruction that would trap; with `.uni` all of a warp go one way."""
    bound, blocks = ("%r1", 4) if form == "bra.uni" else ("%r0", 1)
    body = f"""mov.b32 %r2, 0; mov.b32 %r3, 0; mad.wide.u32 %rd2, %r1, 128, %rd2;
again: add.u32 %r3, %r3, %r2; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, {bound};
@%p1 {form} again;
@!%p1 {form} on;
trap;
on: st.global.b32 [%rd2], %r3; ret;
"""
    want = [sum(range(max(block if blocks > 1 else n, 1))) for block in range(blocks) for n in range(32)]
    return same(form, run(library, form, body, 32, blocks, words=32 * blocks), want)


def run_table(library, form):
    body = f"""rem.u32 %r2, %r0, 3; mov.b32 %r3, 0;
targets: .branchtargets a, b, c;
{form} %r2, targets;
trap;
a: add.u32 %r3, %r3, 10;
b: add.u32 %r3, %r3, 20;
c: add.u32 %r3, %r3, 40;
st.global.b32 [%rd2], %r3; ret;
"""
    return same(form, run(library, form, body, 32), [[70, 60, 40][n % 3] for n in range(32)])


def run_leave(library, form):
    body = f"setp.lt.u32 %p1, %r0, 5; @%p1 {form}; st.global.b32 [%rd2], 1; {form}; trap;\n"
    return same(form, run(library, form, body, 32), [int(n >= 5) for n in range(32)])


def run_trap(library, form):
    try:
        run(library, form, f"{form}; ret;\n")
    except Faulted as e:
        return same(form, [e.kind], ["trap"])
    raise Mismatch(f"{form} did not stop the kernel")


def run_nothing(library, form):
    operand = " 100" if form.startswith("nanosleep") else ""
    return same(form, run(library, form, f"{form}{operand}; st.global.b32 [%rd2], 7; ret;\n"), [7])


SWAP = "st.shared.b32 [%rd4], %r0; {barrier} xor.b32 %r2, %r0, 33; mad.wide.u32 %rd5, %r2, 4, %rd3; ld.shared.b32 %r3, [%rd5]; st.global.b32 [%rd2], %r3; ret;\n"


def run_barrier(library, form):
    """Right with it; a shared-race without it; a named one with a count too."""
    good = run(library, form, SWAP.format(barrier=form + " 0;"), 64)
    same(form, good, [n ^ 33 for n in range(64)])
    same(form, run(library, form, SWAP.format(barrier=form + " 3, 64;"), 64), good)
    try:
        run(library, form, SWAP.format(barrier=f"setp.eq.u32 %p1, %r0, 99; @%p1 {form} 0;"), 64)
    except Faulted as e:
        return 64 + same(form, [e.kind], ["uninitialised-memory"])
    raise Mismatch(f"{form}: the kernel without it passes")


def run_arrive(library, form):
    """Warp 0 produces and goes on; warp 1 waits for it and reads."""
    sync = form.replace("arrive", "sync")
    body = f"""setp.ge.u32 %p1, %r0, 32; @%p1 bra consumer;
st.shared.b32 [%rd4], %r0; {form} 1, 64; ret;
consumer: {sync} 1, 64; ld.shared.b32 %r3, [%rd4+-128]; st.global.b32 [%rd2], %r3; ret;
"""
    return same(form, run(library, form, body, 64), [0] * 32 + list(range(32)))


def run_warp_barrier(library, form):
    body = SWAP.replace("33", "5").format(barrier=form + " -1;")
    return same(form, run(library, form, body, 32), [n ^ 5 for n in range(32)])


def run_fence(library, form):
    """The last block sums what all wrote; .cta is too narrow for that."""
    body = f"""mad.wide.u32 %rd5, %r1, 4, %rd1; add.u32 %r2, %r1, 1; st.global.b32 [%rd5+8], %r2;
{form};
atom.global.add.u32 %r3, [%rd1], 1;
{form};
setp.ne.u32 %p1, %r3, 7; @%p1 ret;
mov.b32 %r4, 0; mov.b32 %r5, 0; mov.b64 %rd6, %rd1;
next: ld.global.b32 %r6, [%rd6+8]; add.u32 %r5, %r5, %r6; add.s64 %rd6, %rd6, 4; add.u32 %r4, %r4, 1;
setp.lt.u32 %p2, %r4, 8; @%p2 bra next;
st.global.b32 [%rd1+4], %r5; ret;
"""
    try:
        out = run(library, form, body, 1, 8, words=10)
    except Faulted as e:
        return same(form, [e.kind, form.endswith(".cta")], ["global-race", True])
    same(form, out, [8, 36] + list(range(1, 9)))
    if form.endswith(".cta"):
        raise Mismatch(f"{form} orders blocks")
    return 10
