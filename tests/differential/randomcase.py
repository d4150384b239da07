"""Runs a random spec through every execution, and shrinks it while it still fails."""

import copy
import json

import numpy as np

import compare
import inputs
import program
import randomline
import randomrule
import randomstep

FIXED = {"inv_scale": [1.0, 0.37, 2.0**-16, 1.0], "max_norm": [1.0, 1e9, 0.05, 1.0],
         "max_norm_again": [0.7, 1e9, 2.0, 1.0],
         "found_inf": [0.0, 1.0, 0.0, 0.0]}


def is_request(spec):
    """Whether it is of randomline: a rule of templates/ and a storage line, not a step of its own."""
    return "sets" in spec


def text(spec):
    return (randomline if is_request(spec) else randomstep).text(spec)


def rows_of(spec, compiled):
    """Every further set of tensors has one fewer."""
    sizes = list(spec["sizes"])
    return compiled.rows([sizes[k:] or sizes[-1:] for k in range(compiled.manifest["sets"])],
                         spec["groups"])


def _start(spec, compiled, rows, rng):
    values = {}
    hypers = {f"{h}_{n}": v for n, one in enumerate(spec["lists"])
              for h, v in one["rule"]["hypers"]}
    count = {"step": 1, "group": max(rows.group) + 1, "tensor": len(rows.numel)}
    for name, _, scope, kind in compiled.signature:
        if kind.startswith("!altgrad.tensors"):
            form = inputs.formats.of_list(kind)[0]
            values[name] = inputs.codes(rng, form, sum(rows.sizes(name)), 0.01)
        elif name in hypers:
            values[name] = np.array([hypers[name], 0.25, 0.9][:count[scope]])
        elif kind in ("i64", "f32") and scope == "tensor":
            values[name] = rng.choice([0, 1, 4, 30], count[scope]).astype(
                {"i64": np.int64, "f32": np.float32}[kind])
        else:
            values[name] = np.zeros(count[scope], {"f64": np.float64}.get(kind, np.float32))
    return values


def _schedule(spec, compiled):
    names = {n for n, *_ in compiled.signature}
    for step in range(spec["steps"]):
        scalars = {n: np.array([v[step]], np.float32) for n, v in FIXED.items() if n in names}
        yield (0.02 if step == 1 else 0.0), scalars


def run(spec, targets=None, ptx=None, flags=()):
    """None, or raises Different, Refused, Fault: whatever went wrong. Returns the last values."""
    targets = targets or ("x86-64-v3", "x86-64-v4", *(program.PTX if ptx else ()))
    if is_request(spec):
        return randomline.run(spec, targets, ptx)
    rng = np.random.default_rng([spec["seed"], 11])
    compiled = program.Program(randomstep.text(spec), targets, flags)
    rows = rows_of(spec, compiled)
    shifts = [int(s) for s in rng.choice([0, 0, 1, 3, 8, 15], len(rows.numel))]
    values = _start(spec, compiled, rows, rng)
    return compare.run_steps(compiled, rows, shifts, values, list(_schedule(spec, compiled)), rng,
                             ptx)


def words_of(spec, **how):
    """What went wrong, or None."""
    try:
        run(spec, **how)
    except Exception as error:  # a generator, evaluator or compiler that dies is a finding too
        return f"{type(error).__name__}: {error}"
    return None


def plain_share(spec, values):
    """Share of finite f32 numbers among the results that are stored in f32."""
    shares = [np.isfinite(v.view(np.float32)).mean() for n, v in values.items()
              if v.dtype == np.uint32 and v.size and n[0] in "ws"]
    return float(np.mean(shares)) if shares else 1.0


#===-- Shrinking ---------------------------------------------------------------===#

def _used(rule):
    """Statements that reach a result; the others go."""
    alive, kept = set(rule["yields"]), []
    for statement in reversed(rule["statements"]):
        if statement[0] in alive:
            alive.update(statement[3])
            kept.append(statement)
    return kept[::-1]


