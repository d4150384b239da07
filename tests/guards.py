#!/usr/bin/env python3
"""Says which functions of the runtime's C interfaces could let an exception out: guards.py [a folder of sources]

What may allocate or throw stands in `guarded(...)`. Outside of it a function calls only what is named here, none of which does
either, and makes no object that owns memory.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PLAIN = """if for sizeof decltype static_cast reinterpret_cast const_cast int32_t int64_t uint64_t uintptr_t size_t double
  fail c_str size empty data strcmp strcasecmp madvise sysconf snprintf altgrad_format_bits altgrad_core_dtype
  aoti_torch_dtype_uint8 aoti_torch_dtype_int16""".split()
OF_FILES = {
    "bundle/Bundle.cpp": "manifestText",
    "bundle/Codes.cpp": "find bits refuse all",
    "bundle/Questions.cpp": "find checkIndex give countOf manifestOf bits canPack evenIsHigh unitMultiple rowMultiple "
                            "matrixPhase areTall",
    "core/StateLayout.cpp": "type std::find_if",
    "core/Interface.cpp": "lastError of python objects item declared present rowsFrom unsummed count std::min",
    "core/Program.cpp": "altgrad_bundle_free",
    "core/StateFormats.cpp": "altgrad::isRuleFile",
    "core/Values.cpp": "at get dtype",
    "host/Edits.cpp": "take std::strcmp",
    "plan/PlanInterface.cpp": "availableThreads tensorsOf isPresent wordOf running nchunks manifest",
}
OWNING = (r"std::(string|vector|map|set|function|make_unique|make_shared|to_string)\b|\bnew\b|\bthrow\b|"
          r"\.push_back|\.resize|\.assign")
CALL = re.compile(r"((?:[\w:]+(?:\.|->))*[\w:]+)\s*(?:<[^()<>]*>)?\(")
DEFINITION = re.compile(r"^\w[\w:<>*& ]*?[ *&](altgrad_\w+)\(([^;{}]*)\)\s*(?:noexcept\s*)?\{", re.M)


def closed(text, start, pair):
    """The place behind what closes the bracket at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == pair[0]) - (text[place] == pair[1])
        if depth == 0:
            return place + 1
    raise ValueError(f"nothing closes {text[start:start + 60]!r}")


def unguarded(body):
    """The parts of a function's body that stand in no guarded(...)."""
    while found := re.search(r"\bguarded(<[^()]*>)?\(", body):
        body = body[:found.start()] + body[closed(body, found.end() - 1, "()"):]
    return body


def faults(text, plain):
    """(function, what it does outside of a guard, beside calls of `plain`) of a source file."""
    text = re.sub(r'//[^\n]*|"(\\.|[^"\\\n])*"', '""', text)
    for found in DEFINITION.finditer(text):
        body = unguarded(text[found.end():closed(text, found.end() - 1, "{}") - 1])
        calls = {call.split("->")[-1].split(".")[-1] for call in CALL.findall(body)}
        for what in sorted(calls - set(plain)) + [owned.group() for owned in re.finditer(OWNING, body)]:
            yield found.group(1), what


def main(folder):
    sources = [path for path in sorted(folder.rglob("*.cpp")) if path.relative_to(folder).parts[0] != "torch"]
    found = [(path, *fault) for path in sources
             for fault in faults(path.read_text(), PLAIN + OF_FILES.get(str(path.relative_to(folder)), "").split())]
    for path, function, what in found:
        print(f"{path}: {function} does '{what}' outside of guarded(...): put it in, or name it in tests/guards.py if it "
              "neither allocates nor throws")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "runtime"))
