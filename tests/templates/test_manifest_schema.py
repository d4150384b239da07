"""The manifest's schema, written once: the compiler writes it, the C ABI answers from it."""

import ctypes
import json
import pathlib
import subprocess
from ctypes import c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p

import pytest

import runner

NULL = type(None)
ACCESS = ["in", "out", "inout"]
SCOPES = ["step", "group", "tensor", "unit"]
UNITS = ["none", "given", "matrices", "rows"]
WALKS = ["runs", "heads", "columns"]
HALVES = ["none", "low", "high"]
KINDS = ["sweep", "fold", "total", "scalars", "matrix"]
REDUCTIONS = ["add", "sumsq", "max", "and"]
TYPES = ["f64", "i64", "f32", "i32", "i1"]
BYTES = dict(zip(TYPES, (8, 8, 4, 4, 1)))
ROLES = ["none", "param", "grad", "state", "master", "copy", "block_scale", "remainder", "input", "hyper", "step", "max_norm",
         "norm", "scale", "inv_scale", "flag", "scaler", "statistic", "random", "history", "tensor_scale"]

# A type, a list of the words that there are, {key: ...} of an object, [...] of a list's entries. Keys with a question
# mark are there where a rule has values per column, squares or sums of its own over the step.
SCHEMA = {
    "altgrad": int, "step": str, "producer": str, "host": (str,), "ptx": (str,), "sets": int, "units": (UNITS,),
    "places": (bool,),
    "row_words": int, "inputs": int, "group_scalars": int, "step_scalars": int,
    "workspace": {"step_words": int, "row_words": int, "chunk_words": int, "spills": int,
                  "columns?": {"slot": int, "lists": int, "runs": int},
                  "squares?": {"slot": int, "rows": int, "columns": int, "row_words": int, "column_words": int}},
    "streams": ({"name": str, "key": str, "role": ROLES, "access": ACCESS, "format": str,
                 "bits": int, "even": HALVES, "block": int, "columns": int, "slot": int, "set": int, "per?": ["column", "rows", "columns"]},),
    "scalars": ({"name": str, "key": str, "role": ROLES, "access": ACCESS, "type": TYPES,
                 "scope": SCOPES, "slot": int, "set": {int, NULL}, "default": {int, float, NULL}},),
    "phases": ({"name": str, "symbol": str, "kind": KINDS,
                "domain": ["chunks", "rows", "once"], "set": {int, NULL}, "per_block": int, "finishes": int,
                "block": int, "tiles": int, "read": {int, float}, "written": {int, float}, "walk?": WALKS},),
    "exchanges": ({"phase": int, "words": ({"word": int, "reduction": REDUCTIONS, "sum?": str},)},),
    "partials": ({"phase": int, "set": int, "word": int, "reduction": REDUCTIONS},),
    "warnings": ({"set": int, "stream": str, "hyper": {str, NULL}, "above": {int, float},
                  "below": {int, float}, "text": str},),
}

REQUESTS = {
    "plain": ["--rule=sgd"],
    "sets": ["--set=rule=adamw{amsgrad} param=bf16 master=f32 states=param step=f32",
             "--set=rule=adamw copy=ocp.e4m3fn", "--set=rule=sgd{momentum_on} param=f16 grad=f16"],
    "exchange": ["--set=rule=adamw", "--set=rule=lamb param=bf16", "--clip", "--scaler",
                 "--exchange"],
    "spills": ["--rule=lamb"],
    "clip": ["--rule=adopt", "--clip"],
    "unscale": ["--rule=lion", "--unscale", "--exchange", "--clip"],
    "units": ["--rule=adamw", "--clip=agc-unit"],
    "warnings": ["--rule=adamw", "--storage=m=f16 v=bf16"],
    "columns": ["--rule=adafactor"],
    "sums": ["--rule=prodigy", "--exchange"],
}


def check(value, schema, place="manifest"):
    """Every key is there and none beside it, every value of its kind."""
    if isinstance(schema, dict):
        schema = {key.rstrip("?"): part for key, part in schema.items() if not key.endswith("?") or key[:-1] in value}
        assert isinstance(value, dict) and value.keys() == schema.keys(), place
        for key, part in schema.items():
            check(value[key], part, f"{place}.{key}")
    elif isinstance(schema, tuple):
        assert isinstance(value, list), place
        for index, entry in enumerate(value):
            check(entry, schema[0], f"{place}[{index}]")
    elif isinstance(schema, list):
        assert value in schema, place
    else:
        assert type(value) in (schema if isinstance(schema, set) else {schema}), place


@pytest.fixture(scope="module", params=REQUESTS)
def made(request, tmp_path_factory):
    """(the name of a request, its bundle)"""
    path = tmp_path_factory.mktemp("schema") / "bundle.so"
    words = REQUESTS[request.param] + ["--target=x86-64-v3,sm_80", "--emit=bundle", "-o", path]
    subprocess.run([runner.COMPILER, *words], check=True)
    return request.param, path


