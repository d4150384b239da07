"""Faults in PTX that change no result, with the reason: rules over the instruction and the kernel around it."""

import functools
import re
import struct

LOAD = r"ld\.global(?:\.nc)?\.b64\s+(%rd\d+), \[(%rd\d+)(?:\+(-?\d+))?\]"
REGISTER = re.compile(r"%(?:rd|rs|r|p)\d+")
TABLES = ("an index of rows, chunks, blocks or threads: the tables are below 4 GB, 33 million tensors or 10^12 elements")


def _kernel(text, line):
    """The lines of the kernel that a line is in, and its place among them."""
    lines, bounds = _kernels(text)
    first = max(b for b in bounds if b <= line)
    last = min([b for b in bounds if b > line] + [len(lines)])
    return lines[first:last], line - first


@functools.lru_cache(maxsize=4)
def _kernels(text):
    lines = text.splitlines()
    return lines, [n for n, line in enumerate(lines) if ".entry" in line] or [0]


def _result(line):
    found = re.match(r"\s*(?:@!?%p\d+\s+)?[a-z][\w.:]*\s+(\{[^}]*\}|[^,]+),", line)
    return REGISTER.findall(found[1]) if found and not line.lstrip().startswith("st") else []


@functools.lru_cache(maxsize=64)
def _elements(kernel):
    """Registers that depend on a tensor's length or on a chunk's first element."""
    loads = [match for line in kernel if (match := re.search(LOAD, line))]
    chunks = {match[2] for match in loads if match[3] == "8"}
    found = {match[1] for match in loads if match[3] == "8" or not match[3] and match[2] not in chunks}
    for _ in range(4):  # loops carry some of them
        for line in kernel:
            result = _result(line)
            sources = REGISTER.findall(line[line.find(","):]) if result else []
            if any(s in found for s in sources) and not re.match(r"\s*(ld|setp)", line):
                found.update(result)
    return found


def _moved(lines, at):
    """What every register holds that the block's `mov`s before a line copied: register -> source."""
    known = {}
    for line in lines[:at]:
        copy = re.match(r"\s*mov\.b(?:32|64)\s+(%\w+), (\S+);", line)
        if re.match(r"\$?\w+:", line) or " bra" in line:
            known.clear()
        for register in _result(line):
            known.pop(register, None)
        if copy:
            known[copy[1]] = known.get(copy[2], copy[2])
    return known


def narrow(lines, at, fault):
    if fault.kind != "narrow":
        return None
    if fault.old.lstrip().startswith("or.b64") and "_rows" not in fault.kernel:
        return "of the addresses joined only the last four bits are looked at"
    scalar = re.search("_rows|_fold|_once", fault.kernel)
    return TABLES if scalar or not set(_result(fault.old)) & _elements(tuple(lines)) else None


def widths(lines, at, fault):
    load = re.search(LOAD, fault.old)
    if fault.kind != "widths" or not load:
        return None
    of_chunk = not load[3] and any(re.search(rf"\.b64\s+%rd\d+, \[{load[2]}\+8\]", line) for line in lines)
    index = load[3] in ("24", "32", "40", "48") or re.search("_rows|_fold", fault.kernel)
    return TABLES if of_chunk or index else None


def truth(lines, at, fault):
    loaded = re.search(r"ld\.global\.b32\s+(%r\d+),", fault.old)
    if fault.kind == "widths" and loaded:
        if any(re.search(rf"\band\.b32\s.*{loaded[1]}\b", line) for line in lines[at:]):
            return "a conjunction is all ones or all zeros: its low half says the same"
        if any(re.search(rf"setp\.(eq|ne)\.b32\s+%p\d+, {loaded[1]}, 0;", line) for line in lines[at:]):
            return "a truth is 0 or 1: its low half says the same"
    if fault.kind == "constants" and re.search(r"selp\.b32\s+%r\d+, 1, 0,", fault.old) and ", 2, 0," in fault.new:
        return "every number but 0 is true"
    return None


def nan(lines, at, fault):
    one = "setp.gt.u32" in fault.old and "2139095041" in fault.new
    if one or "and.b32" in fault.old and ", 2147483646" in fault.new:
        return "only the NaN with payload 1 is judged otherwise; no arithmetic gives that one"
    return None


