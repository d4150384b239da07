"""Random well-typed rules as lists of statements: valid by construction, values kept meaningful."""

# Kinds of values: e element f32, b element i1, u scalar f32, d scalar f64, i scalar i64, c scalar i1.
TYPE = {"e": "f32", "b": "i1", "u": "f32", "d": "f64", "i": "i64", "c": "i1"}
PREDICATES = ["oeq", "ogt", "oge", "olt", "ole", "one", "ord", "ueq", "ugt", "uge", "ult", "ule",
              "une", "uno"]
INTEGER_PREDICATES = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]


class Rule:
    """`statements`: [result, kind, operation, operands, extra]; plain data, so that it can be shrunk."""

    def __init__(self, rng, name):
        self.rng, self.name = rng, name
        self.hypers = [[f"h{i}", round(float(rng.uniform(0.01, 0.99)), 3)]
                       for i in range(rng.integers(1, 5))]
        self.states = [f"s{i}" for i in range(rng.integers(0, 4))]
        self.options = [f"o{i}" for i in range(rng.integers(0, 3))]
        self.chosen = [o for o in self.options if rng.random() < 0.5]
        self.has_step = bool(rng.random() < 0.7)
        self.optional = [s for s in self.states if self.options and rng.random() < 0.3]
        self.statements, self.yields = [], []
        self.pool = {k: [] for k in TYPE}
        self.pool["e"] = ["w", "g", *[s for s in self.states if s not in self.optional]]
        self.pool["d"] = [h for h, _ in self.hypers]
        self.pool["i"] = ["t"] if self.has_step else []
        self.pool["c"] = list(self.options)
        self.reductions = 0
        self._body()

    #===-- Choosing ---------------------------------------------------------===#

    def pick(self, kind):
        """A value, rather a new one; a constant where there is none."""
        values = self.pool[kind]
        if not values or (kind in "udi" and self.rng.random() < 0.15):
            return self.constant(kind)
        if self.rng.random() < 0.6:
            values = values[-4:]
        return values[self.rng.integers(len(values))]

    def either(self):
        """An operand beside an element: an element or a scalar."""
        return self.pick("e" if self.rng.random() < 0.7 else "u")

    def add(self, kind, operation, operands, extra="", quiet=False):
        result = f"v{len(self.statements)}"
        self.statements.append([result, kind, operation, list(operands), extra])
        if not quiet:
            self.pool[kind].append(result)
        return result

    def constant(self, kind, value=None, quiet=False):
        if value is None:
            value = {"i": lambda: int(self.rng.integers(-3, 12)),
                     "c": lambda: str(bool(self.rng.random() < 0.5)).lower(),
                     "b": lambda: "true"}.get(
                kind, lambda: round(float(self.rng.choice([0.5, 1, -1, 0.1, 1e-3, 2, 3.7])), 4))()
        text = str(value)
        if kind in "eud":  # MLIR wants a point
            text = repr(float(value)).replace("e", ".0e")
        return self.add(kind if kind != "b" else "c", "constant", [], text, quiet)

    #===-- Statements -------------------------------------------------------===#

    def _element(self):
        r = self.rng.random()
        if r < 0.3:
            operands = [self.pick("e"), self.either()]
            if self.rng.random() < 0.3:
                operands.reverse()
            name = self.rng.choice(["addf", "subf", "mulf", "minimumf", "maximumf"])
            return self.add("e", str(name), operands)
        if r < 0.5:
            small = self._damped()
            return self.add("e", "math.fma" if r < 0.45 else "altgrad.lerp", [small, self.pick("e"), self.either()])
        if r < 0.6:
            return self.add("e", str(self.rng.choice(["negf", "math.absf", "math.floor"])), [self.pick("e")])
        if r < 0.7:
            size = self.pick("e")
            if self.rng.random() < 0.8:
                size = self.add("e", "math.absf", [size], quiet=True)
            return self.add("e", "math.sqrt", [size])
        if r < 0.82:
            return self._quotient()
        if r < 0.9:
            condition = self._condition()  # an option that took a scalar would leave no element
            other = self.either() if condition == "b" else self.pick("e")
            return self.add("e", "select", [self.pick(condition), self.pick("e"), other])
        return self._signed()

    def _damped(self):
        """A scalar between -1 and 1, mostly."""
        if self.rng.random() < 0.6:
            wide = self.pool["d"][self.rng.integers(len(self.hypers))]
            return self.add("u", "truncf", [wide])
        return self.pick("u")

    def _quotient(self):
        below = self.either()
        if self.rng.random() < 0.9:
            kind = "e" if self._kind(below) == "e" else "u"
            size = self.add(kind, "math.absf", [below], quiet=True)
            some = self.constant("u", self.rng.choice([1e-8, 1e-3, 1.0]), quiet=True)
            below = self.add(kind, "addf", [size, some], quiet=True)
        return self.add("e", "divf", [self.pick("e"), below])

    def _signed(self):
        """The sign of a NaN counts as positive."""
        return self.add("e", "math.copysign", [self.either(), self.pick("e")])

    def _kind(self, name):
        return next(k for r, k, *_ in [*self.statements, *[[n, "e"] for n in ["w", "g", *self.states]]]
                    if r == name)

    def _condition(self):
        return "b" if self.pool["b"] and self.rng.random() < 0.7 else "c"

    def _element_truth(self):
        if self.pool["b"] and self.rng.random() < 0.25:
            other = self.pick(self._condition())
            return self.add("b", str(self.rng.choice(["andi", "ori", "xori"])),
                            [self.pick("b"), other])
        return self.add("b", "cmpf", [self.pick("e"), self.either()],
                        str(self.rng.choice(PREDICATES)))

    def _scalar(self):
        r = self.rng.random()
        if r < 0.6:
            return self.add("u", "truncf", [self.pick("d")])
        if r < 0.7:
            size = self.add("u", "math.absf", [self.pick("u")], quiet=True)
            return self.add("u", "math.sqrt", [size])
        name = self.rng.choice(["addf", "subf", "mulf", "minimumf", "maximumf", "divf"])
        return self.add("u", str(name), [self.pick("u"), self.pick("u")])

    def _wide(self):
        r = self.rng.random()
        if r < 0.4:
            name = self.rng.choice(["addf", "subf", "mulf", "minimumf", "maximumf", "divf"])
            return self.add("d", str(name), [self.pick("d"), self.pick("d")])
        if r < 0.6 and self.pool["i"]:
            return self.add("d", "math.fpowi", [self.hypers[0][0], self.pick("i")], "f64, i64")
        if r < 0.7:
            size = self.add("d", "math.absf", [self.pick("d")], quiet=True)
            return self.add("d", "math.sqrt", [size])
        if r < 0.78:
            return self.add("d", "math.fma", [self.pick("d"), self.pick("d"), self.pick("d")])
        if r < 0.85:
            return self.add("d", "extf", [self.pick("u")])
        if r < 0.92:
            return self.add("d", "sitofp", [self.pick("i")])
        return self._function()

    def _function(self):
        """exp and log, a few ulp from any reference: only what f32 keeps of them goes on."""
        size = self.add("d", "math.absf", [self.hypers[-1][0]], quiet=True)
        some = self.constant("d", 0.25, quiet=True)
        safe = self.add("d", "addf", [size, some], quiet=True)
        name = str(self.rng.choice(["math.exp", "math.log"]))
        return self.add("u", "truncf", [self.add("d", name, [safe], quiet=True)])

    def _integer(self):
        if self.rng.random() < 0.3:
            return self._rounded()
        name = str(self.rng.choice(["addi", "subi", "muli"]))
        small = self.constant("i", quiet=True)
        return self.add("i", name, [self.pool["i"][0] if self.pool["i"] else self.constant("i"),
                                    small])

    def _rounded(self):
        """fptosi promises nothing beyond i64 and for a NaN."""
        wide = self.pick("d")
        zero = self.constant("d", 0, quiet=True)
        number = self.add("c", "cmpf", [wide, wide], "ord", quiet=True)
        wide = self.add("d", "select", [number, wide, zero], quiet=True)
        for name, bound in (("minimumf", 100), ("maximumf", -100)):
            wide = self.add("d", name, [wide, self.constant("d", bound, quiet=True)], quiet=True)
        return self.add("i", "fptosi", [wide])

    def _truth(self):
        r = self.rng.random()
        if r < 0.4 or not self.pool["i"]:
            return self.add("c", "cmpf", [self.pick("d"), self.pick("d")],
                            str(self.rng.choice(PREDICATES)))
        if r < 0.7:
            return self.add("c", "cmpi", [self.pick("i"), self.pick("i")],
                            str(self.rng.choice(INTEGER_PREDICATES)))
        return self.add("c", str(self.rng.choice(["andi", "ori", "xori"])),
                        [self.pick("c"), self.pick("c")])

    def _reduction(self):
        if self.reductions == 4:
            return self._element()
        self.reductions += 1
        if self.pool["b"] and self.rng.random() < 0.2:
            return self.add("c", "reduce", [self.pick("b")], "and")
        kind = str(self.rng.choice(["add", "sumsq", "max", "sumsq"]))
        result = self.add("u", "reduce", [self.pick("e")], kind)
        return self.add("u", "math.sqrt", [result]) if kind == "sumsq" else result

    #===-- The whole --------------------------------------------------------===#

    def _body(self):
        makers = [(self._element, 10), (self._element_truth, 2), (self._scalar, 3), (self._wide, 3),
                  (self._integer, 1), (self._truth, 1),
                  (self._reduction, float(self.rng.choice([0, 0, 1, 2])))]
        weights = [w for _, w in makers]
        total = sum(weights)
        for _ in range(self.rng.integers(3, 30)):
            index = self.rng.choice(len(makers), p=[w / total for w in weights])
            makers[index][0]()
        self._yield()

    def _yield(self):
        """Each state moves a part of the way; an optional one only when its option is on."""
        update = self.pick("e")
        for state in self.states:
            rate = self._damped()
            moved = self.add("e", "math.fma", [rate, self.pick("e"), state], quiet=True)
            if state in self.optional:
                option = self.options[self.rng.integers(len(self.options))]
                kept = self.add("e", "select", [option, moved, state], quiet=True)
                update = self.add("e", "select", [option, moved, update], quiet=True)
                self.yields.append(kept)
            elif self.rng.random() < 0.04:
                self.yields.append(rate)  # the same for all elements
            else:
                self.yields.append(moved)
        rate = self._damped()
        self.yields.insert(0, self.add("e", "math.fma", [rate, update, "w"], quiet=True))


