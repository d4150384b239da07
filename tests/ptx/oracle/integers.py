"""What integer, bit and comparison forms should return, by Python integers."""

from formats import ALL, INF, NAN

CLAMP, WRAP = (lambda n: min(n, 32)), (lambda n: n & 31)


def width(kind):
    return int(kind[1:])


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def number(value, kind):
    return signed(value, width(kind)) if kind[0] == "s" else value & ((1 << width(kind)) - 1)


def saturated(value, kind):
    bits = width(kind)
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    return max(low, min(high, value))


def quotient(a, b):
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def arithmetic(parts):
    opcode, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    bits, n = width(kind), lambda *v: [number(x, kind) for x in v]
    sat = (lambda v: saturated(v, kind)) if "sat" in modifiers else lambda v: v
    wide = "b" + str(2 * bits)
    two, three = [kind] * 2, [kind] * 3
    if opcode in ("mul", "mad"):
        part = (lambda v: v >> bits) if "hi" in modifiers else lambda v: v
        product = lambda a, b: part(n(a)[0] * n(b)[0])
        if "wide" in modifiers:
            if opcode == "mul":
                return [wide], two, product
            return [wide], two + [wide], lambda a, b, c: product(a, b) + c
        if opcode == "mul":
            return [kind], two, product
        return [kind], three, lambda a, b, c: sat(signed(product(a, b), bits) + n(c)[0])
    table = {
        "add": (two, lambda a, b: sat(sum(n(a, b)))),
        "sub": (two, lambda a, b: sat(n(a)[0] - n(b)[0])),
        "div": (two, lambda a, b: quotient(*n(a, b))),
        "rem": (two, lambda a, b: -1 if n(b)[0] == 0 else n(a)[0] - quotient(*n(a, b)) * n(b)[0]),
        "min": (two, lambda a, b: min(n(a, b))),
        "max": (two, lambda a, b: max(n(a, b))),
        "sad": (three, lambda a, b, c: abs(n(a)[0] - n(b)[0]) + c),
        "neg": ([kind], lambda a: -n(a)[0]),
        "abs": ([kind], lambda a: abs(n(a)[0])),
    }
    sources, function = table[opcode]
    return [kind], sources, function


def dot4(parts):
    kinds = parts[1:3]
    byte = lambda v, i, k: number(v >> 8 * i, k[0] + "8")
    total = lambda a, b, c: c + sum(byte(a, i, kinds[0]) * byte(b, i, kinds[1]) for i in range(4))
    return ["b32"], ["b32"] * 3, total


def field(a, pos, length, kind):
    """bfe by a string of bits, lowest first; the ISA's own loop in words."""
    bits = width(kind)
    string = [(a >> i) & 1 for i in range(bits)]
    fill = string[min(pos + length - 1, bits - 1)] if kind[0] == "s" and length else 0
    taken = string[pos : pos + length]
    taken = (taken + [fill] * bits)[:bits]
    return sum(b << i for i, b in enumerate(taken))


def insert(a, b, pos, length, bits):
    mask = ((1 << length) - 1) << pos & ((1 << bits) - 1)
    return (b & ~mask) | (a << pos & mask)


def permute(a, b, c, mode):
    pool = [(b << 32 | a) >> 8 * i & 255 for i in range(8)]
    s = c & 3
    if mode is None:
        picks = [c >> 4 * i & 15 for i in range(4)]
        chosen = [pool[p & 7] if p < 8 else (255 if pool[p & 7] & 128 else 0) for p in picks]
    else:  # the tables of the ISA, from byte 3 down to byte 0
        rows = {
            "f4e": ["3210", "4321", "5432", "6543"],
            "b4e": ["5670", "6701", "7012", "0123"],
            "rc8": ["0000", "1111", "2222", "3333"],
            "ecl": ["3210", "3211", "3222", "3333"],
            "ecr": ["0000", "1110", "2210", "3210"],
            "rc16": ["1010", "3232", "1010", "3232"],
        }
        chosen = [pool[int(d)] for d in reversed(rows[mode][s])]
    return sum(v << 8 * i for i, v in enumerate(chosen))


def logic3(a, b, c, table):
    return sum((table >> ((a >> i & 1) * 4 + (b >> i & 1) * 2 + (c >> i & 1)) & 1) << i for i in range(32))


def find(a, kind, shift):
    v = number(a, kind)
    v = ~v if v < 0 else v
    if v == 0:
        return 0xFFFFFFFF
    top = v.bit_length() - 1
    return width(kind) - 1 - top if shift else top


