"""Random rules with units, blocks and tiles, compiled for hosts and GPUs, beside the NumPy of freereference.

All machines and numbers of threads leave the same bytes, and these are what NumPy has: where sums have a part in a number, within
what other errors of these sums make of it. The compiler takes every rule, or says in words of rules what is wrong at a line of it.
"""

import collections
import json
import os
import pathlib
import re
import resource
import sys
import tempfile

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "differential"))

import compare  # noqa: E402
import formats  # noqa: E402
import freereference  # noqa: E402
import freerule  # noqa: E402
import hostrun  # noqa: E402
import inputs  # noqa: E402
import program  # noqa: E402
import ptxrun  # noqa: E402
import shrinking  # noqa: E402

TARGETS = [["x86-64-v3"], ["x86-64-v3", "sm_80"], ["x86-64-v3"], ["x86-64-v3", "x86-64-v4"], ["x86-64-v3"], ["x86-64-v3", "sm_90"]]
INTERNAL = re.compile(r"altgrad\.(sweep|phase|step|load|store|fold|commit)|\bsweep|\bphase|\bstage|\bstream|\bspill|\bchunk|llvm|failed to")
WAYS = range(6), range(48), range(480)  # the next where a number is outside of the interval of those before

COMPARED = collections.Counter()  # numbers, by how much is known of them


class Compiled(program.Program):
    """A spec's bundle; its arguments are those that the manifest names."""

    def __init__(self, spec):
        self.folder = tempfile.TemporaryDirectory(prefix="altgrad-rules-")
        self.path, self.targets = os.path.join(self.folder.name, "bundle.so"), TARGETS[spec["seed"] % len(TARGETS)]
        sets = []
        for n, one in enumerate(spec["sets"]):
            path = os.path.join(self.folder.name, f"r{n}.mlir")
            pathlib.Path(path).write_text(freerule.text(one, f"r{n}"))
            sets.append(f"--set=rule={path} {' '.join(freerule.words(one))}")
        program.call(*sets, *spec["flags"], f"--target={','.join(self.targets)}", "--emit=bundle", "-o", self.path, preexec_fn=_bounded, timeout=None)
        self._object = program.ctypes.CDLL(self.path)
        self.manifest = json.loads(self._string("altgrad_manifest"))

    keeps_old = False

    @property
    def signature(self):
        found = [(s["name"], s["access"], "", _list_of(s)) for s in self.manifest["streams"]]
        return found + [(s["name"], s["access"], s["scope"], "history" if s["role"] == "history" else s["type"])
                        for s in self.manifest["scalars"]]


def _bounded():
    """A compiler without an end is one by its own time, not by that of a machine that others use."""
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


def _list_of(stream):
    block = {0: f"1x{stream['block']}", 1: f"{stream['block']}x1"}.get(stream["columns"], "128x128")
    return f"!altgrad.tensors<{stream['format']}{f' per {block}' * (stream['block'] > 1)}>"


#===-- Values -----------------------------------------------------------------===#

def start(spec, compiled, rows, rng):
    """Codes and scalars by argument; later steps take what the one before has left, and new gradients."""
    values = {s["name"]: numbers_for(s, sum(rows.sizes(s["name"])), rng) for s in compiled.manifest["streams"]}
    count = {"step": 1, "group": max(rows.group) + 1, "tensor": len(rows.numel), "unit": len(rows.numel)}
    for scalar in compiled.manifest["scalars"]:
        key, size = scalar["key"], count[scalar["scope"]]
        array = np.zeros(size, {"f64": np.float64, "i64": np.int64}.get(scalar["type"], np.float32))
        if scalar["role"] == "hyper":
            array[:] = dict(spec["sets"][scalar["set"] or 0]["hypers"])[key] * (1 - 0.25 * (np.arange(size) % 2))
        elif scalar["role"] == "history":
            array = np.abs(rng.standard_normal((1, 101))).astype(np.float32) * 9
            array[:, 0] = rng.integers(0, 100)
        elif key == "max_norm":
            array[:] = {"--clip=percentile": 50.0, "--clip": 3.0}.get(spec["flags"][0], 10.0 ** -int(rng.integers(0, 3)))
        elif key == "inv_scale":
            array[:] = 0.25
        elif scalar["scope"] == "unit":
            array[:] = rng.standard_normal(size)
        values[scalar["name"]] = array
    return values