def _without_statement(rule, index):
    """The rule with one statement's result replaced by an earlier value of its kind."""
    result, kind, *_ = rule["statements"][index]
    earlier = [s[0] for s in rule["statements"][:index] if s[1] == kind]
    standing = {"e": ["g", "w"], "d": [rule["hypers"][0][0]], "i": ["t"] * rule["has_step"],
                "c": rule["options"][:1]}.get(kind, [])
    for value in [*standing, *earlier[::-1]][:3]:
        smaller = copy.deepcopy(rule)
        for statement in smaller["statements"][index + 1:]:
            statement[3] = [value if o == result else o for o in statement[3]]
        smaller["yields"] = [value if y == result else y for y in smaller["yields"]]
        del smaller["statements"][index]
        yield smaller


def _rules_smaller(spec):
    for n, one in enumerate(spec["lists"]):
        rule = one["rule"]
        alive = _used(rule)
        if len(alive) < len(rule["statements"]):
            yield _with(spec, ["lists", n, "rule", "statements"], alive)
        for index in reversed(range(len(rule["statements"]))):
            for smaller in _without_statement(rule, index):
                yield _with(spec, ["lists", n, "rule"], smaller)
        for index, state in enumerate(rule["states"]):
            if not any(state in s[3] for s in _used(rule)):
                yield _without_state(spec, n, index)


def _without_state(spec, n, index):
    smaller = copy.deepcopy(spec)
    one = smaller["lists"][n]
    one["states"].pop(one["rule"]["states"].pop(index), None)
    del one["rule"]["yields"][1 + index]
    return smaller


def _with(spec, path, value):
    smaller = copy.deepcopy(spec)
    at = smaller
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return smaller


def _settings_smaller(spec):
    if len(spec["lists"]) > 1:
        yield _with(spec, ["lists"], spec["lists"][:1])
        yield _with(spec, ["lists"], spec["lists"][1:])
    for key, value in (("mode", "plain"), ("statistic", ""), ("groups", 1), ("steps", 1)):
        if spec[key] != value:
            yield _with(spec, [key], value)
    for sizes in ([1], [3], [17], [300], [5000]):
        if len(spec["sizes"]) > 1 or sizes < spec["sizes"]:
            yield _with(spec, ["sizes"], sizes)
    if len(spec["sizes"]) > 1:
        for i in range(len(spec["sizes"])):
            yield _with(spec, ["sizes"], spec["sizes"][:i] + spec["sizes"][i + 1:])
    for n, one in enumerate(spec["lists"]):
        for key, value in (("copies", []), ("master", False), ("grad", "f32"), ("param", "f32"),
                           ("clock", "i64"), ("always", []), ("keep_grad", "")):
            if one[key] != value:
                yield _with(spec, ["lists", n, key], value)
        for state, form in one["states"].items():
            if form != "f32":
                yield _with(spec, ["lists", n, "states", state], "f32")


def shrink(spec, words, limit=400, **how):
    """A smaller spec that fails in the same way (the same kind of error)."""
    kind = words.split(":")[0]
    tries, again = 0, True
    while again and tries < limit:
        again = False
        for smaller in randomline.smaller(spec) if is_request(spec) else [*_settings_smaller(spec), *_rules_smaller(spec)]:
            tries += 1
            found = words_of(smaller, **how)
            if found and found.split(":")[0] == kind:
                spec, words, again = smaller, found, True
                break
            if tries >= limit:
                break
    return spec, words


def save(spec, words, folder):
    """A failing spec as NAME.mlir for people and NAME.json for the test that repeats it."""
    path = folder / spec.get("name", f"random-{spec['seed']}")
    lines = "".join(f"// {line}\n" for line in words.splitlines()[:6])
    try:
        step = text(spec)
    except program.Refused as error:
        step = "".join(f"// {line}\n" for line in str(error).splitlines())
    path.with_suffix(".mlir").write_text(
        "// RUN: altgrad-opt %s --target=x86-64-v3,sm_80,sm_90 --emit=bundle -o %t\n"
        f"// A spec of tests/differential/soak.py, seed {spec['seed']}, shrunk. It failed with\n"
        f"{lines}{step}")
    path.with_suffix(".json").write_text(json.dumps(spec, indent=1) + "\n")
    return path.with_suffix(".mlir")


__all__ = ["is_request", "plain_share", "randomline", "randomrule", "rows_of", "run", "save", "shrink", "text", "words_of"]
