"""Moves, loads, stores, atomics and the carry chain, against plain byte strings."""

import struct

import numpy as np

import kernels
from integers import number, width
from kernels import HEADER, Mismatch, bits_of, compare, elementwise, inputs, launch, run_elementwise

OPCODES = {"ld", "st", "atom", "red", "mov", "cvta", "isspacep", "createpolicy", "prefetch"}
TYPES = ["b8", "u8", "s8", "b16", "u16", "s16", "b32", "u32", "s32", "b64", "u64", "s64", "f32", "f64"]
SPACES = ["global", "shared::cta", "shared", "local", "param", "const"]


def find(form):
    opcode = form.split(".")[0]
    return {"ld": run_load, "st": run_store, "atom": run_atomic, "red": run_atomic, "mov": run_move,
            "cvta": run_cvta, "isspacep": run_isspacep, "createpolicy": run_policy, "prefetch": run_prefetch}[opcode]


def space_of(form):
    return next((s for s in SPACES if "." + s + "." in form), "generic")


def shape(form):
    parts = form.split(".")
    kind = parts[-1]
    count = int(parts[-2][1:]) if parts[-2] in ("v2", "v4") else 1
    return kind, count, bits_of(kind) // 8


def patterns(seed, size):
    """Bytes with both signs and distinct neighbours."""
    r = np.random.default_rng(len(seed) * 1000 + size)
    picks = np.array([0, 1, 0x7F, 0x80, 0xFF], dtype=np.uint8)[r.integers(0, 5, size)]
    return np.where(r.random(size) < 0.2, r.integers(0, 256, size, dtype=np.uint8), picks).tobytes()


def names(prefix, count):
    listed = ", ".join(f"%{prefix}{n}" for n in range(count))
    return "{" + listed + "}" if count > 1 else listed


def policy(form):
    """The instruction that makes what `.L2::cache_hint` takes."""
    return "createpolicy.fractional.L2::evict_first.b64 %rd8, 1.0;\n" if "cache_hint" in form else ""


def hint(form):
    return ", %rd8" if "cache_hint" in form else ""


def run_policy(library, form):
    """With a fraction and without; a load takes it."""
    text = HEADER + ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %rd<4>;\n.reg .b32 %r;\n"
    text += f"ld.param.b64 %rd0, [in];\n{form} %rd1;\n{form} %rd2, 0.5;\n"
    text += "ld.global.L2::cache_hint.b32 %r, [%rd0], %rd1;\nst.global.L2::cache_hint.b32 [%rd0+4], %r, %rd2;\nret;\n}\n"
    out = np.array([5, 0], dtype=np.uint32)
    module = make(library, form, text)
    module.launch("k", 1, 1, struct.pack("QQ", module.map(out), 0))
    if out.tolist() != [5, 5]:
        raise Mismatch(f"{form}: {out.tolist()}")
    return 2


def run_prefetch(library, form):
    """Of a good address and of a null pointer: neither faults."""
    for offset in (0, 64):
        text = HEADER + ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %rd<4>;\n"
        text += f"ld.param.b64 %rd0, [in];\n{form} [%rd0+{offset}];\nret;\n}}\n"
        module = make(library, form, text)
        address = 0 if offset else module.map(np.zeros(1, dtype=np.uint32))
        module.launch("k", 1, 1, struct.pack("QQ", address, 0))
    return 2


def threads_of_block():
    """As many as there shall be cases, within the limits."""
    return min(kernels.CASES, 1024)