def plain(rule):
    """The rule as JSON data."""
    return {key: getattr(rule, key) for key in ("name", "hypers", "states", "options", "chosen",
                                                "has_step", "statements", "yields")}


def stored(rule):
    """The states kept under the chosen options."""
    by_name = {s[0]: s for s in rule["statements"]}
    kept = []
    for state, value in zip(rule["states"], rule["yields"][1:]):
        while value in by_name and by_name[value][2] == "select" and \
                by_name[value][3][0] in rule["options"]:
            taken = by_name[value][3][0] in rule["chosen"]
            value = by_name[value][3][1 if taken else 2]
        if value != state:
            kept.append(state)
    return kept


def _line(rule, statement):
    result, kind, operation, operands, extra = statement
    kinds = {s[0]: s[1] for s in rule["statements"]}
    kinds.update({n: "e" for n in ["w", "g", *rule["states"]]}, t="i")
    kinds.update({h: "d" for h, _ in rule["hypers"]}, **{o: "c" for o in rule["options"]})
    types = [TYPE[kinds[o]] for o in operands]
    args = ", ".join("%" + o for o in operands)
    if operation == "constant":
        return f"%{result} = constant {extra}" + ("" if kind == "c" else f" : {TYPE[kind]}")
    if operation == "altgrad.lerp":
        weight, start, end = operands
        return f"%{result} = altgrad.lerp %{start} to %{end} by %{weight} : f32"
    if operation == "reduce":
        return f"%{result} = altgrad.reduce {extra} {args} over tensor : {types[0]}"
    if operation in ("cmpf", "cmpi"):
        return f"%{result} = {operation} {extra}, {args} : {types[0]}"
    if operation in ("truncf", "extf", "sitofp", "fptosi"):
        return f"%{result} = {operation} {args} : {types[0]} to {TYPE[kind]}"
    return f"%{result} = {operation} {args} : {extra or TYPE[kind]}"


def text(rule):
    arguments = ["param %w: f32", "grad %g: f32", *[f"state %{s}: f32" for s in rule["states"]],
                 *[f"hyper %{h}: f64 = {v!r}" for h, v in rule["hypers"]],
                 *(["step %t: i64"] if rule["has_step"] else []),
                 *[f"option %{o}: i1 = false" for o in rule["options"]]]
    lines = ["  " + _line(rule, s) for s in rule["statements"]]
    states = ", ".join("%" + y for y in rule["yields"][1:])
    return (f"altgrad.rule @{rule['name']}({', '.join(arguments)}) {{\n" + "\n".join(lines)
            + f"\n  altgrad.yield param(%{rule['yields'][0]}) state({states})\n}}\n")
