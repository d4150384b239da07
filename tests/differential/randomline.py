"""Random requests of altgrad-opt: rules of templates/ under storage lines of every word, and flags; as JSON data."""

import copy
import re

import numpy as np

import compare
import evaluator
import program
import templatecases

EIGHT = ["ocp.e4m3fn", "ocp.e5m2", "altgrad.e3m4", "altgrad.e4m3", "altgrad.e6m1", "ocp.e2m3", "ocp.e3m2"]
WIDE = ["bf16", "f16", "altgrad.e6m9", "altgrad.e4m11"]
MX = ["mxfp8", "mxfp8e5m2", "mxfp6e2m3", "mxfp6e3m2"]
SIGNED = [*EIGHT, "ocp.e2m1", "int8", "torchao4", "bnb8"]
ENDLESS = ("bf16", "f16", "ocp.e4m3fn", "ocp.e5m2")  # with a code that is no number
SIZES = [1, 2, 16, 17, 31, 33, 64, 127, 129, 256, 300, 511, 1000]
CHECKS = [[], [], ["--unscale"], ["--scaler"], ["--loss-scaler=torch"], ["--loss-scaler=boostr"]]
CLIPS = [[], [], ["--clip"], ["--clip=percentile"], ["--clip=percentile", "--per-tensor"], ["--clip=agc"], ["--clip=agc-unit"],
         ["--clip-value"], ["--clip", "--norm=l1"], ["--clip", "--profile=torch"]]