def sign(lines, at, fault):
    shift = re.search(r"shl\.b32\s+(%r\d+), %r\d+, (16|24);", "".join(lines[max(0, at - 8):at]))
    if "-2147483647" in fault.new and "and.b32" in fault.old and shift:
        return "the code was shifted to the top of the word: the other bit that is kept is 0"
    return None


def unread(lines, at, fault):
    """A word of the step that no kernel loads."""
    store = re.match(r"\s*st\.global\.\w+\s+\[(%rd\d+)(?:\+(\d+))?\]", fault.old)
    if not store or fault.kind not in ("stores", "offsets", "widths", "registers"):
        return None
    words = lambda kernel: set(re.findall(r"ld\.param\.b64\s+(%rd\d+), \[\w+_param_6\]", kernel))  # noqa: E731
    kernels = fault.module.split(".entry")
    if store[1] not in words("\n".join(lines)):
        return None
    read = {match[1] or "0" for kernel in kernels for base in words(kernel)
            for match in re.finditer(rf"ld\.global(?:\.nc)?\.b\d+\s+%\w+, \[{base}(?:\+(\d+))?\]", kernel)}
    return "the word is read by nobody" if (store[2] or "0") not in read else None


def slow(lines, at, fault):
    near = "\n".join(lines[max(0, at - 2):at + 3])
    whole = re.search(r"setp\.gt\.u32\s+%p\d+, %r\d+, (-\d+);", fault.old)
    if whole and "or.pred" in near and (fault.kind == "comparisons" or f", {int(whole[1]) - 1};" in fault.new):
        return "the last whole vector goes element by element: the same bytes"
    if re.search(r"setp\.ne\.b64\s+%p\d+, %rd\d+, 0;", fault.old) and re.search(", (1|-1);", fault.new) and not any(
            re.search(r"global\S*\.b8\s", line) for line in lines):
        return "no element is one byte wide: whole vectors go element by element, to the same bytes"
    if fault.kind == "guards" and "bra.uni" in fault.new and "or.pred" in lines[at - 1]:
        return "whole vectors go element by element: the same bytes"
    return None


def entered(lines, at, fault):
    before = "\n".join(lines[max(0, at - 4):at])
    near = "\n".join(lines[max(0, at - 4):at + 1])
    dropped = fault.kind == "guards" and "//" in fault.new or "setp.ge.s32" in fault.old and fault.kind in (
        "comparisons", "registers")
    if dropped and re.search(r"min\.u32\s.*, -\d+;\s+add\.s32.*\s+setp\.ge\.s32", near):
        return "a thread comes here only with an element left: the loop is never empty"
    guard = re.search(r"@(%p\d+)", fault.old)
    if fault.kind == "guards" and "//" in fault.new and re.search(
            rf"setp\.lt\.s64\s+{guard[1]}, %rd\d+, 1;", "\n".join(lines[:at])):
        if "_fold" in fault.kernel:
            return "without a chunk the loop runs once and its inner tests let nothing in"
        if "_once" in fault.kernel:
            return "a plan has a tensor: the loop over them is never empty"
    if fault.kind == "comparisons" and "_fold" in fault.kernel and "setp.lt.s64" in fault.old and "@" in lines[at + 1]:
        return "behind the last chunk the inner tests let nothing in"
    return None


def twin(lines, at, fault):
    """An element of the tail goes to both entries of a pair, where order does not matter."""
    joined = re.match(r"\s*(max\.NaN\.f32|selp\.b32|and\.b32)\s+(%r\d+), (%r\d+), (.*);", fault.old)
    if not joined or fault.kind not in ("operations", "constants", "registers", "operands", "predicates"):
        return None
    same = [line for line in lines[max(0, at - 6):at + 7] if re.match(
        rf"\s*{re.escape(joined[1])}\s+(%r\d+), (%r\d+), {re.escape(joined[4])};", line)]
    both = len(same) == 2 and "_reduce" in fault.kernel
    return "the element goes to both entries of a pair, and one suffices" if both else None


