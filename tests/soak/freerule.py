"""Random rules with units, blocks and tiles as JSON data, and their text: what tools/soak.sh rules tries.

A statement is [result, operation, operands, extra]. What a value is the same over is its level: a set of words, empty
for what is of a whole tensor, {"element"} for what differs between elements.
"""

import copy

import numpy as np

LENGTHS = [16, 32, 64, 128, 256]
TILES = ["32x1", "128x128"]
CLIPS = [[], [], ["--clip"], ["--clip=percentile"], ["--clip=agc"], ["--clip=agc"], ["--clip=agc-unit"], ["--clip=agc-unit"]]
PARAMS = [[], [], ["param=bf16"], ["param=f16"], ["param=bf16", "master=f32"], ["param=f16", "master=f32"]]
PLAIN = ["f32", "f32", "bf16", "f16", "ocp.e5m2"]
SCALED = ["ocp.e4m3fn:{}", "ocp.e5m2:{}", "int8:{}", "bf16:{}"]
COPIES = ["bf16", "ocp.e4m3fn:{}", "mxfp8", "mxfp8e5m2,both", "mxfp8,both", "ocp.e4m3fn:128x128", "ocp.e5m2:128x128,pow2"]
TWO = {"addf": 2, "subf": 2, "mulf": 2, "maximumf": 1, "minimumf": 1}
ONE = ["negf", "math.absf", "math.floor"]
PREDICATES = ["olt", "ole", "ogt", "oge", "une", "ult"]


class Rule:
    def __init__(self, rng, blocks, units):
        self.rng, self.blocks, self.units = rng, blocks, units
        self.hypers = [[f"h{i}", round(float(rng.uniform(0.05, 0.95)), 3)] for i in range(rng.integers(1, 3))]
        self.states = [f"s{i}" for i in range(rng.integers(0, 4))]
        self.unit_states = ["r0"] if units and rng.random() < 0.3 else []
        self.level = {name: {"element"} for name in ("w", "g", *self.states)}
        self.level |= {name: {"unit"} for name in self.unit_states}
        self.numbers, self.truths, self.statements, self.yields = [*self.level], [], [], {}
        for name, _ in self.hypers:
            self.add("truncf", [name], level=set())
        for _ in range(int(rng.integers(2, 16))):
            self.some()()
        self.end()

    def one(self, choices):
        return choices[int(self.rng.integers(len(choices)))]

    def add(self, operation, operands, extra="", level=None, quiet=False):
        result = f"v{len(self.statements)}"
        self.statements.append([result, operation, list(operands), extra])
        joined = set().union(*(self.level[o] for o in operands)) if level is None else level
        self.level[result] = {"element"} if "element" in joined or len(joined) > 1 else joined
        if not quiet:
            (self.truths if operation == "cmpf" else self.numbers).append(result)
        return result

    def constant(self, value):
        return self.add("constant", [], repr(float(value)).replace("e", ".0e"), set(), quiet=True)

    def pick(self, wanted=lambda level: True):
        """A number of a level, rather a late one."""
        found = [name for name in self.numbers if wanted(self.level[name])]
        late = found[-4:] if self.rng.random() < 0.5 else found
        return self.one(late or ["g"])

    def some(self):
        makers = {self.both: 7, self.alone: 2, self.quotient: 3, self.root: 1, self.choice: 1, self.mix: 2, self.place: 0.5,
                  self.over_tensor: 0.6, self.over_block: 5 * bool(self.blocks), self.over_unit: 2.5 * self.units}
        weights = np.array(list(makers.values()), float)
        return list(makers)[self.rng.choice(len(makers), p=weights / weights.sum())]

    def both(self):
        names = [name for name, share in TWO.items() for _ in range(share)]
        self.add(self.one(names), [self.pick(), self.pick()])

    def alone(self):
        self.add(self.one(ONE), [self.pick()])

    def quotient(self):
        """By what is away from 0, mostly."""
        below = self.pick()
        if self.rng.random() < 0.85:
            size = self.add("math.absf", [below], quiet=True)
            below = self.add("addf", [size, self.constant(self.one([1e-3, 0.1, 1.0]))], quiet=True)
        self.add("divf", [self.pick(), below])

    def root(self):
        self.add("math.sqrt", [self.add("math.absf", [self.pick()], quiet=True)])

    def choice(self):
        if not self.truths or self.rng.random() < 0.5:
            self.add("cmpf", [self.pick(), self.pick()], self.one(PREDICATES))
        self.add("select", [self.one(self.truths), self.pick(), self.pick()])

    def mix(self):
        """Between two numbers, by a number of the whole tensor."""
        weight = self.pick(lambda level: not level)
        self.add(self.one(["math.fma", "altgrad.lerp"]), [weight if not self.level[weight] else "v0", self.pick(), self.pick()])

    def place(self):
        """A share of 1 by the element's place, or by the extent of the tensor."""
        extent = self.rng.random() < 0.5
        word = "altgrad.dim " + self.one(["rows", "columns"]) if extent else "altgrad.index"
        self.add("place", [], word, set() if extent else {"element"})

    def reduce(self, over, kinds):
        level = {"tensor": set(), "unit": {"unit"}}.get(over, {over})
        operand = self.pick(lambda of: "element" in of or (over not in of and of and self.rng.random() < 0.4))
        result = self.add("reduce", [operand], f"{self.one(kinds)} over {over}", level)
        if self.rng.random() < 0.3:
            self.add("math.sqrt", [self.add("math.absf", [result], quiet=True)])

    def over_block(self):
        self.reduce(f"block<{self.one(self.blocks)}>", ["add", "sumsq", "sumsq", "max", "absmax", "absmax"])

    def over_unit(self):
        self.reduce("unit", ["add", "sumsq", "sumsq", "max", "absmax"])

    def over_tensor(self):
        self.reduce("tensor", ["add", "sumsq", "sumsq", "max", "absmax"])

    def end(self):
        update = self.pick()
        if self.rng.random() < 0.8:  # a bounded move
            size = self.add("addf", [self.add("math.absf", [update], quiet=True), self.constant(1.0)], quiet=True)
            share = self.add("divf", [update, size], quiet=True)
            update = self.add("subf", ["w", self.add("mulf", ["v0", share], quiet=True)], quiet=True)
        self.yields["w"] = update
        for state in self.states:
            self.yields[state] = self.pick() if self.rng.random() < 0.8 else self.add("altgrad.lerp", ["v0", state, self.pick()])
        for state in self.unit_states:
            self.yields[state] = self.pick(lambda level: level <= {"unit"})
            if not self.level[self.yields[state]] <= {"unit"}:
                self.yields[state] = state