def run_load(library, form):
    """Each thread loads its vector into registers of 64 bits, sign or zero extended."""
    kind, count, size = shape(form)
    threads = threads_of_block()
    total, space = size * count, space_of(form)
    data = patterns(form, total * threads)
    listed = ", ".join(map(str, data))
    declare = f".const .align 16 .b8 table[{len(data)}] = {{{listed}}};\n" if space == "const" else ""
    blob = f".param .align 16 .b8 blob[{len(data)}], " if space == "param" else ""
    text = HEADER + declare + f".visible .entry k({blob}.param .u64 in, .param .u64 out)\n{{\n"
    text += ".reg .b32 %w, %i;\n.reg .b64 %rd<9>;\n" + f".reg .b64 %d<{count}>;\n"
    text += f".shared .align 16 .b8 sh[{len(data)}];\n.local .align 16 .b8 lo[{len(data)}];\n.reg .b16 %h;\n"
    text += "ld.param.b64 %rd1, [in];\nld.param.b64 %rd2, [out];\nmov.u32 %w, %tid.x;\n"
    text += f"mul.wide.u32 %rd3, %w, {total};\nmad.wide.u32 %rd2, %w, {8 * count}, %rd2;\nadd.s64 %rd4, %rd1, %rd3;\n"
    base = {"shared": "sh", "shared::cta": "sh", "local": "lo", "param": "blob", "const": "table"}.get(space)
    if base:
        text += f"mov.b64 %rd5, {base};\nadd.s64 %rd6, %rd5, %rd3;\n"
    if space in ("shared", "shared::cta", "local"):
        for n in range(total):
            text += f"ld.global.b8 %h, [%rd4+{n}];\nst.{space}.b8 [%rd6+{n}], %h;\n"
    address = "%rd6" if base else "%rd4"
    text += f"{policy(form)}{form} {names('d', count)}, [{address}]{hint(form)};\n"
    for n in range(count):
        text += f"st.global.b64 [%rd2+{8 * n}], %d{n};\n"
    slots, out = np.frombuffer(data, dtype=np.uint8).copy(), np.zeros((threads, count), dtype=np.uint64)
    module = make(library, form, text + "ret;\n}\n")
    parameters = struct.pack("QQ", module.map(slots), module.map(out))
    module.launch("k", 1, threads, (data if blob else b"") + parameters)
    element = np.dtype(("i" if kind[0] == "s" else "u") + str(size))
    want = slots.view(element).astype(np.int64 if kind[0] == "s" else np.uint64).view(np.uint64).reshape(out.shape)
    if (wrong := np.argwhere(out != want)).size:
        thread, n = wrong[0]
        raise Mismatch(f"{form}: thread {thread} element {n} is {int(out[thread, n]):#x}, expected {int(want[thread, n]):#x}")
    return out.size


def make(library, form, text):
    from interpreter import Module

    module = Module(library, text)
    if form not in module.forms():
        raise Mismatch(f"the test of '{form}' does not contain it")
    return module


def run_store(library, form):
    """Each thread stores 64-bit registers, or floats of their size; a canary between vectors must survive."""
    kind, count, size = shape(form)
    bits = 8 * size if kind[0] == "f" else 64
    threads = threads_of_block()
    total, space = size * count, space_of(form)
    pitch = 2 * max(total, 8)
    text = HEADER + ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
    text += f".reg .b32 %w;\n.reg .b16 %h;\n.reg .b64 %rd<9>;\n.reg .b{bits} %s<{count}>;\n"
    text += f".shared .align 16 .b8 sh[{total * threads}];\n.local .align 16 .b8 lo[{total * threads}];\n"
    text += "ld.param.b64 %rd1, [in];\nld.param.b64 %rd2, [out];\nmov.u32 %w, %tid.x;\n"
    text += f"mad.wide.u32 %rd1, %w, {8 * count}, %rd1;\nmad.wide.u32 %rd2, %w, {pitch}, %rd2;\nmul.wide.u32 %rd3, %w, {total};\n"
    for n in range(count):
        text += f"ld.global.b{bits} %s{n}, [%rd1+{8 * n}];\n"
    if space in ("shared", "shared::cta", "local"):
        text += f"mov.b64 %rd5, {'lo' if space == 'local' else 'sh'};\nadd.s64 %rd6, %rd5, %rd3;\n{form} [%rd6], {names('s', count)};\n"
        for n in range(total):
            text += f"ld.{space}.b8 %h, [%rd6+{n}];\nst.global.b8 [%rd2+{n}], %h;\n"
    else:
        text += f"{policy(form)}{form} [%rd2], {names('s', count)}{hint(form)};\n"
    data = patterns(form, 8 * count * threads)
    slots, out = np.frombuffer(data, dtype=np.uint8).copy(), np.full(pitch * threads, 0xA5, dtype=np.uint8)
    module = make(library, form, text + "ret;\n}\n")
    module.launch("k", 1, threads, struct.pack("QQ", module.map(slots), module.map(out)))
    want = np.full((threads, pitch), 0xA5, dtype=np.uint8)
    want[:, :total] = slots.reshape(threads, count, 8)[:, :, :size].reshape(threads, total)
    out = out.reshape(threads, pitch)
    if (wrong := np.argwhere(out != want)).size:
        thread = wrong[0][0]
        raise Mismatch(f"{form}: thread {thread} stored {out[thread].tobytes().hex()}, expected {want[thread].tobytes().hex()}")
    return threads * count


