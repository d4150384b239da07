"""Faults for emitted PTX: each kind is a function from an instruction to the texts that may stand in its place."""

import dataclasses
import re

INSTRUCTION = re.compile(r"^\s*(?:(@!?%p\d+)\s+)?([a-z]\w*(?:[.:]+\w+)*)(?:\s+(.*))?;$")
REGISTER = re.compile(r"%(?:rd|rs|r|p)\d+")
NOT_DATA = ("bra", "ret")
OPPOSITE = {"add": "sub", "sub": "add", "min": "max", "max": "min", "and": "or", "or": "and", "shl": "shr",
            "shr": "shl", "mul": "add", "xor": "or"}
NEIGHBOUR = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt", "eq": "ne", "ne": "eq", "nan": "num"}


@dataclasses.dataclass
class Fault:
    kind: str
    line: int  # from 0
    old: str
    new: str
    kernel: str

    @property
    def words(self):
        return f"{self.kernel} line {self.line + 1}: {self.old.strip()}  ==>  {self.new.strip()}"


@dataclasses.dataclass
class Instruction:
    guard: str
    form: str
    operands: list
    earlier: dict  # registers written so far in this kernel, by class, the last one last

    @property
    def opcode(self):
        return re.split(r"[.:]", self.form)[0]

    def text(self, form=None, operands=None, guard=None):
        words = [guard if guard is not None else self.guard, form or self.form,
                 ", ".join(self.operands if operands is None else operands)]
        return "\t" + " ".join(w for w in words if w) + ";"

    def sources(self):
        """Positions of the operands that are read."""
        return range(0 if self.opcode == "st" else 1, len(self.operands))


def split(operands):
    """At the commas outside braces and brackets."""
    return [o.strip() for o in re.findall(r"(?:\{[^}]*\}|\[[^\]]*\]|[^,{\[])+", operands)]


def _with(operands, position, new):
    return [new if i == position else o for i, o in enumerate(operands)]


#===-- Kinds -----------------------------------------------------------------===#

def operands(i):
    """Two sources change places, where their order matters."""
    pairs = {"sub": (1, 2), "div": (1, 2), "shl": (1, 2), "shr": (1, 2), "selp": (1, 2), "fma": (2, 3),
             "mad": (2, 3), "copysign": (1, 2), "cvt": (1, 2)}
    a, b = pairs.get(i.opcode, (1, 2) if i.opcode == "setp" and not re.search("eq|ne|nan", i.form) else (0, 0))
    if b and len(i.operands) > b and i.operands[a] != i.operands[b]:
        if REGISTER.match(i.operands[a]) or i.opcode in ("sub", "selp"):
            yield i.text(operands=_with(_with(i.operands, a, i.operands[b]), b, i.operands[a]))


def predicates(i):
    """A branch is taken where it was not, a choice is the other one."""
    if i.guard:
        yield i.text(guard=i.guard.replace("@!", "@") if "!" in i.guard else i.guard.replace("@", "@!"))


def comparisons(i):
    """A comparison is off by one."""
    if i.opcode == "setp":
        word = i.form.split(".")[1]
        if word in NEIGHBOUR:
            yield i.text(i.form.replace(f".{word}.", f".{NEIGHBOUR[word]}."))


def offsets(i):
    """An access goes to its neighbour."""
    for position, operand in enumerate(i.operands):
        address = re.fullmatch(r"\[(%\w+)(?:\+(-?\d+))?\]", operand)
        if address and i.opcode in ("ld", "st"):
            size = int(re.search(r"(\d+)$", i.form)[1]) // 8
            for step in (size, -size):
                yield i.text(operands=_with(i.operands, position,
                                            f"[{address[1]}+{int(address[2] or 0) + step}]"))


def rounding(i):
    """Towards zero or minus infinity instead of to the nearest."""
    if ".rn" in i.form and ".f64.s" not in i.form:
        for mode in ("rz", "rm"):
            if not (mode == "rm" and "16" in i.form):
                yield i.text(i.form.replace(".rn", "." + mode))