def generate(seed):
    rng = np.random.default_rng([seed, 41])
    one = lambda choices: choices[int(rng.integers(len(choices)))]
    flags = list(one(CLIPS))
    flags += ["--unscale"] * bool(rng.random() < 0.15) + ["--statistics"] * bool(rng.random() < 0.25)
    spec = {"seed": seed, "steps": int(rng.integers(1, 4)), "flags": flags, "sets": []}
    for _ in range(2 if rng.random() < 0.15 else 1):
        spec["sets"].append(_set(rng, one, "--clip=agc-unit" in flags))
    return spec


def _set(rng, one, unit_clip):
    blocks = [f"1x{one(LENGTHS)}" for _ in range(int(rng.integers(0, 3)))]
    tile = one(TILES) if rng.random() < 0.6 else ""
    blocks += [tile] * bool(tile) * 2
    rule = Rule(rng, blocks, bool(rng.random() < 0.35))
    words = list(one(PARAMS)) + ["grad=" + one(["bf16", "f16"])] * bool(rng.random() < 0.4)
    for state in rule.states:
        form = one(PLAIN) if rng.random() < 0.7 else one(SCALED).format(one(LENGTHS))
        words += [f"{state}={form}"] * (form != "f32")
    if rng.random() < 0.2:
        words.append("copy=" + one(COPIES).format(one(LENGTHS)))
        if tile == "32x1" and "128x128" in words[-1] or tile == "128x128" and "both" in words[-1]:
            words.pop()  # one set has one height of tiles
    made = {key: getattr(rule, key) for key in ("hypers", "states", "unit_states", "statements", "yields")}
    return {**made, "words": words, "shapes": _shapes(rng, one, made, words, unit_clip)}


def multiple_of(made, words, unit_clip):
    """Of what the columns of a matrix must be a multiple: no block of neighbours may lie in two rows."""
    text = " ".join([*words, *(s[3] for s in made["statements"])])
    rows = made["unit_states"] or unit_clip or "unit" in text or "x1>" in text or "128x128" in text or "both" in text
    lengths = [n for n in LENGTHS if f":{n}" in text.replace(":128x128", "") or f"1x{n}>" in text]
    lengths += [32] * ("mxfp8" in text)
    return max(lengths, default=1) if rows else 1


