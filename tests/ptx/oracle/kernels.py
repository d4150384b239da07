"""One-instruction kernels: text, special inputs, and the comparison."""

import random
import struct

import numpy as np

import floats
from formats import ALL, specials
from interpreter import Module

HEADER = ".version 8.1\n.target sm_90\n.address_size 64\n"
WIDTHS = {"pred": 1, "count": 32, "byte": 32, "place": 32, "f16x2": 32, "bf16x2": 32, "e4m3x2": 16, "e5m2x2": 16}
WIDTHS.update({"f16": 16, "bf16": 16, "f32": 32, "f64": 64})
CASES = 1024


def bits_of(kind):
    kind = kind.rstrip("|")
    return WIDTHS.get(kind) or int(kind[1:])


def register_bits(kind):
    return max(bits_of(kind), 16) if bits_of(kind) > 1 else 1


def edges(kind):
    """Values worth trying for one operand."""
    if kind in ALL:
        return specials(ALL[kind])
    if kind in ("f16x2", "bf16x2", "e4m3x2", "e5m2x2"):
        f = ALL[kind[:-2]]
        s = specials(f)
        r = random.Random(kind)
        return [r.choice(s) << f.bits | r.choice(s) for _ in range(96)]
    if kind == "pred":
        return [0, 1]
    if kind == "count":
        return list(range(0, 70)) + [127, 128, 255, 256, 257, 0x80000000, 0xFFFFFFFF]
    if kind == "place":
        return [*range(0, 70), 127, 128, 254, 255]
    if kind == "byte":
        return list(range(256))
    bits = bits_of(kind)
    mask, top = (1 << bits) - 1, 1 << (bits - 1)
    small = [0, 1, 2, 3, 5, 7, 10, 16, 31, 32, 33, 255]
    return sorted({v & mask for s in small for v in (s, -s, top + s, top - s, (mask >> bits // 2) + s)})


def draw(r, kind):
    if kind in ALL and r.random() < 0.75:
        f, four = ALL[kind], 4 << ALL[kind].mantissa
        # Near one, where sums cancel and ties happen; or near the subnormals.
        code = (f.bias << f.mantissa) + r.randrange(-four, four) if r.random() < 0.6 else r.randrange(four)
        return code & (f.sign_bit - 1) | r.randrange(2) * f.sign_bit
    value = r.getrandbits(bits_of(kind))
    return value & 255 if kind in ("byte", "place") or (kind == "count" and r.random() < 0.5) else value


def inputs(form, kinds, count=None):
    """Rows of operands: all pairs of edges when they fit, edges mixed, random."""
    count = count or CASES
    r = random.Random(form)
    choices = [edges(k) for k in kinds]
    rows = []
    if len(kinds) == 1:
        rows = [(v,) for v in choices[0]]
    elif len(kinds) == 2 and len(choices[0]) * len(choices[1]) <= 3 * count:
        rows = [(a, b) for a in choices[0] for b in choices[1]]
    while len(rows) < count // 2:
        rows.append(tuple(r.choice(c) for c in choices))
    if len(kinds) == 3 and len(set(kinds)) == 1 and kinds[0] in ALL:
        rows += [cancelling(r, ALL[kinds[0]]) for _ in range(count // 4)]
    for _ in range(max(count - len(rows), count // 8)):
        rows.append(tuple(draw(r, k) for k in kinds))
    rows += just_below_normal(form, kinds)
    while len(rows) % 32:
        rows.append(tuple(draw(r, k) for k in kinds))
    return rows


def just_below_normal(form, kinds):
    """Results of `.ftz` just below the least normal number: what is rounded up to it, and what needs no rounding."""
    opcode, *modifiers = form.split(".")
    if "ftz" not in modifiers:
        return []
    if kinds == ["f64"]:
        least = 897 << 52  # of f32's normal numbers, as an f64
        return [(s << 63 | least - d,) for s in (0, 1) for d in (1 << 22, 1 << 29)]
    if opcode not in ("mul", "fma", "mad"):
        return []
    f = ALL[kinds[0][:3]]
    root = f.bias - (f.bias - 1) // 2 << f.mantissa  # its square is the least normal number
    twice = lambda code: code << 16 | code if kinds[0] == "f16x2" else code
    return [(twice(s | a), twice(b), 0)[:len(kinds)] for s in (0, f.sign_bit) for a, b in ((root + 1, root - 2), (root, root - 1))]


def cancelling(r, f):
    """a, b and a c next to -a*b, where a product rounded early is seen."""
    a, b = (draw(r, f.name) for _ in range(2))
    c = (floats.mul(f, "even", a, b) ^ f.sign_bit) + r.randrange(-2, 3)
    return a, b, c & (2 * f.sign_bit - 1)


def register(kind, name):
    return f".reg .{'pred' if bits_of(kind) == 1 else 'b%d' % register_bits(kind)} {name};\n"


def load(kind, name, at):
    if bits_of(kind) == 1:
        return f"ld.global.b32 %w, [%in+{at}];\nsetp.ne.b32 {name}, %w, 0;\n"
    return f"ld.global.b{register_bits(kind)} {name}, [%in+{at}];\n"


def store(kind, name, at):
    if bits_of(kind) == 1:
        return f"selp.b32 %w, 1, 0, {name};\nst.global.b32 [%out+{at}], %w;\n"
    return f"st.global.b{register_bits(kind)} [%out+{at}], {name};\n"


def elementwise(instruction, destinations, sources):
    """A kernel with one thread per row of 8-byte slots."""
    text = HEADER + ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
    text += ".reg .b32 %w, %cta, %n;\n.reg .b64 %in, %out;\n"
    for n, kind in enumerate(sources):
        text += register(kind, f"%s{n}")
    for n, kind in enumerate(destinations):
        text += register(kind, f"%d{n}")
    text += "ld.param.b64 %in, [in];\nld.param.b64 %out, [out];\n"
    text += "mov.u32 %w, %tid.x;\nmov.u32 %cta, %ctaid.x;\nmov.u32 %n, %ntid.x;\n"
    text += "mad.lo.u32 %w, %cta, %n, %w;\n"
    text += f"mad.wide.u32 %in, %w, {8 * max(len(sources), 1)}, %in;\n"
    text += f"mad.wide.u32 %out, %w, {8 * len(destinations)}, %out;\n"
    for n, kind in enumerate(sources):
        text += load(kind, f"%s{n}", 8 * n)
    text += instruction + "\n"
    for n, kind in enumerate(destinations):
        text += store(kind, f"%d{n}", 8 * n)
    return text + "ret;\n}\n"


def instruction_text(form, destinations, sources):
    """The form with its operands; `mov` packs by braces, setp pairs by bars."""
    d = [f"%d{n}" for n in range(len(destinations))]
    s = [f"%s{n}" for n in range(len(sources))]
    opcode, _, shape = form.partition(" ")
    if shape.startswith("pack"):
        s = ["{" + ", ".join(s) + "}"]
    if shape.startswith("unpack"):
        d = ["{" + ", ".join(d) + "}"]
    if destinations[0].endswith("|"):
        d = ["|".join(d)]
    return f"{opcode} {', '.join(d + s)};"


class Mismatch(Exception):
    pass


def run_elementwise(library, form, destinations, sources, function, fixed=None):
    """Runs a form over special inputs; returns the number of cases."""
    rows = fixed or inputs(form, sources)
    slots = np.zeros((len(rows), max(len(sources), 1)), dtype=np.uint64)
    slots[:, : len(sources)] = np.array(rows, dtype=np.uint64).reshape(len(rows), -1)
    out = np.zeros((len(rows), len(destinations)), dtype=np.uint64)
    if "byte" in sources:  # lop3's table must be an immediate
        return run_tables(library, form, destinations, sources, function, rows)
    text = elementwise(instruction_text(form, destinations, sources), destinations, sources)
    launch(library, form, text, slots, out)
    compare(form, rows, out, destinations, function)
    return len(rows)


def run_tables(library, form, destinations, sources, function, rows):
    """One kernel for each value of the last operand, an immediate."""
    per_table = {}
    for row in rows:
        per_table.setdefault(row[-1], []).append(row[:-1])
    for table, group in per_table.items():
        instruction = instruction_text(form, destinations, sources).replace(f"%s{len(sources) - 1}", str(table))
        slots = np.array(group, dtype=np.uint64)
        out = np.zeros((len(group), len(destinations)), dtype=np.uint64)
        launch(library, form, elementwise(instruction, destinations, sources[:-1]), slots, out)
        compare(form, group, out, destinations, lambda *v: function(*v, table))
    return len(rows)


def launch(library, form, text, slots, out):
    module = Module(library, text)
    if form not in module.forms():
        raise Mismatch(f"the test of '{form}' does not contain it")
    parameters = struct.pack("QQ", module.map(slots), module.map(out))
    block = 32 if len(slots) % 32 == 0 else 1
    module.launch("k", len(slots) // block, block, parameters)


def compare(form, rows, out, destinations, function):
    for row, got in zip(rows, out.tolist()):
        want = function(*row)
        want = want if isinstance(want, tuple) else (want,)
        for kind, g, w in zip(destinations, got, want):
            if w is None:
                continue
            w &= (1 << register_bits(kind)) - 1
            if g != w:
                values = ", ".join(hex(v) for v in row)
                raise Mismatch(f"{form}({values}) = {g:#x}, expected {w:#x}")
