"""Random steps around random rules: formats, modes, several lists, statistics; and their text."""

import numpy as np

import randomrule

NAMED = ["f32", "bf16", "f16", "ocp.e4m3fn", "ocp.e5m2"]
ODD = ["#altgrad.format<exponent = 3, mantissa = 4, bias = 3, inf = false, nan = none>",
       "#altgrad.format<exponent = 2, mantissa = 5, bias = 1, inf = false, nan = none>",
       "#altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = false, nan = none>",
       "#altgrad.format<exponent = 6, mantissa = 1, bias = 31, inf = false, nan = none>",
       "#altgrad.format<exponent = 4, mantissa = 3, bias = 7, inf = true, nan = ieee>",
       "#altgrad.format<exponent = 3, mantissa = 12, bias = 3, inf = false, nan = none>",
       "#altgrad.format<exponent = 6, mantissa = 9, bias = 31, inf = true, nan = ieee>",
       "#altgrad.format<exponent = 7, mantissa = 8, bias = 63, inf = false, nan = all_ones>"]
MODES = ["plain", "plain", "clip", "unscale", "both", "twice", "skip", "norm_skip", "young"]
STATISTICS = ["", "", "", "add", "sumsq", "max", "moved", "all", "wide"]


def generate(seed):
    """A spec as JSON data; the same seed, the same spec."""
    rng = np.random.default_rng([seed, 7])
    lists = 2 if rng.random() < 0.2 else 1
    spec = {"seed": seed, "mode": str(rng.choice(MODES)), "lists": [],
            "groups": int(rng.integers(1, 4)), "steps": int(rng.integers(1, 4)),
            "statistic": str(rng.choice(STATISTICS)),
            "sizes": _sizes(rng), "apart": lists == 2 and seed % 2 == 0}
    for n in range(lists):
        rule = randomrule.plain(randomrule.Rule(rng, f"r{n}"))
        stored = randomrule.stored(rule)
        spec["lists"].append({
            "rule": rule, "grad": _format(rng), "param": _format(rng),
            "states": {s: _format(rng) for s in stored},
            "copies": [_format(rng) for _ in range(int(rng.choice([0, 0, 1, 2])))],
            "master": bool(rng.random() < 0.4),
            "always": [s for s in [*stored, "w", "t", "master"] if rng.random() < 0.1],
            "keep_grad": _format(rng) if rng.random() < 0.15 else "",
            "clock": str(rng.choice(["i64", "i64", "f32"]))})
    return spec


def _format(rng):
    r = rng.random()
    if r < 0.4:
        return "f32"
    return str(rng.choice(NAMED if r < 0.9 else ODD))


def _sizes(rng):
    near = [1, 8, 16, 32, 128, 256, 1024, 4096, 8192]
    some = [max(0, int(rng.choice(near)) + int(rng.integers(-3, 4))) for _ in range(4)]
    return [0, int(rng.integers(1, 40)), *some[:int(rng.integers(1, 4))],
            int(rng.integers(1, 6000))]