def _shapes(rng, one, made, words, unit_clip):
    multiple, shapes = multiple_of(made, words, unit_clip), []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.25:
            shapes.append([1, int(one([1, 7, 31, 33, 128, 300, 1000, 4096, 5000]))])
            continue
        rows, columns = int(one([1, 3, 31, 32, 33, 64, 70, 127, 129, 200])), int(one([1, 5, 32, 60, 64, 128, 130, 256, 300]))
        shapes.append([rows, -(-columns // multiple) * multiple])
    return shapes + [[0, 64]] * bool(rng.random() < 0.1)


#===-- Text -------------------------------------------------------------------===#

def _line(statement):
    result, operation, operands, extra = statement
    args = ", ".join("%" + o for o in operands)
    if operation == "truncf":
        return f"%{result} = truncf {args} : f64 to f32"
    if operation == "constant":
        return f"%{result} = constant {extra} : f32"
    if operation == "altgrad.lerp":
        weight, start, end = operands
        return f"%{result} = altgrad.lerp %{start} to %{end} by %{weight} : f32"
    if operation == "reduce":
        kind, over = extra.split(" over ")
        return f"%{result} = altgrad.reduce {kind} {args} over {over} : f32"
    if operation == "cmpf":
        return f"%{result} = cmpf {extra}, {args} : f32"
    if operation == "place":
        return (f"%{result}i = {extra} : i64\n  %{result}m = constant 63 : i64\n  %{result}a = andi %{result}i, %{result}m : i64\n"
                f"  %{result}f = sitofp %{result}a : i64 to f32\n  %{result}s = constant 0.015625 : f32\n"
                f"  %{result} = mulf %{result}f, %{result}s : f32")
    return f"%{result} = {operation} {args} : f32"


def alive(one):
    """The statements that reach a result."""
    needed, kept = set(one["yields"].values()), []
    for statement in reversed(one["statements"]):
        if statement[0] in needed:
            needed.update(statement[2])
            kept.append(statement)
    return kept[::-1]


def words(one):
    """The storage line, without the states that stay as they are."""
    still = tuple(f"{name}=" for name, value in one["yields"].items() if value == name != "w")
    return [word for word in one["words"] if not word.startswith(still)]


def text(one, name="r"):
    arguments = ["param %w: f32", "grad %g: f32", *[f"state %{s}: f32" for s in one["states"]],
                 *[f"unit_state %{s}: f32" for s in one["unit_states"]], *[f"hyper %{h}: f64 = {v!r}" for h, v in one["hypers"]]]
    lines = ["  " + _line(s) for s in alive(one)]
    states = ", ".join("%" + one["yields"][s] for s in [*one["states"], *one["unit_states"]])
    return "\n".join([f"altgrad.rule @{name}({', '.join(arguments)}) {{", *lines,
                      f"  altgrad.yield param(%{one['yields']['w']}) state({states})", "}", ""])


#===-- Findings ---------------------------------------------------------------===#

def smaller(spec):
    """Specs with a set, a step, a flag, a word, a tensor, a statement or a state less."""
    def less(change):
        twin = copy.deepcopy(spec)
        change(twin)
        return twin
    for n in range(len(spec["sets"]) if len(spec["sets"]) > 1 else 0):
        yield less(lambda twin: twin["sets"].pop(n))
    if spec["steps"] > 1:
        yield less(lambda twin: twin.update(steps=1))
    for n in range(len(spec["flags"])):
        yield less(lambda twin: twin["flags"].pop(n))
    for k, one in enumerate(spec["sets"]):
        for n in range(len(one["words"])):
            yield less(lambda twin: twin["sets"][k]["words"].pop(n))
        for n in range(len(one["shapes"]) if len(one["shapes"]) > 1 else 0):
            yield less(lambda twin: twin["sets"][k]["shapes"].pop(n))
        for state in one["states"]:
            if not any(state in s[2] for s in alive(one)) and state not in one["yields"].values():
                yield less(lambda twin: _forget(twin["sets"][k], state))
        for name, value in one["yields"].items():
            for other in [name, "g", "w"] if value not in (name, "g", "w") else []:
                if other == name or name not in one["unit_states"]:
                    yield less(lambda twin: twin["sets"][k]["yields"].update({name: other}))
        for result, _, operands, _ in reversed(alive(one)):
            for operand in dict.fromkeys([*operands, "g"]):
                yield less(lambda twin: _replace(twin["sets"][k], result, operand))


def _forget(one, state):
    one["states"].remove(state)
    del one["yields"][state]
    one["words"] = [word for word in one["words"] if not word.startswith(state + "=")]


def _replace(one, old, new):
    one["statements"] = [[r, o, [new if x == old else x for x in operands], e] for r, o, operands, e in one["statements"]]
    one["yields"] = {name: new if value == old else value for name, value in one["yields"].items()}


def told(spec, words):
    """The whole finding in words: what to type, the rules and what went wrong."""
    texts = [f"--set=rule=r{n}.mlir {' '.join(one['words'])}, shapes {one['shapes']}\n{text(one, f'r{n}')}"
             for n, one in enumerate(spec["sets"])]
    return "\n".join([words, " ".join(spec["flags"]), *texts])
