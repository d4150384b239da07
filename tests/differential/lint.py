"""Looks at emitted PTX: only allowed instructions, every rounding written, 64-bit addresses, whole vectors,
no register read that nothing writes."""

import re

import lintoverlap

OPCODES = set("""
abs add and atom bar bfe bra copysign cvt div fence fma ld mad max min mov mul neg not or prmt rcp ret rem selp
setp shf shfl shl shr sqrt st sub xor lop3 popc clz vote redux rsqrt griddepcontrol prefetch
""".split())
DIRECTIVES = set("""
.version .target .address_size .visible .entry .param .maxntid .minnctapersm .reg .pragma .shared
.reqntid
""".split())
SYNCHRONISES = {"atom.global.inc.u32", "fence.acq_rel.gpu"}
SPACES = {"ld": {"param", "global", "shared"}, "st": {"global", "shared"}, "prefetch": {"global"}}
ROUNDED = re.compile(r"^(add|sub|mul|fma|div|rcp|sqrt)(\.\w+)*\.f(32|64)$")
APPROXIMATE = {"rcp.approx.ftz.f32": "fma.rn.f32", "rsqrt.approx.ftz.f32": "mul.rn.f32"}  # and who refines the result
REGISTERS = 64  # four blocks of 256 threads on a multiprocessor

_INSTRUCTION = re.compile(r"^(?:@!?%p\d+\s+)?([a-z]\w*(?:[.:]+\w+)*)(?:\s+(.*))?;$")
_SCOPED = re.compile(r"^\{ \.reg \.b16 tmp; (.*;) \}$")  # LLVM's way to take half a register
_REGISTER = re.compile(r"%(?:r|rd|rs|rh|f|fd|p)\d+")
_LABEL = re.compile(r"^\$?\w+:$")
_ENTRY = re.compile(r"\.entry\s+(\w+)")


class Kernel:
    def __init__(self, name):
        self.name, self.instructions = name, []  # (line, opcode with modifiers, operands)
        self.words = []


def parse(text):
    """The kernels of a module, and complaints about lines that are nothing known."""
    kernels, complaints, header = [], [], False
    for number, line in enumerate(text.splitlines(), 1):
        line = _SCOPED.sub(r"\1", line.split("//")[0].strip())
        if not line or line in "{})" or line == ");" or _LABEL.match(line):
            continue
        if entry := _ENTRY.search(line):
            kernels.append(Kernel(entry[1]))
        if line.startswith("."):
            word = line.split()[0]
            if word not in DIRECTIVES:
                complaints.append(f"line {number}: directive {word}")
            if kernels:
                kernels[-1].words.append(line)
            continue
        instruction = _INSTRUCTION.match(line)
        if not instruction or not kernels:
            complaints.append(f"line {number}: cannot read '{line}'")
        else:
            kernels[-1].instructions.append((number, instruction[1], instruction[2] or ""))
    return kernels, complaints


def _opcode(form):
    return re.split(r"[.:]", form)[0]


def _instruction(number, form, operands):
    """What is wrong with one instruction."""
    opcode, modifiers = _opcode(form), re.split(r"[.:]+", form)[1:]
    if opcode not in OPCODES:
        yield f"line {number}: opcode {form}"
    if {"approx", "ftz", "full"} & set(modifiers) and form not in APPROXIMATE:
        yield f"line {number}: inexact {form}"
    square = form == "fma.rp.f32" and len(set(operands.split(", ")[1:])) == 1  # t + t^2 of a reciprocal's refinement
    if ROUNDED.match(form) and "rn" not in modifiers and form not in APPROXIMATE and not square:
        yield f"line {number}: {form} does not say how it rounds"
    if opcode in ("atom", "fence") and form not in SYNCHRONISES:
        yield f"line {number}: {form} is no way to find the last block"
    if opcode in SPACES and not SPACES[opcode] & set(modifiers):
        yield f"line {number}: state space of {form}"
    if opcode in SPACES and "param" not in modifiers:
        address = re.search(r"\[([^\]+]*)", operands)[1].strip()
        if "global" in modifiers and not address.startswith("%rd"):
            yield f"line {number}: address {address} is not 64 bits wide"


def _unwritten(kernel):
    """Registers that are read and never written."""
    written, read = set(), {}
    for number, form, operands in kernel.instructions:
        first = re.match(r"\{[^}]*\}|[^,]*", operands)[0]
        results = set() if _opcode(form) in ("st", "bra", "ret", "bar", "prefetch") else set(_REGISTER.findall(first))
        written |= results
        sources = operands[len(first):] if results else operands
        for register in _REGISTER.findall(sources):
            read.setdefault(register, number)
    for register, number in read.items():
        if register not in written:
            yield f"{kernel.name}, line {number}: nothing writes {register}"


