"""Random rules over elements, rows, columns and tensors, beside the same arithmetic in float64.

    python tests/soak/columns.py [RULES] [FILE]   compares with float64, and writes the bits to FILE
    python tests/soak/columns.py RULES FILE --same   compares with the bits in FILE, which another device wrote
"""

import pickle
import random
import sys

import numpy as np
import torch

import altgrad

SHAPES = [(5, 7), (33, 20), (1, 9), (40, 1), (3, 4, 5), (65, 130), (11,), ()]
STATES = {"r": "row", "c": "column", "m": "element"}
UNARY = {"sqrt(abs({}) + 1)": lambda x: np.sqrt(np.abs(x) + 1), "({} * 0.5)": lambda x: x * 0.5, "abs({})": np.abs}
BINARY = {"({} + {})": np.add, "({} - {})": np.subtract, "maximum({}, {})": np.maximum, "minimum({}, {})": np.minimum,
          "({} / (1 + abs({})))": lambda x, y: x / (1 + np.abs(y)), "(0.25 * {} * {})": lambda x, y: 0.25 * x * y}
OVER = {"row": 1, "column": 0, "tensor": (0, 1)}
SUMS = {"mean": np.mean, "max": np.max, "absmax": lambda x, **k: np.abs(x).max(**k), "rms": lambda x, **k: np.sqrt(np.mean(x * x, **k))}


def joined(one, other):
    return one if one == other or other == "tensor" else other if one == "tensor" else "element"


class Drawn:
    """A rule of some lines: `text`, and what each line computes of the values before it."""

    def __init__(self, seed):
        self.draw, self.lines, self.steps = random.Random(seed), [], []
        self.kinds = {"w": "element", "g": "element", **STATES}
        for number in range(self.draw.randint(4, 9)):
            self.add(f"x{number}")
        for name, kind in {**STATES, "w": "element"}.items():
            self.close(name, kind)
        self.text = "\n".join(["rule drawn(param w, grad g, row r, column c, state m, lr = 0.1)", *self.lines])

    def any(self, *kinds):
        return self.draw.choice([name for name, kind in self.kinds.items() if not kinds or kind in kinds])

    def write(self, name, words, compute, operands, kind):
        self.lines.append(f"  {name} = {words}")
        self.steps.append((name, compute, operands))
        self.kinds[name] = kind

    def add(self, name):
        way = self.draw.random()
        if way < 0.45:
            words, compute = self.draw.choice(list(BINARY.items()))
            one, other = self.any(), self.any()
            self.write(name, words.format(one, other), compute, (one, other), joined(self.kinds[one], self.kinds[other]))
        elif way < 0.6:
            words, compute = self.draw.choice(list(UNARY.items()))
            one = self.any()
            self.write(name, words.format(one), compute, (one,), self.kinds[one])
        elif way < 0.7:
            one = self.any("row")
            self.write(name, f"mean({one} * 1.5 over tensor)", lambda x: np.mean(x * 1.5, axis=(0, 1), keepdims=True), (one,), "tensor")
        else:
            (over, axis), (how, compute) = self.draw.choice(list(OVER.items())), self.draw.choice(list(SUMS.items()))
            one = self.any("element")
            self.write(name, f"{how}({one} over {over})", lambda x: compute(x, axis=axis, keepdims=True), (one,), over)

    def close(self, name, kind):
        """The new value of a state, or of the parameter."""
        value = self.any(kind, "element") if kind != "element" else self.any("element")
        words, compute = (value, lambda old, x: 0.5 * old + 0.5 * x) if self.kinds[value] == kind else (
            f"mean({value} over {kind})", lambda old, x: 0.5 * old + 0.5 * x.mean(axis=OVER[kind], keepdims=True))
        self.write(name, f"0.5 * {name} + 0.5 * {words}", compute, (name, value), kind)

    def step(self, values):
        for name, compute, operands in self.steps:
            values[name] = compute(*[values[operand] for operand in operands])


def run(seed):
    """(the bits of two steps, the largest error of an element, as a part of its tensor's largest number)."""
    torch.manual_seed(seed)
    drawn, worst, bits = Drawn(seed), 0.0, []
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    optimizer = altgrad.optim.FromRule(drawn.text)(params)
    wholes = []
    for param in params:
        w = param.detach().double().numpy().reshape(-1, param.shape[-1] if param.dim() else 1)
        wholes.append({"w": w, "r": np.zeros((len(w), 1)), "c": np.zeros((1, w.shape[1])), "m": np.zeros(w.shape)})
    for _ in range(2):
        for param, whole in zip(params, wholes):
            param.grad = torch.randn(param.shape)
            whole["g"] = param.grad.double().numpy().reshape(whole["w"].shape)
            drawn.step(whole)
        optimizer.step()
    for param, whole in zip(params, wholes):
        for name in ("w", *STATES):
            found = (param.detach() if name == "w" else optimizer.state[param][name]).numpy()
            bits.append(found.tobytes())
            size = max(np.abs(whole[name]).max(), 1e-3)
            error = np.abs(found.astype(np.float64).reshape(whole[name].shape) - whole[name]).max() / size
            worst = max(worst, error if np.isfinite(error) else np.inf)
    return bits, worst, drawn.text


def main():
    count, path = int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2] if len(sys.argv) > 2 else None
    known = pickle.load(open(path, "rb")) if "--same" in sys.argv else None
    found, most, bad = [], 0.0, 0
    for seed in range(count):
        bits, worst, text = run(seed)
        found.append(bits)
        most = max(most, worst)
        if worst > 1e-4 or (known and known[seed] != bits):
            bad += 1
            print(f"seed {seed}: error {worst:.1e}, bits {'differ' if known and known[seed] != bits else 'not compared'}\n{text}")
    if path and not known:
        pickle.dump(found, open(path, "wb"))
    print(f"{count} rules, the largest error {most:.1e}, {bad} wrong")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
