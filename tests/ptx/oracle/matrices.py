"""ldmatrix, mma and cp.async against numpy: the fragments are written as the PTX ISA's figures have them."""

import random
import struct

import numpy as np

import kernels
from kernels import HEADER, Mismatch
from memory import make
from warp import run_warps

OPCODES = {"ldmatrix", "mma", "cp"}


def find(form):
    if form.startswith("cp.async.") and "shared" not in form:
        return run_wait
    return {"ldmatrix": run_ldmatrix, "mma": run_mma, "cp": run_copy}[form.split(".")[0]]


def run_ldmatrix(library, form):
    """Rows of 16 bytes at places in any order. Thread t of a warp gets elements 2 (t % 4) and the next of row t / 4,
    of column t / 4 with .trans; without braces' fellows for one matrix."""
    count, warps = int(form.split(".")[4][1:]), 4
    r = random.Random(form)
    data = np.random.default_rng(len(form)).integers(0, 1 << 16, (64, 8), dtype=np.uint16)
    order = np.array([r.sample(range(64), 32) for _ in range(warps)])
    text = HEADER + ".visible .entry k(.param .u64 in, .param .u64 places, .param .u64 out)\n{\n"
    text += ".shared .align 16 .b8 sh[1024];\n.reg .b32 %w, %p, %x<4>, %d<4>;\n.reg .b64 %rd<8>;\n"
    text += "ld.param.b64 %rd1, [in];\nld.param.b64 %rd2, [places];\nld.param.b64 %rd3, [out];\nmov.u32 %w, %tid.x;\n"
    text += "mov.b64 %rd4, sh;\nmul.wide.u32 %rd5, %w, 16;\nadd.s64 %rd1, %rd1, %rd5;\nadd.s64 %rd6, %rd4, %rd5;\n"
    text += ".reg .pred %q;\nsetp.lt.u32 %q, %w, 64;\n@%q ld.global.v4.b32 {%x0, %x1, %x2, %x3}, [%rd1];\n"
    text += "@%q st.shared.v4.b32 [%rd6], {%x0, %x1, %x2, %x3};\nbar.sync 0;\n"
    text += "mad.wide.u32 %rd2, %w, 4, %rd2;\nld.global.b32 %p, [%rd2];\nmad.wide.u32 %rd7, %p, 16, %rd4;\n"
    text += f"{form} {{" + ", ".join(f"%d{n}" for n in range(count)) + "}, [%rd7];\n"
    text += f"mad.wide.u32 %rd3, %w, {4 * count}, %rd3;\n"
    text += "".join(f"st.global.b32 [%rd3+{4 * n}], %d{n};\n" for n in range(count)) + "ret;\n}\n"
    out = np.zeros((warps, 32, count), dtype=np.uint32)
    module = make(library, form, text)
    places = order.astype(np.uint32)
    module.launch("k", 1, 32 * warps, struct.pack("QQQ", *map(module.map, (data, places, out))))
    for warp in range(warps):
        for n in range(count):
            matrix = data[order[warp, 8 * n:8 * n + 8]]
            pairs = np.ascontiguousarray(matrix.T if ".trans" in form else matrix).view(np.uint32).reshape(32)
            if (out[warp, :, n] != pairs).any():
                raise Mismatch(f"{form}: matrix {n} of warp {warp} is {out[warp, :, n]}, expected {pairs}")
    return out.size