class Writer:
    """The text of a spec's step."""

    def __init__(self, spec):
        self.spec, self.signature, self.body = spec, [], []
        self.always, self.allowed = [], []
        self.several = len(spec["lists"]) > 1

    def line(self, text):
        self.body.append("  " + text)

    def tensors(self, form):
        return f"!altgrad.tensors<{form}>"

    def declare(self, n, access, name, form):
        """An argument for tensors of list n; lists may have different tensors."""
        apart = " set 1" if n and self.spec.get("apart") else ""
        self.signature.append(f"{access} %{name}: {self.tensors(form)}{apart}")

    def write(self, text, always):
        (self.always if always else self.allowed).append(text)

    def store(self, value, target, form, always=False):
        if form == "f32":
            self.write(f"%{value} to %{target} : {self.tensors(form)}", always)
            return
        overflow = "saturate" if "ocp" in form or "nan = none" in form else "nonfinite"
        self.line(f"%{target}_code = quantize %{value} round<nearest_even> overflow<{overflow}> : "
                  f"{self.tensors(form)}")
        self.write(f"%{target}_code to %{target} : {self.tensors(form)}", always)

    def gradients(self):
        """Per list the name of its gradient as the rule sees it, and the condition."""
        mode, names, conditions = self.spec["mode"], [], []
        if mode in ("unscale", "both"):
            self.signature.append("in %inv_scale: f32")
        for n, one in enumerate(self.spec["lists"]):
            self.declare(n, "in", f"grad{n}", one["grad"])
            if mode in ("unscale", "both"):
                self.line(f"%g{n}, %finite{n} = unscale %grad{n} by %inv_scale : "
                          f"{self.tensors(one['grad'])}")
                conditions.append(f"finite{n}")
            else:
                self.line(f"%g{n} = dequantize %grad{n} : {self.tensors(one['grad'])}")
            names.append(f"g{n}")
        if mode in ("clip", "both", "norm_skip"):
            names = self.clip(names)
        if mode == "twice":
            names = self.clip(self.clip(names), "_again")
        for n, (name, one) in enumerate(zip(names, self.spec["lists"])):
            if one["keep_grad"]:
                self.declare(n, "out", f"{name}_kept", one["keep_grad"])
                self.store(name, f"{name}_kept", one["keep_grad"], always=True)
        return names, self.condition(conditions)

    def clip(self, names, again=""):
        self.signature += [f"in %max_norm{again}: f32", f"out %norm{again}: f32"]
        clipped = [n + "c" for n in names]
        self.line(", ".join("%" + c for c in clipped) + f", %total{again} = clip_by_global_norm "
                  + ", ".join("%" + n for n in names) + f" to %max_norm{again}")
        self.always.append(f"%total{again} to %norm{again} : f32")
        return clipped

    def condition(self, conditions):
        mode = self.spec["mode"]
        if mode == "skip":
            self.signature.append("in %found_inf: f32")
            self.line("%none = arith.constant 0.0 : f32")
            self.line("%proceed = arith.cmpf oeq, %found_inf, %none : f32")
            return "proceed"
        if mode == "norm_skip":
            self.line("%bound = arith.constant 1.0e4 : f32")
            self.line("%proceed = arith.cmpf olt, %total, %bound : f32")
            return "proceed"
        if mode == "young":
            self.signature.append("in %age: i64 per_tensor")
            self.line("%limit = arith.constant 5 : i64")
            self.line("%proceed = arith.cmpi slt, %age, %limit : i64")
            return "proceed"
        if len(conditions) == 2:
            self.line(f"%proceed = arith.andi %{conditions[0]}, %{conditions[1]} : i1")
            return "proceed"
        return conditions[0] if conditions else ""

    def clock(self, n, one):
        if not one["rule"]["has_step"]:
            return ""
        kind = one["clock"]
        self.signature.append(f"inout %t{n}: {kind} per_tensor")
        self.line(f"%one{n} = arith.constant {'1' if kind == 'i64' else '1.0'} : {kind}")
        self.line(f"%next{n} = arith.{'addi' if kind == 'i64' else 'addf'} %t{n}, %one{n} : {kind}")
        self.write(f"%next{n} to %t{n} : {kind}", "t" in one["always"])
        if self.spec["seed"] % 5 == 0:  # the old count lives on
            self.signature.append(f"out %was{n}: {kind} per_tensor")
            self.write(f"%t{n} to %was{n} : {kind}", self.spec["seed"] % 2)
        used = f"t{n}" if self.spec["seed"] % 3 == 0 else f"next{n}"
        if kind == "i64":
            return f" step(%{used})"
        self.line(f"%count{n} = arith.fptosi %{used} : f32 to i64")
        return f" step(%count{n})"

    def update(self, n, one, gradient):
        rule = one["rule"]
        source = f"master{n}" if one["master"] else f"w{n}"
        form = "f32" if one["master"] else one["param"]
        self.declare(n, "out" if one["master"] else "inout", f"w{n}", one["param"])
        if one["master"]:
            self.declare(n, "inout", f"master{n}", "f32")
        self.line(f"%w{n}_old = dequantize %{source} : {self.tensors(form)}")
        olds, news = [], [f"%w{n}_new"]
        for state, kind in one["states"].items():
            self.declare(n, "inout", f"{state}_{n}", kind)
            self.line(f"%{state}_{n}_old = dequantize %{state}_{n} : {self.tensors(kind)}")
            olds.append(f"%{state}_{n}_old")
            news.append(f"%{state}_{n}_new")
        hypers = []
        for hyper, _ in rule["hypers"]:
            self.signature.append(f"in %{hyper}_{n}: f64 per_group")
            hypers.append(f"%{hyper}_{n}")
        options = " {" + ", ".join(rule["chosen"]) + "}" if rule["chosen"] else ""
        self.line(f"{', '.join(news)} = update @{rule['name']}{options} param(%w{n}_old) "
                  f"grad(%{gradient}) state({', '.join(olds)}) hyper({', '.join(hypers)})"
                  + self.clock(n, one))
        always = one["always"]
        self.store(f"w{n}_new", f"w{n}", one["param"], "w" in always)
        if one["master"]:
            self.store(f"w{n}_new", f"master{n}", "f32", "master" in always)
        for i, kind in enumerate(one["copies"]):
            self.declare(n, "out", f"copy{n}{i}", kind)
            self.store(f"w{n}_new", f"copy{n}{i}", kind)
        for state, kind in one["states"].items():
            self.store(f"{state}_{n}_new", f"{state}_{n}", kind, state in always)

    def statistic(self):
        kind = self.spec["statistic"]
        if not kind:
            return
        self.signature.append(f"out %stat: {'f64' if kind == 'wide' else 'f32'}")
        self.line("%news = element %w0_new")
        value = "news"
        if kind == "moved":
            self.line("%olds = element %w0_old")
            self.line("%moved = arith.subf %news, %olds : f32")
            value, kind = "moved", "sumsq"
        if kind == "all":
            self.line("%big = arith.constant 1.0e3 : f32")
            self.line("%none_big = arith.constant 0.0 : f32")
            self.line("%fits = arith.cmpf olt, %news, %big : f32")
            self.line("%every = reduce and %fits over step : i1")
            self.line("%stats = arith.select %every, %big, %none_big : f32")
        else:
            folded = "add" if kind == "wide" else kind
            self.line(f"%stats = reduce {folded} %{value} over step : f32")
        if kind == "wide":
            self.line("%stats64 = arith.extf %stats : f32 to f64")
            self.line("%stats_root = math.sqrt %stats64 : f64")
            self.always.append("%stats_root to %stat : f64")
        else:
            self.always.append("%stats to %stat : f32")

    def text(self):
        names, condition = self.gradients()
        for n, one in enumerate(self.spec["lists"]):
            self.update(n, one, names[n])
        self.statistic()
        if not condition:
            self.always, self.allowed = self.always + self.allowed, []
        commit = "  commit"
        if self.always:
            commit += " always\n      " + ",\n      ".join(self.always)
        if self.allowed:
            commit += f"\n      if %{condition}\n      " + ",\n      ".join(self.allowed)
        return (f"altgrad.step @s({', '.join(self.signature)}) {{\n" + "\n".join(self.body) + "\n"
                + commit + "\n}\n")


def text(spec):
    rules = "".join(randomrule.text(one["rule"]) for one in spec["lists"])
    return rules + Writer(spec).text()