def extended(a, n, kind):
    kept = a & ((1 << n) - 1)
    return kept - (1 << n) if n and kind[0] == "s" and kept >> (n - 1) else kept


def funnel(a, b, n, left):
    joined = (b << 32 | a) << n if left else (b << 32 | a) >> n
    return joined >> 32 if left else joined


def bits(parts):
    opcode, modifiers, kind = parts[0], parts[1:-1], parts[-1]
    if kind == "pred":
        f = {"and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "not": lambda a: 1 - a}
        return ["pred"], ["pred"] * (1 if opcode == "not" else 2), f[opcode]
    if opcode == "prmt":
        mode = parts[2] if len(parts) > 2 else None
        return ["b32"], ["b32"] * 3, lambda a, b, c: permute(a, b, c, mode)
    w, limit = width(kind), CLAMP if "clamp" in modifiers else WRAP
    count = "count"  # a shift count or position: small numbers matter
    table = {
        "and": ([kind] * 2, lambda a, b: a & b),
        "or": ([kind] * 2, lambda a, b: a | b),
        "xor": ([kind] * 2, lambda a, b: a ^ b),
        "not": ([kind], lambda a: ~a),
        "cnot": ([kind], lambda a: int(a == 0)),
        "shl": ([kind, count], lambda a, n: a << n if n < w else 0),
        "shr": ([kind, count], lambda a, n: number(a, kind) >> min(n, w)),
        "brev": ([kind], lambda a: int(format(a, "0%db" % w)[::-1], 2)),
        "bfe": ([kind, "place", "place"], lambda a, p, n: field(a, p, n, kind)),
        "bfi": ([kind, kind, "place", "place"], lambda a, b, p, n: insert(a, b, p, n, w)),
        "shf": (["b32", "b32", count], lambda a, b, n: funnel(a, b, limit(n), "l" in modifiers)),
        "lop3": (["b32"] * 3 + ["byte"], logic3),
        "szext": ([kind, count], lambda a, n: extended(a, limit(n), kind)),
        "bmsk": ([count, count], lambda a, n: ((1 << limit(n)) - 1) << limit(a)),
    }
    counting = {
        "popc": lambda a: bin(a).count("1"),
        "clz": lambda a: w - a.bit_length(),
        "bfind": lambda a: find(a, kind, "shiftamt" in modifiers),
    }
    if opcode in counting:
        return ["b32"], [kind], counting[opcode]
    sources, function = table[opcode]
    return [kind], sources, function


ORDERED = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def relation(a, b, kind, ftz):
    """One of < = > ? for the values of two codes."""
    if kind not in ALL:
        x, y = number(a, kind), number(b, kind)
        return "<" if x < y else ">" if x > y else "="
    f = ALL[kind]
    if ftz:
        a, b = f.flush(a), f.flush(b)
    (sa, x), (sb, y) = f.decode(a), f.decode(b)
    if NAN in (x, y):
        return "?"
    order = lambda s, v: (-1 if s else 1) * (10**400 if v == INF else v)
    x, y = order(sa, x), order(sb, y)
    return "<" if x < y else ">" if x > y else "="


def compare(name, a, b, kind, ftz):
    r = relation(a, b, kind, ftz)
    if name in ("num", "nan"):
        return (r == "?") == (name == "nan")
    name = UNSIGNED.get(name, name)
    if name in ORDERED:
        return r in ORDERED[name]
    return r == "?" or r in ORDERED[name[:-1]]


def combine(name, a, c):
    return {"and": a & c, "or": a | c, "xor": a ^ c, None: a}[name]


def comparison(parts):
    opcode, name, kind = parts[0], parts[1], parts[-1]
    joint = next((m for m in parts[2:-1] if m in ("and", "or", "xor")), None)
    ftz = "ftz" in parts
    extra = ["pred"] if joint else []
    packed = kind.endswith("x2")

    def run(a, b, c=0):
        if packed:
            low, high = (int(compare(name, a >> s & 0xFFFF, b >> s & 0xFFFF, kind[:-2], ftz)) for s in (0, 16))
            return combine(joint, low, c), combine(joint, high, c)
        r = int(compare(name, a, b, kind, ftz))
        return combine(joint, r, c), combine(joint, 1 - r, c)

    if opcode == "setp" and kind in ("f16", "bf16"):
        return ["pred"], [kind, kind] + extra, lambda *v: run(*v)[0]
    if opcode == "setp":
        return ["pred|", "pred"], [kind, kind] + extra, run
    true = 0x3F800000 if parts[-2] == "f32" else 0xFFFFFFFF
    return ["b32"], [kind, kind] + extra, lambda *v: true if run(*v)[0] else 0