class Line:
    """The words of one set. `counts`: the update's sweep adds something up."""

    def __init__(self, rng, rule, options):
        self.rng, self.rule = rng, rule
        self.states = evaluator.stored_states(program.template_rule(rule), options)
        self.words, self.rungs = [], False
        self.both = False  # a copy in blocks over rows

    def one(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def often(self, share):
        return self.rng.random() < share

    def rounded(self, form, draws=True):
        if form == "f32":
            return form
        how = ["", "", ",toward_zero", ",saturate", *([",nonfinite"] if form in ENDLESS else []),
               *([",stochastic", ",stochastic32", ",stochastic,saturate"] if draws else [])]
        return form + self.one(how)

    def block(self):
        return int(self.one([16, 32, 32, 64, 128, 256]))

    def state(self):
        kind = self.rng.random()
        if kind < 0.3:
            return self.one(["f32", "bf16", "f16"])
        if kind < 0.4:
            return self.rounded(self.one([*EIGHT, *WIDE]))
        if kind < 0.6:
            bent = self.one(["int8:{}{},softsign", "uint8:{}{},sqrt"])
            return bent.format(self.block(), self.one(["", ":f16"]))
        if kind < 0.75:
            return f"{self.one(['bnb8', 'bnb8u', 'torchao4', 'torchao4u'])}:{self.block()}"
        return self.blocks([*EIGHT, "bf16", "int8", "uint8", "int16", "ocp.e2m1"])

    def blocks(self, forms):
        form = self.one(forms)
        rounded = self.rounded(form).removeprefix(form)
        if self.often(0.4):
            return f"{form}:{self.block()}:ocp.e8m0{self.one(['', ',rceil', ',floor', ',ceil', ',even'])}{rounded}"
        return f"{form}:{self.block()}{self.one(['', ':f32', ':f16'])}{rounded}"

    def parameter(self):
        kind = self.rng.random()
        if kind < 0.15 or self.rule == "gridoptim":
            self.rungs = True
            grid = self.one(SIGNED[:8])
            self.words.append(f"rungs={grid}" + self.one(["", "", ",stochastic", ",stochastic32", ",toward_zero", ",reference"]))
            self.words.append("param=" + self.one(["f32", grid, grid]))
        elif kind < 0.35:
            self.words += ["param=bf16", "master=" + self.one(["bf16+i16", "bf16+i8"])]
        elif kind < 0.5:
            self.words += ["param=" + self.rounded(self.one(["bf16", "f16", "ocp.e4m3fn"])), "master=f32"]
        elif kind < 0.75:
            self.words.append("param=" + self.rounded(self.one([*WIDE[:2], *WIDE[:2], *EIGHT])))

    def copies(self):
        kind = self.rng.random()
        if self.both and self.often(0.5):
            scale = self.one(["", ",pow2", ":ocp.e8m0", ":ocp.e8m0,floor"])
            square = self.one([":16x16", ":32x32", ":128x128", ":128x128"])
            short = self.one([f"nvfp4{square}", f"nvfp4{square},current", f"mxfp4{square},ceil"])
            self.words.append("copy=" + (short if self.often(0.4) else self.one(EIGHT) + square + scale))
        elif self.both:
            self.words.append(f"copy={self.one(MX)},both" + self.one(["", ",floor", ",ceil", ",even"]))
        elif kind < 0.1:
            self.words.append("copy=" + self.rounded("nvfp4"))
        elif kind < 0.3:
            scale = self.one(["delayed", "delayed:2", "delayed:5", "current", *(["bounded"] if self.is_bounded() else [])])
            self.words.append(f"copy={self.rounded(self.one([*EIGHT, 'bf16', 'ocp.e2m1', 'int8']))},{scale}" + self.one(["", ",pow2"]))
        elif kind < 0.4:
            self.words.append("copy=" + self.rounded(self.one([*MX, "mxfp4"])))
        elif kind < 0.5:
            self.words.append("copy=" + self.blocks(SIGNED[:8]))
        elif kind < 0.55:
            self.words.append("copy=" + self.one(["bf16", "ocp.e2m1", "torchao4:32", "bnb8:64"]))

    def is_bounded(self):
        wide = all(word.endswith("=f32") for word in self.words if word.split("=")[0] in ("param", "master", *self.states))
        master = "master=f32" in self.words
        return self.rule in ("adam", "adamw") and not self.rungs and (wide or master and not any(
            word.split("=")[0] in self.states and word.split("=")[1] != "f32" for word in self.words))

    def text(self):
        self.both = self.often(0.12)
        if self.often(0.7):
            self.words.append("grad=" + self.one(["bf16", "bf16", "f16", "ocp.e5m2"]))
        self.parameter()
        for state in self.states:
            if self.often(0.7):
                word = self.state()
                kept = ",keep_positive" * (word != "f32" and self.often(0.2))
                self.words.append(f"{state}={word}{kept}")
        self.copies()
        return [word for _, word in sorted(zip(self.rng.random(len(self.words)), self.words))]


def generate(seed):
    """A request as JSON data; the same seed, the same one."""
    rng = np.random.default_rng([seed, 23])
    line = Line(rng, "sgd", [])
    check, clip = line.one(CHECKS), line.one(CLIPS)
    units, statistics = "--clip=agc-unit" in clip, line.often(0.25)
    flags = [*check, *clip, *(["--statistics"] if statistics else [])]
    spec = {"seed": seed, "steps": int(rng.integers(1, 4)), "groups": int(rng.integers(1, 3)), "flags": flags, "sets": []}
    for _ in range(int(line.one([1, 1, 1, 2]))):
        rule = line.one([*templatecases.OPTIONS, "adamw", "adamw", "lion"])
        options = [o for o in line.one(templatecases.OPTIONS[rule]).split(",") if o]
        words = Line(rng, rule, options).text()
        if not statistics:  # whose sums beside books and draws may need more shared memory than there is
            words = [re.sub(r":256\b", ":2048", word) for word in words]
        spec["sets"].append({"rule": rule, "options": options, "words": words, "sizes": _sizes(rng, line, units)})
    return spec


def _sizes(rng, line, units):
    """Rows and columns, which only tensors that go over tiles or by units ask for."""
    some = [[1, int(line.one(SIZES))] for _ in range(int(rng.integers(1, 4)))]
    whole = [int(rng.integers(1, 9 if units else 40)), 256 * int(line.one([1, 2, 17] if units else [1, 2]))]
    return [*some, whole, *[[0, 256]] * int(rng.integers(2) if not units else 0)]


def text(spec):
    lines = [f"--set=rule={one['rule']}{{{','.join(one['options'])}}} {' '.join(one['words'])}" for one in spec["sets"]]
    return program.call(*lines, *spec["flags"], "--print-step", f"--rule-path={program.TEMPLATES}")


def _start(compiled, rows, rng):
    values = templatecases.start_values(compiled, rows, rng, 0.01)
    for scalar in compiled.manifest["scalars"]:
        name = scalar["name"]
        if scalar["role"] == "tensor_scale":
            odd = np.array([0, 1, 2.5, 1e-20, 1e-40, 3e38, np.inf, np.nan], np.float32)
            values[name] = rng.choice(odd, len(values[name]))
        if scalar["role"] == "random":
            values[name] = rng.integers(0, 2**62, 1)
    for name, _, scope, kind in compiled.signature:
        if kind == "history":
            values[name] = _history(rng, 1 if scope == "step" else len(rows.numel))
    return values


def _history(rng, count):
    numbers = np.abs(rng.standard_normal((count, 101))).astype(np.float32)
    numbers[:, 0] = rng.integers(0, 100, count)
    numbers[:, 60:] = np.nan
    return numbers


def run(spec, targets, ptx=None):
    """As randomcase.run, of a request."""
    rng = np.random.default_rng([spec["seed"], 29])
    templatecases.use_rule(spec["sets"][0]["rule"])
    compiled = program.Program(text(spec), targets)
    rows = compiled.rows([one["sizes"] for one in spec["sets"]], spec["groups"], apart=256 * 2**24)
    shifts = [int(s) for s in rng.choice([0, 0, 1, 3, 8, 15], len(rows.numel))]
    schedule = [(0.02 if step == 1 else 0.0, {}) for step in range(spec["steps"])]
    return compare.run_steps(compiled, rows, shifts, _start(compiled, rows, rng), schedule, rng, ptx)


def smaller(spec):
    """Requests with a set, a flag, a word, an option, a tensor or a step less."""
    for path in [["sets"], ["flags"]]:
        yield from _without_each(spec, path, 1 if path == ["sets"] else 0)
    for n in range(len(spec["sets"])):
        yield from _without_each(spec, ["sets", n, "words"], 0)
        yield from _without_each(spec, ["sets", n, "options"], 0)
        yield from _without_each(spec, ["sets", n, "sizes"], 1)
    for key in ("steps", "groups"):
        if spec[key] > 1:
            yield {**copy.deepcopy(spec), key: 1}


def _without_each(spec, path, least):
    at = spec
    for key in path:
        at = at[key]
    for index in range(len(at) if len(at) > least else 0):
        less = copy.deepcopy(spec)
        inside = less
        for key in path:
            inside = inside[key]
        del inside[index]
        yield less