def test_the_compiler_writes_the_schema(made):
    name, path = made
    manifest = runner.Runner(path).manifest
    check(manifest, SCHEMA)
    assert manifest["altgrad"] == 5 and (manifest["host"], manifest["ptx"]) == (["v3"], ["sm_80"])
    assert manifest["sets"] == max(1, sum("--set" in word for word in REQUESTS[name]))
    assert bool(manifest["exchanges"]) == ("--exchange" in REQUESTS[name])
    assert len(manifest["partials"]) == 2 * (name == "exchange")  # the norms of LAMB's tensors
    assert name != "warnings" or {w["hyper"] for w in manifest["warnings"]} == {"beta1", "beta2", None}
    assert (manifest["workspace"]["spills"] > 0) == (name in ("spills", "exchange"))
    assert {phase.get("walk") for phase in manifest["phases"]} - {None} == (set(WALKS) if name == "columns" else set())
    for kind in ("streams", "scalars"):
        keys = [(entry["set"], entry["role"], entry["key"]) for entry in manifest[kind]]
        assert len(set(keys)) == len(keys)
    assert len({e["name"] for kind in ("streams", "scalars") for e in manifest[kind]}) \
        == len(manifest["streams"] + manifest["scalars"])


def struct(*fields):
    return type("Info", (ctypes.Structure,), {"_fields_": [("size", c_uint64), *fields]})


def number(*names):
    return [(name, c_int32) for name in names]


STREAM = struct(("name", c_char_p), ("key", c_char_p), ("format", c_char_p),
                *number("role", "access", "set", "bits", "block", "even", "columns", "per_column"))
SCALAR = struct(("name", c_char_p), ("key", c_char_p),
                *number("role", "access", "type", "scope", "set", "bytes", "has_default"),
                ("value", c_double))
PHASE = struct(("name", c_char_p), *number("kind", "set"), ("read", c_double),
               ("written", c_double))
EXCHANGE = struct(("phase", c_int64), ("words", c_int64))
WARNING = struct(*[(name, c_char_p) for name in ("stream", "hyper", "text")],
                 ("above", c_double), ("below", c_double), *number("set"))
WORD = struct(("offset", c_uint64), *number("reduction"))

# What numbers of altgrad.h stand for.
WORDS = {"role": ROLES, "access": ACCESS, "type": TYPES, "scope": SCOPES, "kind": KINDS,
         "reduction": REDUCTIONS, "even": HALVES}


def ask(lib, bundle, question, kind, *index):
    """The members of what the C ABI answers, in the words of the manifest."""
    info = kind(ctypes.sizeof(kind))
    function = getattr(lib, f"altgrad_{question}_at")
    function.argtypes = [c_void_p, *[c_int64] * len(index), c_void_p]
    assert function(bundle, *index, ctypes.byref(info)) == 0, lib.altgrad_last_error()
    given = {name: getattr(info, name) for name, _ in kind._fields_ if name != "size"}
    for name, value in given.items():
        value = value.decode() if isinstance(value, bytes) else value
        value = WORDS[name][value] if name in WORDS else value
        given[name] = None if (name, value) == ("set", -1) else value
    return given


def wanted(entry, *left_out):
    """An entry of the manifest as it is answered."""
    entry = {key: value for key, value in entry.items() if key not in left_out}
    if "block" in entry:
        entry["per_column"] = int(entry.pop("per", "") == "column")
    if "default" in entry:
        default = entry.pop("default")
        entry.update(has_default=default is not None, value=default or 0, bytes=BYTES[entry["type"]])
    return entry


def test_the_c_abi_answers_what_the_manifest_says(made):
    held = runner.Runner(made[1])
    lib, bundle, manifest = held.lib, held.bundle, held.manifest

    def count(question):
        function = getattr(lib, f"altgrad_{question}_count")
        function.argtypes, function.restype = [c_void_p], c_int64
        return function(bundle)

    assert count("set") == manifest["sets"]
    for kind, info, left_out in (("stream", STREAM, ("slot",)), ("scalar", SCALAR, ("slot",)),
                                 ("phase", PHASE, ("symbol", "domain", "per_block", "finishes", "block", "tiles", "walk"))):
        entries = manifest[kind + "s"]
        assert count(kind) == len(entries)
        for index, entry in enumerate(entries):
            assert ask(lib, bundle, kind, info, index) == wanted(entry, *left_out)
    assert count("warning") == len(manifest["warnings"])
    for index, entry in enumerate(manifest["warnings"]):
        given = ask(lib, bundle, "warning", WARNING, index)
        assert given == {**entry, "hyper": entry["hyper"] or ""}
    assert count("partial") == len(manifest["partials"])
    assert count("exchange") == len(manifest["exchanges"])
    for index, exchange in enumerate(manifest["exchanges"]):
        words = exchange["words"]
        assert ask(lib, bundle, "exchange", EXCHANGE, index) \
            == {"phase": exchange["phase"], "words": len(words)}
        for place, word in enumerate(words):
            assert ask(lib, bundle, "exchange_word", WORD, index, place) \
                == {"offset": 8 * word["word"], "reduction": word["reduction"]}


def test_bundle_h_shows_every_key():
    """The example in bundle.h is the schema, too: each key with a value of its kind."""
    text = (runner.ROOT / "runtime" / "include" / "altgrad" / "bundle.h").read_text()
    start = text.index('//   {"altgrad"')
    lines = text[start:text.index("//\n", start)].splitlines()
    example = " ".join(line.removeprefix("//").split("   kinds of")[0] for line in lines)
    example = example.replace(" words of a descriptor row, header included", "") \
        .replace(" moving pointers of a row (streams of access \"in\")", "")
    check(json.loads(example.replace(", ...", "")), SCHEMA)


def test_the_roles_are_those_of_bundle_h():
    header = pathlib.Path(runner.ROOT, "runtime", "include", "altgrad", "bundle.h").read_text()
    listed = header[header.index("#define ALTGRAD_LIST_ROLES"):header.index("enum altgrad_role")]
    assert ROLES[1:] == [part.split(",")[0] for part in listed.split("X(")[1:]]