def fragments(matrix, places):
    """(32, registers): two elements of a matrix for each, at what `places` gives for a thread's element number."""
    values = np.zeros((32, len(places)), dtype=matrix.dtype)
    for thread in range(32):
        values[thread] = [matrix[place(thread // 4, thread % 4)] for place in places]
    return values


# Figures of mma.m16n8k16 with .f16 and .bf16 elements: (row, column) of element i, g = thread / 4, t = thread % 4.
A = [lambda g, t, i=i: (g + 8 * (i // 2 % 2), 2 * t + i % 2 + 8 * (i // 4)) for i in range(8)]
B = [lambda g, t, i=i: (2 * t + i % 2 + 8 * (i // 2), g) for i in range(4)]
C = [lambda g, t, i=i: (g + 8 * (i // 2), 2 * t + i % 2) for i in range(4)]
BOUND = 18 * 2.0**-23  # of the largest term: seventeen are cut, and the sum is rounded


def codes(r, format, shape, whole):
    """Small integers, of which sums are exact, or numbers of many magnitudes."""
    if whole:
        return format.to_codes(r.integers(-16, 17, shape).astype(np.float64))
    return format.to_codes(r.standard_normal(shape) * np.exp2(r.integers(-6, 7, shape)))


class Codes:
    """bf16 and f16 by numpy: bits and their numbers."""

    def __init__(self, name):
        self.name = name

    def to_codes(self, numbers):
        if self.name == "f16":
            return numbers.astype(np.float16).view(np.uint16)
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)

    def to_numbers(self, bits):
        if self.name == "f16":
            return bits.view(np.float16).astype(np.float64)
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def run_mma(library, form):
    """Exact for small integers, within the bound for others."""
    format, warps = Codes(form.split(".")[-2]), 16
    r = np.random.default_rng(7)
    a, b = (np.stack([codes(r, format, shape, n % 2) for n in range(warps)]) for shape in ((16, 16), (16, 8)))
    c = np.stack([r.integers(-99, 99, (16, 8)) if n % 2 else r.standard_normal((16, 8)) for n in range(warps)]).astype(np.float32)
    rows = []
    for n in range(warps):
        words = [fragments(m, p).view(np.uint32) for m, p in ((a[n], A), (b[n], B), (c[n], C))]
        rows.append(np.concatenate(words, axis=1))
    body = f"{form} {{%r0, %r1, %r2, %r3}}, {{%a0, %a1, %a2, %a3}}, {{%a4, %a5}}, {{%a6, %a7, %a8, %a9}};\n"
    got = np.array(run_warps(library, form, body, np.array(rows), 10, 4)).astype(np.uint32).view(np.float32)
    for n in range(warps):
        x, y, z = format.to_numbers(a[n]), format.to_numbers(b[n]), c[n].astype(np.float64)
        terms = np.concatenate([x[:, :, None] * y[None], z[:, None]], axis=1)
        want, bound = (fragments(m, C) for m in (terms.sum(1), BOUND * abs(terms).max(1) * (n % 2 == 0)))
        if (wrong := abs(got[n] - want) > bound).any():
            raise Mismatch(f"{form}: {got[n][wrong][:4]}, expected {want[wrong][:4]} within {bound[wrong][:4]}")
    return got.size


def run_copy(library, form):
    """Each thread copies what it may of 16 bytes, zeros behind that, and stores them beyond the wait."""
    threads = min(kernels.CASES, 256)
    lines = ["ld.param.b64 %rd1, [in];", "ld.param.b64 %rd2, [out];", "mov.u32 %w, %tid.x;", "mov.b64 %rd3, sh;"]
    lines += ["mul.wide.u32 %rd4, %w, 16;", "add.s64 %rd1, %rd1, %rd4;", "add.s64 %rd2, %rd2, %rd4;", "add.s64 %rd3, %rd3, %rd4;"]
    lines += ["rem.u32 %g, %w, 17;", "st.shared.v4.b32 [%rd3], {%w, %w, %w, %w};", f"{form} [%rd3], [%rd1], 16, %g;"]
    lines += ["cp.async.commit_group;", "cp.async.wait_group 0;", "ld.shared.v4.b32 {%x0, %x1, %x2, %x3}, [%rd3];"]
    lines += ["st.global.v4.b32 [%rd2], {%x0, %x1, %x2, %x3};", "ret;", "}", ""]
    text = HEADER + ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n.reg .b32 %w, %g, %x<4>;\n.reg .b64 %rd<5>;\n"
    text += f".shared .align 16 .b8 sh[{16 * threads}];\n" + "\n".join(lines)
    data = np.random.default_rng(3).integers(0, 256, (threads, 16), dtype=np.uint8)
    out = np.zeros_like(data)
    module = make(library, form, text)
    module.launch("k", 1, threads, struct.pack("QQ", module.map(data), module.map(out)))
    want = np.where(np.arange(16) < np.arange(threads)[:, None] % 17, data, 0)
    if (out != want).any():
        raise Mismatch(f"{form}: {out[(out != want).any(1)][0]}, expected {want[(out != want).any(1)][0]}")
    return threads


def run_wait(library, form):
    """Two copies in groups: the first is there behind a wait for all but one, and both behind one for all."""
    wait = form if form != "cp.async.commit_group" else "cp.async.wait_group"
    both = wait if wait == "cp.async.wait_all" else f"{wait} 0"
    lines = ["ld.param.b64 %rd1, [in];", "cp.async.ca.shared.global [sh], [%rd1], 4;", "cp.async.commit_group;"]
    lines += ["cp.async.ca.shared.global [sh+4], [%rd1+4], 4;", "cp.async.commit_group;"]
    lines += [f"{'cp.async.wait_group 1' if both != wait else wait};", "ld.shared.b32 %x0, [sh];", f"{both};"]
    lines += ["ld.shared.b32 %x1, [sh+4];", "st.global.v2.b32 [%rd1+8], {%x0, %x1};", "ret;", "}", ""]
    text = HEADER + ".visible .entry k(.param .u64 in)\n{\n.reg .b32 %x<2>;\n.reg .b64 %rd<2>;\n"
    text += ".shared .align 16 .b8 sh[16];\n" + "\n".join(lines)
    data = np.array([5, 6, 0, 0], dtype=np.uint32)
    module = make(library, form, text)
    module.launch("k", 1, 1, struct.pack("Q", module.map(data)))
    if data.tolist() != [5, 6, 5, 6]:
        raise Mismatch(f"{form}: {data.tolist()}")
    return 2