def exact(lines, at, fault):
    """Roundings that have nothing to round, or 29 more bits to lose it in."""
    factor = re.search(r"mul\.rn\.f(?:32|64)\s.*, 0(?:f|d)([0-9A-F]+);", fault.old)
    if fault.kind == "rounding" and factor and int(factor[1], 16) % (1 << (23 if len(factor[1]) == 8 else 52)) == 0:
        return "a power of two multiplies without rounding"
    last = fault.kind == "constants" and re.search(r"0d[0-9A-F]{16}", fault.old) or fault.kind == "rounding"
    if last and ".f64" in fault.old and "cvt" not in fault.old and not fault.kernel.startswith("altgrad_s_"):
        return "f64 is rounded to f32 behind it: its last bit moves one result in 10^8"
    if fault.kind == "constants" and re.search(r"mov\.b64\s+%rd\d+, 0d3FF0000000000000;", fault.old) and (
            not fault.kernel.startswith("altgrad_s_")):
        return "f64 is rounded to f32 behind it: its last bit moves one result in 10^8"
    return None


def codes(lines, at, fault):
    """The rounding of eight-bit codes by arithmetic."""
    number = re.search(r", (-?\d+);", fault.old)
    if not number:
        return None
    if "add.s32" in fault.old and "sub.s32" in fault.new and int(number[1]) % 65536 == 0:
        return "the code is the low byte, which the number does not touch"
    if "setp.lt.u32" in fault.old and "setp.le.u32" in fault.new and int(number[1]) % (1 << 23) == 0:
        return "at the smallest normal number both ways of rounding agree"
    return None


def sign_only(lines, at, fault):
    if fault.kernel.endswith("lion_step_update1") and fault.kind == "rounding" and any(
            "setp.ne.f32" in line for line in lines[at:at + 14]) and "fma" not in fault.old:
        return "only the sign of the sum is used: a last bit decides it only where two terms cancel"
    return None


def polynomial(lines, at, fault):
    term = re.match(r"\s*fma\.rn\.f64\s+%rd\d+, %rd\d+, (%rd\d+), 0d([0-9A-F]{16});", fault.old)
    if not term or fault.kind not in ("constants", "rounding"):
        return None
    more = sum(bool(re.match(rf"\s*fma\.rn\.f64\s+%rd\d+, %rd\d+, {term[1]}, ", line)) for line in lines[at + 1:])
    small = struct.unpack(">d", bytes.fromhex(term[2]))[0] < 1 / 700
    logarithm = any(f"mul.rn.f64 \t{term[1]}, " in line for line in lines[:at])
    if small or logarithm and more >= 3:
        return "the term is below 10^-5 of the sum: its last bit moves one result in 100,000"
    return None


def tensor(lines, at, fault):
    check = "2147483647" in fault.old or "2139095040" in fault.old
    if fault.kernel.endswith("lamb_step_update1") and check and fault.kind == "registers":
        return "one NaN makes the tensor's norm a NaN, and by it all its elements"
    return None


def power(lines, at, fault):
    zero = re.search(r"@(%p\d+)", fault.old)
    if fault.kind == "guards" and "//" in fault.new and "_rows" in fault.kernel and re.search(
            rf"setp\.eq\.b64\s+{zero[1]}, %rd\d+, 0;", "\n".join(lines[max(0, at - 4):at])):
        return "the power 0 has no bit: the loop runs once and multiplies nothing"
    if fault.kind == "comparisons" and re.search(r"setp\.lt\.s64\s+%p\d+, %rd\d+, 0;", fault.old):
        return "0 has no sign, and the power 1 is its own reciprocal"
    return None


def shuffles(lines, at, fault):
    if fault.kind == "shuffles" and ", 15, -1" in fault.new and int(fault.old.split(",")[2]) < 16:
        return "thread 0, the only one that stores, adds what threads below 16 hold: 15 bounds it as well"
    return None


def copies(lines, at, fault):
    if fault.kind not in ("registers", "operands"):
        return None
    known = _moved(lines, at)
    before, after = (REGISTER.sub(lambda m: known.get(m[0], m[0]), part.split(None, 1)[1].strip())
                     for part in (fault.old, fault.new))
    strip = functools.partial(re.sub, r"\s|^[^,]*,", "")
    return "both registers hold the same number" if strip(before) == strip(after) else None


RULES = (narrow, widths, truth, nan, sign, unread, slow, entered, twin, exact, codes, sign_only, polynomial, tensor,
         power, shuffles, copies)


def reason(text, fault):
    fault.module = text
    lines, at = _kernel(text, fault.line)
    return next((words for rule in RULES if (words := rule(lines, at, fault))), None)