def shuffles(i):
    """A shuffle reaches another thread, or none."""
    if i.opcode == "shfl":
        value, distance, bound = i.operands[1], int(i.operands[2]), int(i.operands[3])
        for other in (distance * 2, distance // 2):
            yield i.text(operands=[i.operands[0], value, str(other), *i.operands[3:]])
        yield i.text(operands=[*i.operands[:3], str(bound // 2), *i.operands[4:]])
        yield i.text(i.form.replace(".down.", ".up."))


def guards(i):
    """A branch is never taken, or always."""
    if i.guard and i.opcode == "bra":
        yield "\t// " + i.text().strip()
        yield i.text("bra.uni", guard="")


def registers(i):
    """A source is a register of the same class that was written just before."""
    for position in i.sources():
        if not REGISTER.fullmatch(i.operands[position]):
            continue
        name = re.match(r"%[a-z]+", i.operands[position])[0]
        others = [r for r in i.earlier.get(name, []) if r not in i.operands]
        if others:
            yield i.text(operands=_with(i.operands, position, others[-1]))


def constants(i):
    """A number is one more or less, the last bit of a float is another."""
    if i.opcode in ("shfl", "ld", "st"):
        return
    for position in i.sources():
        text = i.operands[position]
        if re.fullmatch(r"-?\d+", text):
            for step in (1, -1):
                yield i.text(operands=_with(i.operands, position, str(int(text) + step)))
        elif number := re.fullmatch(r"0([fd])([0-9A-Fa-f]+)", text):
            width = len(number[2])
            yield i.text(operands=_with(i.operands, position,
                                        f"0{number[1]}{int(number[2], 16) ^ 1:0{width}X}"))


def widths(i):
    """An access takes half of its bytes."""
    if i.opcode in ("ld", "st") and ".param" not in i.form and ".v" not in i.form:
        bits = int(re.search(r"(\d+)$", i.form)[1])
        if bits > 8:
            yield i.text(re.sub(r"\d+$", str(bits // 2), i.form))
    elif i.opcode in ("ld", "st") and ".v4." in i.form:
        position = 0 if i.opcode == "ld" else 1
        names = re.findall(r"%\w+", i.operands[position])
        half = _with(i.operands, position, "{" + ", ".join(names[:2]) + "}")
        lost = "".join(f" mov.b32 {n}, 0;" for n in names[2:]) if i.opcode == "ld" else ""
        yield i.text(i.form.replace(".v4.", ".v2."), half) + lost


def stores(i):
    """A store is missing."""
    if i.opcode == "st":
        yield "\t// " + i.text().strip()


def narrow(i):
    """A 64-bit index or distance keeps its low 32 bits, with and without a sign."""
    if re.fullmatch(r"(add\.s64|shl\.b64|mul\.lo\.s64|mad\.lo\.s64|sub\.s64|or\.b64)", i.form) and not i.guard:
        result = i.operands[0]
        yield i.text() + f" and.b64 {result}, {result}, 4294967295;"
        yield i.text() + f" shl.b64 {result}, {result}, 32; shr.s64 {result}, {result}, 32;"


def operations(i):
    """Another operation, or none."""
    other = OPPOSITE.get(i.opcode)
    if other and ".wide" not in i.form and ".pred" not in i.form:
        form = i.form.replace(i.opcode, other, 1)
        form = re.sub(r"\.lo|(?<=^and)\.s", "", form) if i.opcode == "mul" else form
        form = form.replace(".b", ".u") if other == "shr" else form.replace(".u", ".b").replace(
            ".s", ".b") if other == "shl" else form
        yield i.text(form)
    if i.opcode in ("abs", "neg", "sqrt"):
        yield i.text("mov.b" + re.search(r"(\d+)$", i.form)[1])
    if i.opcode == "fma":
        yield i.text("mul" + i.form[3:], i.operands[:3])
    if i.opcode in ("add", "sub", "mul", "div", "and", "or", "xor", "min", "max", "shl", "shr") and ".wide" not in i.form:
        kind = "pred" if i.form.endswith("pred") else "b" + re.search(r"(\d+)$", i.form)[1]
        if ".hi" not in i.form:
            yield i.text("mov." + kind, i.operands[:2])


KINDS = {f.__name__: f for f in (operands, predicates, comparisons, offsets, rounding, shuffles, guards,
                                 registers, constants, widths, stores, narrow, operations)}


#===-- A module ----------------------------------------------------------------===#

def faults(text):
    """Every fault of every kind that a module can have, in the order of its lines."""
    kernel, earlier = "", {}
    for number, line in enumerate(text.splitlines()):
        if entry := re.search(r"\.entry\s+(\w+)", line):
            kernel, earlier = entry[1], {}
        found = INSTRUCTION.match(line)
        if not found or line.lstrip().startswith("."):
            continue
        instruction = Instruction(found[1] or "", found[2], split(found[3] or ""), earlier)
        for kind, make in KINDS.items():
            for new in make(instruction):
                yield Fault(kind, number, line, new, kernel)
        if instruction.operands and instruction.opcode not in ("st", *NOT_DATA):
            for register in REGISTER.findall(instruction.operands[0]):
                name = re.match(r"%[a-z]+", register)[0]
                earlier.setdefault(name, []).append(register)


def seeded(text, fault):
    lines = text.splitlines()
    assert lines[fault.line] == fault.old
    lines[fault.line] = fault.new
    return "\n".join(lines) + "\n"
