"""Random formulas give the same operations in Python and in short text, roundings and order among them."""

import os
import random
import re
import subprocess

import altgrad.language as ag

PROGRAM = os.environ.get("ALTGRAD_OPT", "altgrad-opt")
BLOCK, ELEMENT, NUMBER, UNIT = "block<1x32>", "element", "number", "unit"
# A formula in both forms: what stands for {0}, {1} ... is made first.
SAME = ["{0} + {1}", "{0} - {1}", "{0} * {1}", "{0} / {1}", "-{0}"]
CALLS = ["sqrt({0})", "abs({0})", "floor({0})", "sign({0})", "minimum({0}, {1})", "maximum({0}, {1})", "clamp({0}, {1}, {2})",
         "copysign({0}, {1})", "fma({0}, {1}, {2})", "lerp({0}, {1}, {2})"]
POWERS = {ELEMENT: ["2", "3", "4", "0.5", "0.25", "1.5", "-0.5", "-1"], NUMBER: ["2", "-3", "0.5", "0.3", "t", "lr"]}
POWERS[UNIT] = POWERS[NUMBER]
BELOW = {NUMBER: [NUMBER], UNIT: [NUMBER, UNIT], ELEMENT: [NUMBER, UNIT, ELEMENT]}
KINDS = ["sum", "mean", "max", "min", "norm"]


class Expressions:
    """Pairs of (Python, short text) with what the expression is one of."""

    def __init__(self, seed):
        self.draw = random.Random(seed)

    def leaf(self, of):
        names = {ELEMENT: ["w", "g", "m"], UNIT: ["s"], NUMBER: ["lr", "beta", "t", "1", "2", "0.5", "3.25e-3", "ROWS"]}[of]
        name = self.draw.choice(names)
        return ("ag.rows", "rows") if name == "ROWS" else (name, name)

    def number(self, depth):
        """One that is no constant, as Python folds those and may divide by 0."""
        python, short = self.make(NUMBER, depth)
        return f"(lr * {python})", f"(lr * {short})"

    def beside(self, of, depth):
        """What may meet one of these."""
        kind = self.draw.choice(BELOW[of])
        return self.number(depth) if kind == NUMBER else self.make(kind, depth)

    def condition(self, of, depth):
        # A number on the left would be turned around by Python.
        left, b = {NUMBER: "lr", UNIT: "s", ELEMENT: "g"}[of], self.number(depth)
        a = [f"({left} + {one})" for one in self.make(of, depth)]
        sign = self.draw.choice(["<", "<=", ">", ">=", "==", "!="])
        python, short = f"({a[0]} {sign} {b[0]})", f"({a[1]} {sign} {b[1]})"
        if depth and self.draw.random() < 0.3:
            c, (word, symbol) = self.condition(of, depth - 1), self.draw.choice([("and", "&"), ("or", "|")])
            return f"({python} {symbol} ~{c[0]})", f"({short} {word} not {c[1]})"
        return python, short

    def make(self, of, depth):
        if depth == 0 or self.draw.random() < 0.15:
            return self.leaf(of)
        operands = [self.make(of, depth - 1), *(self.beside(of, depth - 1) for _ in range(2))]
        self.draw.shuffle(operands)
        (a, b, c), (x, y, z) = zip(*operands)
        what = self.draw.choice(["same", "same", "call", "power", "choose", "reduce", "below"])
        if what == "same":
            # 0 / 0 of two written numbers is a mistake, so one of them is none.
            formula = self.draw.choice(SAME)
            first = self.number(0) if of == NUMBER else (a, x)
            return f"({formula.format(first[0], b)})", f"({formula.format(first[1], y)})"
        if what == "call":
            call = self.draw.choice(CALLS)
            return "ag." + call.format(a, b, c), call.format(x, y, z)
        if what == "power":
            base = (f"(w + {a})", f"(w + {x})") if of == ELEMENT else self.number(depth - 1)
            exponent = self.draw.choice(POWERS[of])
            return f"(({base[0]}) ** {exponent})", f"(({base[1]})^{exponent})"
        if what == "choose":
            p, s = self.condition(of, depth - 1)
            return f"ag.where({p}, {a}, {b})", f"where({s}, {x}, {y})"
        if what == "reduce":
            p, s = self.make(ELEMENT, depth - 1)
            kind, over = self.draw.choice(KINDS), {ELEMENT: BLOCK, UNIT: "unit", NUMBER: "tensor"}[of]
            return f'({p} + 0.0 * w).{kind}("{over}")', f"{kind}({s} + 0.0 * w over {over})"
        number = self.number(depth - 1)
        function = self.draw.choice(["exp", "log"])
        if of == NUMBER:
            return f"ag.{function}({number[0]})", f"{function}({number[1]})"
        return f"({a} * ({number[0]} % 3))", f"({x} * ({number[1]} % 3))"


def rules(count):
    """The texts of `count` rules in both forms."""
    long, short = [], []
    for seed in range(count):
        make = Expressions(seed)
        w, m, s = make.make(ELEMENT, 4), make.make(ELEMENT, 3), make.make(UNIT, 3)
        scope = {"ag": ag}
        exec(f"def rule{seed}(w: ag.Param, g: ag.Grad, m: ag.State, s: ag.Unit, t: ag.Step, *, lr=1e-3, beta=0.9):\n"
             f"    m = m + {m[0]}\n    s = s * {s[0]}\n    return w - {w[0]}, dict(m=m, s=s)\n", scope)
        long.append(ag.rule(scope[f"rule{seed}"]).text)
        short.append(f"rule rule{seed}(param w, grad g, state m, unit s, step t, lr = 1e-3, beta = 0.9)\n"
                     f"  m = m + {m[1]}\n  s = s * {s[1]}\n  w = w - {w[1]}\n")
    return long, short


def operations(texts, file):
    """The operations of each rule, values by the order in which they are made."""
    file.write_text("\n".join(texts))
    done = subprocess.run([PROGRAM, "--print-rule", str(file)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
    made = []
    for text in done.stdout.split("altgrad.rule ")[1:]:
        names = {}
        for name in re.findall(r"^ +(%\w+) = ", text, re.MULTILINE):
            names[name] = f"%{len(names)}:"
        made.append(re.sub(r"%\w+", lambda name: names.get(name[0], name[0]), text))
    return made


def test_a_hundred_of_them(tmp_path):
    long, short = rules(100)
    for text, a, b in zip(short, operations(long, tmp_path / "long.mlir"), operations(short, tmp_path / "short.mlir"), strict=True):
        assert a == b, text