def _unrefined(kernel):
    """Approximate results that something else than the two operations of their refinement reads."""
    uses = {}
    for _, form, operands in kernel.instructions:
        for register in set(_REGISTER.findall(operands.split(",", 1)[-1])):
            uses.setdefault(register, []).append(form)
    for number, form, operands in kernel.instructions:
        if wanted := APPROXIMATE.get(form):
            register = operands.split(",")[0].strip()
            # Of a divisor that is the constant 1 or -1 the first product is none.
            found = [wanted if use in ("add.rn.f32", "sub.rn.f32") and _opcode(form) == "rcp" else use
                     for use in uses.get(register, ())]
            if set(found) != {wanted} or len(found) < 2:
                yield f"{kernel.name}, line {number}: {register} of {form} is not refined by two {wanted}"


def _cached(kernel):
    """What a kernel writes must not come through the read-only cache; a thread loads and stores by one register."""
    addresses = {"ld": {}, "st": set()}
    for number, form, operands in kernel.instructions:
        address = re.search(r"\[(%rd\d+)", operands)
        if address and form.startswith("st.global"):
            addresses["st"].add(address[1])
        elif address and form.startswith("ld.global.nc"):
            addresses["ld"][address[1]] = number
    for register, number in addresses["ld"].items():
        if register in addresses["st"]:
            yield f"{kernel.name}, line {number}: {register} is read through the cache and written"


def _doubles(kernel):
    """Arithmetic in f64, which no element needs; the last block may go on to scalars."""
    for number, form, _ in kernel.instructions:
        if _opcode(form) == "atom":
            return
        if form.endswith("f64") and _opcode(form) not in ("mov", "ld", "st", "selp"):
            yield f"{kernel.name}, line {number}: {form} in a sweep"


def _accesses(kernel, opcode):
    """The bytes of each of a kernel's global accesses with this opcode."""
    found = []
    for _, form, _ in kernel.instructions:
        if form.startswith(opcode + ".global"):
            count = {"v2": 2, "v4": 4, "v8": 8}.get(next(
                (m for m in form.split(".") if re.fullmatch(r"v\d", m)), ""), 1)
            found.append(count * int(re.search(r"(\d+)$", form)[1]) // 8)
    return found


def _vectors(kernel, phase):
    """A sweep moves its streams 16 bytes at a time; one that reduces bytes alone, 8 at a time."""
    for opcode, key in (("ld", "read"), ("st", "written")):
        wanted = 8 if phase[key] == 1 and "read" == key and not phase["written"] else 16
        if phase[key] >= 1 and wanted not in _accesses(kernel, opcode):
            yield (f"{kernel.name}: no {wanted}-byte {opcode}.global, "
                   f"though {phase[key]} bytes are {key}")


def complaints(text, manifest=None):
    """Every rule that the module breaks, in words; empty when there is none."""
    kernels, found = parse(text)
    phases = {p["symbol"]: p for p in manifest["phases"]} if manifest else {}
    if manifest and {k.name for k in kernels} - {"altgrad_values"} != set(phases):  # which brings numbers to the device
        found.append(f"kernels {sorted(k.name for k in kernels)}, phases {sorted(phases)}")
    for kernel in kernels:
        for number, form, operands in kernel.instructions:
            found += _instruction(number, form, operands)
        if any(".local" in w or ".const" in w for w in kernel.words):
            found.append(f"{kernel.name}: local or constant memory")
        found += [*_unwritten(kernel), *_unrefined(kernel), *_cached(kernel)]
        phase = phases.get(kernel.name)
        if phase and phase["domain"] == "chunks":
            found += _doubles(kernel)
            found += _vectors(kernel, phase)
    return found + list(lintoverlap.complaints(text, manifest))


def resources(log):
    """{kernel: (registers, spilled or stack bytes)} from `ptxas -v`."""
    found = {}
    for part in log.split("Compiling entry function '")[1:]:
        name = part.split("'")[0]
        registers = int(re.search(r"Used (\d+) registers", part)[1])
        memory = sum(int(n) for n in re.findall(
            r"(\d+) bytes (?:stack frame|spill stores|spill loads|lmem)", part))
        found[name] = (registers, memory)
    return found