def updated(operation, kind, old, b, c):
    n = lambda v: number(v, kind)
    return {
        "add": lambda: old + b, "and": lambda: old & b, "or": lambda: old | b, "xor": lambda: old ^ b,
        "min": lambda: min(n(old), n(b)), "max": lambda: max(n(old), n(b)),
        "inc": lambda: 0 if old >= b else old + 1, "dec": lambda: b if old == 0 or old > b else old - 1,
        "exch": lambda: b, "cas": lambda: c if old == b else old,
    }[operation]() & ((1 << width(kind)) - 1)


def run_atomic(library, form):
    """A row each for the values, then all threads on one address: the sum of orders."""
    parts = form.split(".")
    operation, kind, returns = parts[-2], parts[-1], parts[0] == "atom"
    bits = width(kind)
    sources = [kind] * (3 if operation == "cas" else 2)
    rows = inputs(form, sources)
    if operation == "cas":  # half of them must match
        rows = [(o, o if n % 2 else b, c) for n, (o, b, c) in enumerate(rows)]
    space = space_of(form)
    place = "[%rd7]" if "shared" in space else "[%rd8]"
    operands = ", ".join((["%d0"] if returns else []) + [place] + [f"%s{n}" for n in range(1, len(sources))])
    # The cell is the row's out slot, or a shared one that is read back.
    where = "shared" if "shared" in space else "global"
    body = f"""{{ .reg .b64 %rd<9>; .reg .b32 %l; .shared .align 8 .b64 cell[32];
mov.b64 %rd6, cell; mov.u32 %l, %tid.x; mad.wide.u32 %rd7, %l, 8, %rd6; mov.b64 %rd8, %out;
st.{where}.b{bits} {place}, %s0; {'' if returns else f'mov.b{bits} %d0, %s0;'}
{form} {operands};
ld.{where}.b{bits} %d1, {place}; }}"""
    slots = np.zeros((len(rows), len(sources)), dtype=np.uint64)
    slots[:] = np.array(rows, dtype=np.uint64)
    out = np.zeros((len(rows), 2), dtype=np.uint64)
    launch(library, form, elementwise(body, [kind, kind], sources), slots, out)
    expected = lambda old, b, c=0: (old, updated(operation, kind, old, b, c))
    compare(form, rows, out, [kind, kind], expected)
    return len(rows)