def numbers_for(stream, count, rng):
    form = formats.named(stream["format"])
    if stream["role"] == "block_scale":
        return formats.encode(form, np.exp2(rng.integers(-6, 1, count)).astype(np.float32))
    x = inputs.numbers(rng, count, 2 if stream["role"] == "param" else 4)
    x *= rng.random(count) > (0.05 if rng.random() < 0.5 else 0)
    return formats.encode(form, x * (top_of(form) / 8 if form.bits == 8 and form.mantissa != 2 else 1), "saturate")


def top_of(form):
    return float(formats._table(form)[np.isfinite(formats._table(form))].max())


class Tensors:
    """The tensors of a memory, one by one: a stream's numbers in the shape of each, or a value for each block."""

    def __init__(self, spec, compiled, rows):
        self.spec, self.manifest, self.rows = spec, compiled.manifest, rows
        self.firsts = [row for row in range(len(rows.numel)) if rows.begins(row)]
        self.named = {(s["role"], s["key"], s["set"] or 0): s for s in [*self.manifest["streams"], *self.manifest["scalars"]]}

    def shape(self, first):
        return self.rows.shape[first][0] * self.rows.shape[first][2], self.rows.shape[first][1]

    def cut(self, values, stream, first):
        sizes = self.rows.sizes(stream["name"])
        before = sum(sizes[:first])
        own = sum(n for n, tensor in zip(sizes, self.rows.tensor) if tensor == first)
        return values[stream["name"]][before:before + own]

    def spread(self, scales, stream, first):
        """A number for each block at each of the block's elements."""
        shape, columns = self.shape(first), stream["columns"]
        if columns:
            tall = np.repeat(scales.reshape(-(-shape[0] // stream["block"]), -1), stream["block"], 0)[:shape[0]]
            return np.repeat(tall, columns, 1)[:, :shape[1]]
        return np.repeat(scales, stream["block"])[:shape[0] * shape[1]].reshape(shape)

    def scales(self, values, key, which, first):
        stream = self.named.get(("block_scale", key, which))
        return stream and self.spread(formats.decode(formats.named(stream["format"]), self.cut(values, stream, first)), stream, first)

    def numbers(self, values, role, key, which, first):
        stream = self.named[role, key, which]
        if stream.get("scope") == "unit":
            return values[stream["name"]][first:first + self.shape(first)[0]][:, None]
        x = formats.decode(formats.named(stream["format"]), self.cut(values, stream, first)).reshape(self.shape(first))
        scales = self.scales(values, key, which, first)
        return x if scales is None else (x * scales).astype(np.float32)

    def stored(self, which):
        """(role, key) of what the rule of a set yields, by argument."""
        one = self.spec["sets"][which]
        master = [found for found in self.named if found[0] == "master" and found[2] == which]
        param = master or [found for found in self.named if found[0] == "param" and found[2] == which]
        return {"w": param[0][:2], **{s: ("state", s) for s in [*one["states"], *one["unit_states"]]}}


def computed(tensors, values, sums):
    """Per tensor {argument: its new numbers} and the statistics, and the norm."""
    spec, parts = tensors.spec, []
    scalars = {s["key"]: values[s["name"]][0] for s in tensors.manifest["scalars"]
               if s["scope"] == "step" and s["role"] != "statistic"}
    scalars["history"] = next((values[s["name"]][0] for s in tensors.manifest["scalars"] if s["role"] == "history"), None)
    for first in tensors.firsts:
        which = tensors.rows.set[first]
        old = {name: tensors.numbers(values, *place, which, first)
               for name, place in tensors.stored(which).items() if (*place, which) in tensors.named}
        grad = next(found for found in tensors.named if found[0] == "grad" and found[2] == which)
        parts.append((first, which, old, tensors.numbers(values, *grad, first) * np.float32(scalars.get("inv_scale", 1))))
    factors, norm = freereference.clipped(spec["flags"], [p[3] for p in parts], [p[2]["w"] for p in parts], scalars, sums)
    found = {}
    for (first, which, old, grad), factor in zip(parts, factors):
        one, shape = spec["sets"][which], tensors.shape(first)
        hypers = {name: values[tensors.named["hyper", name, which]["name"]][tensors.rows.group[first]]
                  for name, _ in one["hypers"] if ("hyper", name, which) in tensors.named}
        given = {**{s: np.zeros((1, 1), np.float32) for s in one["yields"]}, **old, "g": (grad * factor).astype(np.float32)}
        new = freereference.rule(one, freerule.alive(one), given, {**dict(one["hypers"]), **hypers}, shape, sums) if grad.size else {}
        if "--statistics" in spec["flags"] and grad.size:
            moved = np.broadcast_to(new["w"], shape) - old["w"]
            new |= {name: freereference.length(x, (0, 1), sums) for name, x in (
                ("grad_norm", grad), ("param_norm", old["w"]), ("update_norm", moved))}
        found[first] = new
    return found, norm


#===-- Comparison -------------------------------------------------------------===#

def between(several, shape):
    """(least, largest, whether anything is known) of what other errors in sums make of a number."""
    with np.errstate(all="ignore"):
        stack = np.stack([np.broadcast_to(x, shape) for x in several]).astype(np.float64)
        bad = np.isnan(stack)
        low, high = stack.min(0), stack.max(0)
        wide = np.where(low == high, 0, 2 * (high - low))
        known = (bad.all(0) | ~bad.any(0)) & ~np.isnan(wide)
    return low - wide, high + wide, known | bad.all(0)


def outside(got, low, high, known):
    """Where a number is not in its interval."""
    with np.errstate(all="ignore"):
        fine = np.where(np.isnan(low), np.isnan(got), (got >= low) & (got <= high))
    return known & ~fine


def rounded(form, x):
    x = np.asarray(x).astype(np.float32)
    shape, overflow = x.shape, "nonfinite" if form.bits > 8 else "saturate"
    return formats.decode(form, formats.encode(form, x.ravel(), overflow)).reshape(shape)


def wrong_numbers(tensors, stream, role, key, which, first, after, several):
    """Where the codes of a stream are not the rounded numbers of any interval."""
    shape, form = tensors.shape(first), formats.named(stream["format"])
    low, high, known = between(several, shape)
    codes = formats.decode(form, tensors.cut(after, stream, first)).reshape(shape)
    scales = tensors.scales(after, key, which, first)
    COMPARED["numbers of one value"] += int((known & (low == high)).sum())
    COMPARED["numbers in an interval"] += int((known & (low < high)).sum())
    COMPARED["numbers that errors of sums make NaN or not, and NaN"] += int((~known | np.isnan(low)).sum())
    if scales is None:
        return outside(codes, rounded(form, low), rounded(form, high), known)
    with np.errstate(all="ignore"):
        known &= np.isfinite(low) & np.isfinite(high) & (scales > 0)
        low, high = (x / scales for x in (low, high))
        slack = 4e-7 * np.maximum(np.abs(low), np.abs(high))
        bad = outside(codes, rounded(form, low - slack), rounded(form, high + slack), known)
    return bad | _wrong_scales(tensors, key, which, first, scales, several, top_of(form), role)


def _wrong_scales(tensors, key, which, first, scales, several, top, role):
    """The largest magnitude of a block over the format's largest number; up to twice that where it is a power of two."""
    stream, shape = tensors.named["block_scale", key, which], tensors.shape(first)
    block = f"1x{stream['block']}" if not stream["columns"] else f"{stream['block']}x{stream['columns']}"
    alone = [np.where(np.isfinite(x), x, 0) if role == "state" else x for x in (np.broadcast_to(x, shape) for x in several)]
    low, high, known = between([freereference.over("absmax", np.ascontiguousarray(x), f"block<{block}>", None) for x in alone], shape)
    with np.errstate(all="ignore"):
        known &= np.isfinite(high) & (low > 1e-25) & (high < 1e30)
        power = stream["format"] == "ocp.e8m0" or role != "state"
        low, high = (np.clip(x / top, 2.0**-120, 2.0**126) for x in (low, high))
        return outside(scales, low * (1 - 1e-6), high * (1 + 1e-6) * (2 if power else 1), known)


def differences(tensors, before, after, ways):
    """Words on each argument that is not what NumPy has."""
    with np.errstate(all="ignore"):
        runs = [computed(tensors, before, freereference.Sums(way, tensors.spec["seed"])) for way in ways]
    words = []
    for first in tensors.firsts:
        which, shape = tensors.rows.set[first], tensors.shape(first)
        if not shape[0] * shape[1]:
            continue
        places = {**{place: name for name, place in tensors.stored(which).items()}}
        for (role, key, of), stream in tensors.named.items():
            if of != which or stream["access"] == "in" or role in ("grad", "block_scale"):
                continue
            name = places.get((role, key), "w" if role in ("param", "copy") else key)
            several = [found[first].get(name) for found, _ in runs]
            if several[0] is None:
                continue
            if "scope" in stream:
                index = slice(first, first + shape[0]) if stream["scope"] == "unit" else slice(first, first + 1)
                got = after[stream["name"]][index][:, None]
                bad = outside(got, *between(several, got.shape))
            else:
                bad = wrong_numbers(tensors, stream, role, key, which, first, after, several)
            if bad.any():
                words.append(_words(tensors, after, (role, key, which), first, bad, several))
    norms = [norm for _, norm in runs]
    got = next((after[s["name"]] for s in tensors.manifest["scalars"] if s["key"] == "norm" and s["role"] == "norm"), None)
    if got is not None and norms[0] is not None and outside(got, *between([np.array([n]) for n in norms], (1,))).any():
        words.append(f"norm {got[0]!r}, not {norms[0]!r}")
    return words


def _words(tensors, after, place, first, bad, several):
    shape = tensors.shape(first)
    at = tuple(np.argwhere(np.broadcast_to(bad, shape if bad.size > 1 else bad.shape))[0])
    scalar = "scope" in tensors.named[place]
    got = after[tensors.named[place]["name"]][first] if scalar and bad.size == 1 else tensors.numbers(after, *place, first)[at]
    due = np.broadcast_to(several[0], shape)[at]
    return f"{' '.join(map(str, place))}: tensor of {shape} at {tuple(map(int, at))}: {got!r}, not {due!r}; {int(bad.sum())} elements"


def run(spec):
    """Words on what is wrong with a spec, or None; `refused: …` where the compiler refuses it as it should."""
    rng = np.random.default_rng([spec["seed"], 43])
    try:
        compiled = Compiled(spec)
    except program.Refused as error:
        return f"refused: {kind_of(str(error))}" if in_words(str(error)) else f"compiler: {error}"
    rows = compiled.rows([[tuple(shape) for shape in one["shapes"]] for one in spec["sets"]], 1 + spec["seed"] % 2)
    tensors, values = Tensors(spec, compiled, rows), start(spec, compiled, rows, rng)
    shifts = [int(s) for s in rng.choice([0, 0, 0, 1, 3, 8], len(rows.numel))]
    machines = compare.executors(compiled, {"races": spec["seed"] % 8 == 0} if ptxrun.available() else None)
    machines.append(("3 threads", hostrun.HostPlan(compiled, "v3", threads=3).run))
    for number in range(spec["steps"]):
        memory = compare.Memory(compiled.signature, rows, shifts).fill(values)
        left = [(name, memory.twin()) for name, _ in machines]
        for (_, machine), (_, own) in zip(machines, left):
            machine(own)
        for name, own in left[1:]:
            if words := own.difference(left[0][1]):
                return f"machines: step {number + 1}, {name} beside {left[0][0]}: {words}"
        after = left[0][1].values()
        if all(words := differences(tensors, values, after, ways) for ways in WAYS):
            return f"numbers: step {number + 1}: " + "\n".join(words)
        values = after
        for stream in compiled.manifest["streams"]:
            if stream["role"] == "grad":
                values[stream["name"]] = numbers_for(stream, len(values[stream["name"]]), rng)
    return None


def in_words(said):
    """Whether a refusal is at a line of a rule and speaks of nothing that a rule has not."""
    found = re.search(r"r\d\.mlir:\d+:\d+: error: (.*)", said)
    return bool(found) and not INTERNAL.search(found[1])


def kind_of(said):
    return re.sub(r"%\w+|\d+", "N", re.search(r"error: (.*)", said)[1])[:90]


#===-- Findings ---------------------------------------------------------------===#

def warm():
    for name in ("bf16", "f16", "ocp.e5m2", "ocp.e4m3fn"):  # tables
        formats.encode(formats.named(name), np.zeros(1, np.float32))


def live(life):
    spec = freerule.generate(life.seed)
    words = run(spec)
    if words is None or words.startswith("refused"):
        life.said[words or "rules with NumPy's numbers"] += 1
        life.said.update(COMPARED)
        return
    raise AssertionError(freerule.told(*shrinking.shrink(run, freerule.smaller, spec, words)))
