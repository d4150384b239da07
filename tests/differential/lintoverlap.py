"""The order in which a kernel that overlaps with the launch before it may do things: on every path it waits before it
exits, stores, or loads anything but the tables that the host has uploaded."""

import re

MARK = "altgrad_kernels_wait"
_BODY = re.compile(r"\.entry\s+(\w+)\(.*?\n\{(.*?)\n\}", re.S)
_LINE = re.compile(r"^(@!?%p\d+\s+)?(\w[\w.:]*)(?:\s+(.*))?;$")
_LOADS, _TOUCHES = re.compile(r"ld\.(\w+\.)*global"), re.compile(r"(st\.(volatile\.)?global|atom|red|fence)\b")
_REGISTER = re.compile(r"%(?:rd|r|p|rs)\d+")
_TABLES = range(6)  # parameters: rows, inputs, chunks, groups, scalars, sets


def _kernels(text):
    """(name, instructions as (guarded, form, operands), places of labels)."""
    for name, body in _BODY.findall(text):
        code, labels = [], {}
        for line in body.splitlines():
            line = line.split("//")[0].strip()
            if line.endswith(":"):
                labels[line[:-1]] = len(code)
            elif found := _LINE.match(line):
                code.append((bool(found[1]), found[2], found[3] or ""))
        yield name, code, labels


def _next(code, labels, at):
    guarded, form, operands = code[at]
    if form.startswith("bra"):
        yield labels[operands]
    if guarded or not (form.startswith("bra") or form in ("ret", "exit")):
        yield at + 1


def _early(code, labels):
    """What may be executed by a thread that has not waited."""
    seen, open_ = set(), [0]
    while open_:
        at = open_.pop()
        if at in seen:
            continue
        seen.add(at)
        if code[at][0] or code[at][1] != "griddepcontrol.wait":
            open_ += _next(code, labels, at)
    return [code[at] for at in sorted(seen)]


def _origins(code):
    """Register -> the parameters that it is computed from; what was loaded from memory comes from none."""
    origins, before = {}, None
    while origins != before:
        before = {register: set(of) for register, of in origins.items()}
        for _, form, operands in code:
            first, _, rest = operands.partition(",")
            for register in _REGISTER.findall(first if "{" not in first else ""):
                of = origins.setdefault(register, set())
                if form.startswith("ld.param"):
                    of.add(int(re.search(r"_param_(\d+)\]", rest)[1]))
                elif not form.startswith(("ld.", "st.")):
                    of.update(*(before.get(source, ()) for source in _REGISTER.findall(rest)))
    return origins


def _kernel(name, code, labels):
    origins = _origins(code)
    for _, form, operands in _early(code, labels):
        if _LOADS.match(form):
            of = origins.get(re.search(r"\[(%rd\d+)", operands)[1], set())
            pointers = {parameter for parameter in of if parameter < 11}
            if not pointers or pointers - set(_TABLES):
                yield f"{name}: {form} {operands} before it has waited"
            elif not form.startswith("ld.relaxed.gpu."):
                yield f"{name}: {form} {operands} may be answered by a cache that has rows of an earlier step"
        elif form in ("ret", "exit"):
            yield f"{name}: exits on a path on which it does not wait"
        elif form == "griddepcontrol.launch_dependents":
            yield f"{name}: lets the next launch begin before it has waited"
        elif _TOUCHES.match(form):
            yield f"{name}: {form} {operands} before it has waited"


def _precedes(manifest, index):
    """Whether another launch of a run may come after a phase and those that its last block does."""
    after = index + manifest["phases"][index]["finishes"] + 1
    return after < len(manifest["phases"]) and all(e["phase"] != after for e in manifest["exchanges"])


def complaints(text, manifest=None):
    overlaps = int(re.search(r"\.target sm_(\d+)", text)[1]) >= 90
    if overlaps != bool(re.search(rf"\.visible \.global .* {MARK} = 1;", text)):
        yield f"{MARK} is {'missing' if overlaps else 'there'}"
    order = {p["symbol"]: i for i, p in enumerate(manifest["phases"])} if manifest else {}
    for name, code, labels in _kernels(text):
        forms = {form for _, form, _ in code}
        waits, lets = ("griddepcontrol." + what in forms for what in ("wait", "launch_dependents"))
        if (waits or lets) and not overlaps:
            yield f"{name}: griddepcontrol came with sm_90"
        if waits:
            yield from _kernel(name, code, labels)
        if name in order and overlaps:
            if waits != (order[name] > 0):
                yield f"{name}: {'waits and comes first' if waits else 'never waits'}"
            if lets != _precedes(manifest, order[name]):
                yield f"{name}: {'lets nobody in that comes' if lets else 'does not let the next launch begin'}"