def run_move(library, form):
    opcode, _, variant = form.partition(" ")
    kind = opcode.split(".")[1]
    if not variant:
        return run_elementwise(library, form, [kind], [kind], lambda a: a)
    count = int(variant[-1])
    part = "b" + str(bits_of(kind) // count)
    step = bits_of(part)
    if variant.startswith("pack"):
        return run_elementwise(library, form, [kind], [part] * count, lambda *v: sum(x << step * n for n, x in enumerate(v)))
    split = lambda a: tuple(a >> step * n & ((1 << step) - 1) for n in range(count))
    return run_elementwise(library, form, [part] * count, [kind], split)


PLACES = {"shared": "sh", "local": "lo", "param": "in", "const": "table", "global": "cell"}


def run_cvta(library, form):
    """There and back, and the generic address reaches what the plain one does."""
    space = form.split(".")[-2]
    text = HEADER + ".const .align 8 .b64 table = 77;\n.global .align 8 .b64 cell = 77;\n"
    text += ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %rd<9>;\n"
    text += ".shared .align 8 .b64 sh;\n.local .align 8 .b64 lo;\nld.param.b64 %rd1, [out];\n"
    text += f"mov.b64 %rd2, {PLACES[space]};\ncvta.{space}.u64 %rd3, %rd2;\ncvta.to.{space}.u64 %rd4, %rd3;\n"
    if space in ("shared", "local"):
        text += f"st.{space}.b64 [%rd4], 77;\n"
    text += "ld.b64 %rd5, [%rd3];\nsub.s64 %rd6, %rd4, %rd2;\nst.global.b64 [%rd1], %rd5;\nst.global.b64 [%rd1+8], %rd6;\nret;\n}\n"
    out = np.ones(2, dtype=np.uint64)
    module = make(library, form, text)
    module.launch("k", 1, 1, struct.pack("QQ", 77, module.map(out)))
    if out.tolist() != [77, 0]:
        raise Mismatch(f"{form}: {out.tolist()}")
    return 1


def run_isspacep(library, form):
    """Of the generic addresses of all five spaces one is said to match; a kernel parameter is global as well."""
    space = form.split(".")[-1]
    text = HEADER + ".const .align 8 .b64 table = 77;\n.global .align 8 .b64 cell = 77;\n"
    text += ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b64 %rd<9>;\n.reg .b32 %r;\n.reg .pred %p;\n"
    text += ".shared .align 8 .b64 sh;\n.local .align 8 .b64 lo;\nld.param.b64 %rd1, [out];\n"
    for n, (other, name) in enumerate(PLACES.items()):
        text += f"mov.b64 %rd2, {name};\ncvta.{other}.u64 %rd3, %rd2;\n{form} %p, %rd3;\nselp.b32 %r, 1, 0, %p;\nst.global.b32 [%rd1+{4 * n}], %r;\n"
    out = np.ones(len(PLACES), dtype=np.uint32)
    module = make(library, form, text + "ret;\n}\n")
    module.launch("k", 1, 1, struct.pack("QQ", 0, module.map(out)))
    if out.tolist() != [int(other == space or (other, space) == ("param", "global")) for other in PLACES]:
        raise Mismatch(f"{form}: {out.tolist()}")
    return len(PLACES)


def run_carry(library, form):
    """Two limbs: the low one makes the carry, the form under test the high one."""
    parts = form.split(".")
    opcode, kind = parts[0].rstrip("c") if parts[0] in ("addc", "subc") else parts[0], parts[-1]
    bits, takes, gives = width(kind), parts[0] in ("addc", "subc"), "cc" in parts
    mask = (1 << bits) - 1
    # A third instruction makes the carry that comes out visible.
    text = f"{opcode}.cc.{kind} %d2, %s2, %s3; " if takes else ""
    text += f"{form} %d0, %s0, %s1; " + (f"{opcode}c.{kind} %d1, 0, 0; " if gives else "mov.b%d %%d1, 0; " % bits)
    text += "" if takes else "mov.b%d %%d2, 0;" % bits
    sign = -1 if opcode == "sub" else 1

    def expected(a, b, c, d):
        low = c + sign * d
        carry = int(not 0 <= low <= mask) if takes else 0
        r = a + sign * b + sign * carry
        out = int(not 0 <= r <= mask) if gives else 0
        return r & mask, sign * out & mask, low & mask if takes else 0

    rows = inputs(form, [kind] * 4)
    slots = np.array(rows, dtype=np.uint64)
    out = np.zeros((len(rows), 3), dtype=np.uint64)
    launch(library, form, elementwise(text, [kind] * 3, [kind] * 4), slots, out)
    compare(form, rows, out, [kind] * 3, expected)
    return len(rows)
