"""Writes the folder that forms.py reads: the kernels of tests/ptx/oracle, their inputs and their approved outputs."""

import hashlib
import importlib.util
import json
import os
import pathlib
import sys
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
ORACLE = ROOT / "tests" / "ptx" / "oracle"
INTERPRETER = pathlib.Path(os.environ.get("ALTGRAD_PTXINTERP", ROOT / "build" / "tests" / "ptx" / "libptxinterp.so"))
CASES = 128
FP8 = {"e4m3x2": "e4m3", "e5m2x2": "e5m2"}
FLOATS = {"f16": "f16", "f16x2": "f16", "bf16": "bf16", "bf16x2": "bf16", "f32": "f32", "f64": "f64", **FP8}

# What the PTX ISA leaves open, in its words or by its silence; all else is compared bit by bit.
LEFT_OUT = {
    "trap": "ends the context",
    "rcp.approx.ftz.f32": "the error is bounded, the bits are not defined",
    "rsqrt.approx.ftz.f32": "the error is bounded, the bits are not defined",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32": "the order and the rounding of sums are not defined",
    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32": "the order and the rounding of sums are not defined",
    "fence.acq_rel.cta": "too narrow for the test's result to be defined",
    "fence.sc.cta": "too narrow for the test's result to be defined",
    "membar.cta": "too narrow for the test's result to be defined",
}
UNSPECIFIED = {
    "f32": "9.7.3: single-precision instructions return an unspecified NaN",
    "f16": "9.7.4: half-precision instructions return an unspecified NaN",
    "bf16": "9.7.4: half-precision instructions return an unspecified NaN",
    "f64": "9.7.3: NaN payloads are supported, and which operand's is not said",
    "cvt": "9.7.9: a NaN becomes a NaN of the destination format, whose bits are not said",
    "div": "9.7.1: division by zero yields an unspecified, machine-specific value",
    "rem": "9.7.1: the behaviour for negative numbers is machine-dependent",
}


def chip_of(form):
    """The least target that has the form; ptxas says so too, where the tests find it."""
    parts = form.split(".")
    opcode, kinds = parts[0], parts[-2:]
    if any(p.startswith("bf16") for p in parts):
        from_f32 = kinds[1] == "f32"
        to_f32 = kinds == ["f32", "bf16"] and "ftz" not in parts
        if opcode in ("setp", "add", "sub", "mul") or (opcode == "cvt" and not (from_f32 or to_f32)):
            return 90
    if opcode == "griddepcontrol":
        return 90
    if FP8.keys() & set(parts):
        return 89
    return 86 if "xorsign" in parts else 80


def open_nan(parts):
    """(format, reason) where a NaN result may have any bits, else (None, None)."""
    opcode, modifiers = parts[0], parts[1:]
    if "relu" in modifiers or opcode in ("setp", "set", "testp", "selp", "slct"):
        return None, None
    if opcode == "cvt":
        target, source = parts[-2:]
        return (FLOATS[target], "cvt") if target in FLOATS and source in FLOATS else (None, None)
    # With .NaN the result is the canonical one.
    if parts[-1] not in FLOATS or (opcode in ("min", "max") and "NaN" in modifiers):
        return None, None
    return FLOATS[parts[-1]], FLOATS[parts[-1]]


def open_rows(parts, rows):
    """(indices of rows without a defined result, reason)"""
    from integers import number
    opcode, kind = parts[0], parts[-1]
    if opcode not in ("div", "rem") or kind[0] not in "us":
        return [], None
    signed = opcode == "rem" and kind[0] == "s"
    undefined = lambda a, b: number(b, kind) == 0 or (signed and min(number(a, kind), number(b, kind)) < 0)
    return [n for n, row in enumerate(rows) if undefined(*row)], opcode


def record(library, forms):
    """form -> launches that ended well, each as interpreter.Module leaves it; a wrong result raises."""
    from interpreter import Module
    found = {}
    try:
        for form in library.known_forms():
            Module.launches = []
            forms.test_form(library, form)
            found[form] = [launch for launch in Module.launches if launch[4] and form not in LEFT_OUT]
    finally:
        Module.launches = None
    return found


def describe(form, launch, forms, relaxed):
    """A launch as forms.py wants it, and its bytes."""
    import numpy as np
    module, grid, block, parameters, before, after = launch
    at = {a.ctypes.data: n for n, a in enumerate(module.kept)}
    pointers = [(p, at[v]) for p in range(0, len(parameters), 8)
                if (v := int.from_bytes(parameters[p:p + 8], "little")) in at]
    changed = [n for n, pair in enumerate(zip(before, after)) if pair[0] != pair[1]]
    rows = len(module.kept[0]) if len(before) == 2 and module.kept[0].dtype == module.kept[1].dtype == np.uint64 else 0
    entry = {"form": form, "grid": grid, "block": block, "parameters": parameters.hex(), "pointers": pointers,
             "sizes": [len(b) for b in before], "changed": changed, "rows": rows, "nan": [], "open": []}
    parts = form.split(".")
    family = parts[0].split(" ")[0]
    elementwise = family not in forms.control.OPCODES | forms.memory.OPCODES | forms.warp.OPCODES | forms.matrices.OPCODES
    if elementwise and rows:
        kind, why = open_nan(parts)
        entry["open"], because = open_rows(parts, module.kept[0].tolist())
        entry["nan"] = [kind] * module.kept[1].shape[1] if kind or entry["open"] else []
        for reason in {why if kind else None, because if entry["open"] else None} - {None}:
            relaxed.setdefault(UNSPECIFIED[reason], []).append(form)
    return entry, b"".join(before) + b"".join(after[n] for n in changed)


def write(out):
    """Runs every form against its oracle and writes what a device shall repeat."""
    sys.path.insert(0, str(ORACLE))
    import assemble
    import kernels
    from interpreter import Library
    spec = importlib.util.spec_from_file_location("run_forms", ORACLE / "run-forms.py")
    forms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(forms)
    kernels.CASES = CASES
    found = record(Library(str(INTERPRETER)), forms)
    left_out = {form: LEFT_OUT[form] for form, launches in found.items() if not launches}
    modules, relaxed = [], {}
    for chip in sorted({chip_of(form) for form in found}):
        queue = [(form, launch) for form, launches in found.items() if chip_of(form) == chip for launch in launches]
        head = kernels.HEADER.replace("sm_90", f"sm_{chip}")
        for batch in assemble.batches([launch[0].text for _, launch in queue]):
            name = f"sm_{chip}-{len(modules):02}"
            entries, data = zip(*(describe(*queue.pop(0), forms, relaxed) for _ in batch))
            for n, entry in enumerate(entries):
                entry["kernel"] = f"k_{n}"
            (out / f"{name}.ptx.z").write_bytes(zlib.compress((head + "\n".join(batch)).encode(), 9))
            (out / f"{name}.bin.z").write_bytes(zlib.compress(b"".join(data), 6))
            modules.append({"name": name, "chip": chip, "launches": entries})
    relaxed = {reason: sorted(set(names)) for reason, names in relaxed.items()}
    (out / "index.json").write_text(json.dumps({"modules": modules, "left_out": left_out, "relaxed": relaxed}))


def key():
    """Of everything that the folder's contents follow from."""
    sources = [pathlib.Path(__file__), INTERPRETER, *sorted(ORACLE.glob("*.py"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()


def pack(out):
    """Fills `out`, unless it is filled from the same sources."""
    stamp = out / "key"
    if stamp.exists() and stamp.read_text() == key():
        return
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    write(out)
    stamp.write_text(key())


if __name__ == "__main__":
    pack(pathlib.Path(sys.argv[1]))
