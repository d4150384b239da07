"""Runs every form the interpreter knows against an oracle that shares no code with it.

usage: run-forms.py LIBRARY [--write=TESTED] [--only=TEXT] [--cases=N] [--ptxas=PATH]

Fails when a result differs or a known form has no test. TESTED receives the
forms that ran, with their number of cases, for `ptx-run --coverage --tested`.
With --ptxas the kernels of all tests are assembled, too: no form is invented.
"""

import sys
import time

import assemble
import control
import convert
import floats
import integers
import kernels
import matrices
import memory
import warp
from interpreter import Faulted, Library, Module, Refused
from kernels import Mismatch, run_elementwise

FLOAT_TYPES = set(floats.TYPES)
MOVES = {"mov", "cvta", "isspacep"}
BITS = {"and", "or", "xor", "not", "cnot", "shl", "shr", "brev", "bfe", "bfi", "shf", "lop3", "szext", "bmsk"}
BITS |= {"popc", "clz", "bfind", "prmt"}
COMPARE = {"setp", "set"}


def select(parts):
    kind = parts[1]
    if parts[0] == "slct":
        return [kind], [kind, kind, "s32"], lambda a, b, c: a if c < 1 << 31 else b
    return [kind], [kind, kind, "pred"], lambda a, b, c: a if c else b


def elementwise_oracle(form):
    parts = form.split(".")
    opcode = parts[0]
    if opcode == "cvt":
        return convert.expected(parts)
    if opcode in COMPARE:
        return integers.comparison(parts)
    if opcode in ("selp", "slct"):
        return select(parts)
    if opcode in BITS:
        return integers.bits(parts)
    if opcode == "dp4a":
        return integers.dot4(parts)
    if parts[-1] in FLOAT_TYPES:
        return floats.expected(parts)
    return integers.arithmetic(parts)


def test_form(library, form):
    """Cases run, or None when there is no test."""
    opcode = form.split(".")[0].split(" ")[0]
    for family in (memory, warp, control, matrices):
        if opcode in family.OPCODES and (test := family.find(form)):
            return test(library, form)
    if opcode in control.OPCODES | memory.OPCODES | warp.OPCODES | matrices.OPCODES:
        return None
    if form.startswith(("add.cc", "addc", "sub.cc", "subc")):
        return memory.run_carry(library, form)
    return run_elementwise(library, form, *elementwise_oracle(form))


def main(arguments):
    options = dict(a.lstrip("-").split("=", 1) for a in arguments if a.startswith("--"))
    paths = [a for a in arguments if not a.startswith("--")]
    kernels.CASES = int(options.get("cases", kernels.CASES))
    library = Library(paths[0])
    forms = [f for f in library.known_forms() if options.get("only", "") in f]
    tested, failures, start = {}, [], time.time()
    Module.texts = [] if "ptxas" in options else None
    for form in forms:
        try:
            cases = test_form(library, form)
            if not cases:
                failures.append(f"{form}: no test")
            else:
                tested[form] = cases
        except (Mismatch, Faulted, Refused) as e:
            failures.append(f"{form}: {e}")
        except (KeyError, StopIteration, ValueError) as e:
            failures.append(f"{form}: no oracle ({e!r})")
    if "write" in options:
        with open(options["write"], "w") as out:
            out.write("# Written by tests/ptx/oracle/run-forms.py: form, cases that passed.\n")
            out.writelines(f"{form}\t{cases}\n" for form, cases in tested.items())
    if Module.texts is not None:
        failures += assemble.refused(options["ptxas"], Module.texts)
    for failure in failures[:40]:
        print("FAIL", failure)
    total = sum(tested.values())
    print(f"{len(tested)} of {len(forms)} forms, {total} cases, {len(failures)} failures, {time.time() - start:.1f} s")
    return 1 if failures or not forms else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
