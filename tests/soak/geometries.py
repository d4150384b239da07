"""Random rules over elements, rows, columns, units, tensors and the step, in random storages, beside NumPy: tools/soak.sh geometries.

    python tests/soak/geometries.py [RULES] [FILE] [--seed N]   compares with NumPy, and writes the bits to FILE
    python tests/soak/geometries.py RULES FILE [--seed N] --same   compares the bits with those in FILE, which another device wrote

A rule is refused at a line, or its steps are what geometryrule computes, each from what the step before has left: within a few
units of float32 where sums have a part in a number, and within one of the format in which it is stored.
"""

import argparse
import collections
import hashlib
import json
import pathlib
import re
import sys
import warnings

import geometryrule  # which knows where formats are
import formats
import numpy as np
import torch

import altgrad

SHAPES = [(5, 7), (33, 20), (1, 9), (40, 1), (3, 4, 5), (65, 130), (11,), ()]
WIDE = [(4, 128), (33, 256), (128,)]  # where blocks lie within rows
DTYPES = [[torch.float32], [torch.float32], [torch.bfloat16], [torch.float32, torch.bfloat16, torch.float16]]
# How far a stored number may be from what it stands for: a share of it, and a number, or of codes with scales the largest number
# times that.
UNITS = {"bf16": (2.0**-8, 0), "f16": (2.0**-11, 2.0**-25), "ocp.e5m2": (2.0**-3, 2.0**-17), "ocp.e4m3fn": (2.0**-4, 2.0**-17),
         "bnb8": (2.0**-4, 2.0**-7)}


def numbers(tensor):
    return tensor.detach().float().numpy()


def matrix(x, shape):
    """A tensor as one matrix, whose columns are the last dimension."""
    return x.reshape(-1, shape[-1] if len(shape) else 1)


def unit_of(word):
    share, least = UNITS.get(word.partition(":")[0].split(",")[0], (0, 0))
    return (2 if "stochastic" in word else 1) * share, least


class Run:
    """The optimizer of a drawn rule, and what it has left."""

    def __init__(self, seed):
        self.drawn = geometryrule.Drawn(seed)
        torch.manual_seed(seed)
        self.words = dict(word.split("=") for word in self.drawn.storage.split())
        shapes = WIDE if any(":" in word for word in self.words.values()) else SHAPES
        if "u" in self.drawn.states:  # a unit is an index of dimension 0
            shapes = [shape for shape in shapes if len(shape) < 3]
        dtypes = DTYPES[seed % len(DTYPES)]
        self.params = [torch.nn.Parameter(torch.randn(shape).to(dtypes[i % len(dtypes)])) for i, shape in enumerate(shapes)]
        self.optimizer = altgrad.optim.FromRule(self.drawn.text, storage=self.drawn.storage)(self.params)
        self.seed = self.optimizer.param_groups[0].get("seed", 0)

    def held(self, name):
        """Numbers of all tensors, as the rule sees them."""
        found = []
        for param in self.params:
            state, shape = self.optimizer.state.get(param, {}), tuple(param.shape)
            if name == "w":
                found.append(matrix(numbers(state.get("master", param)), shape))
            elif name in state or name == "k":
                x = state[name] if name in state else torch.as_tensor(self.optimizer.param_groups[0].get("k", 0.5))
                if name in ("m", "n"):
                    x = matrix(self.decoded(state, name), shape)
                else:
                    x = x.detach().double().numpy().reshape({"c": (1, -1)}.get(name, (-1, 1)))
                found.append(x)
            else:
                rows = matrix(numbers(param), shape).shape
                first = {"r": (rows[0], 1), "c": (1, rows[1]), "u": (rows[0], 1), "m": rows, "n": rows}.get(name, (1, 1))
                found.append(np.full(first, 0.5 if name in "rusk" else 0.0))
        kind = self.drawn.states.get(name, "element")
        return [geometryrule.cast(x, kind) for x in found]

    def decoded(self, state, name):
        """A state that may be codes with scales."""
        if f"{name}_scale" not in state:
            return numbers(state[name])
        stored, block = self.words[name].split(":")
        codes = state[name].view(torch.uint8).numpy().ravel()
        return formats.decode(formats.named(stored), codes) * np.repeat(numbers(state[f"{name}_scale"]), int(block))[:codes.size]

    def give(self):
        for param in self.params:
            param.grad = torch.randn(param.shape).to(param.dtype)
        return [torch.randn(param.shape) for param in self.params]

    def bits(self):
        whole = hashlib.sha256()
        for param in self.params:
            for x in (param, *[self.optimizer.state[param][key] for key in sorted(self.optimizer.state[param])]):
                whole.update(x.detach().contiguous().view(-1).view(torch.uint8).numpy().tobytes() if x.dim() else numbers(x).tobytes())
        return whole.hexdigest()


def wrong(run, count, inputs):
    """Words on a number that is not NumPy's after one step."""
    before = {name: run.held(name) for name in ("w", *run.drawn.states)}
    before["g"] = [matrix(numbers(param.grad), tuple(param.shape)) for param in run.params]
    before["h"] = [matrix(numbers(x), tuple(x.shape)) for x in inputs]
    due, *others = [run.drawn.step(before, run.seed, count, nudge) for nudge in (0, 1, -1)]
    run.optimizer.step(inputs={"h": inputs})
    for name, kind in {"w": "element", **run.drawn.states}.items():
        word = run.words.get(name, "f32") if name != "w" else "f32"
        for place, (got, wanted) in enumerate(zip(run.held(name), due[name])):
            stored = run.params[place].dtype
            if name == "w" and "master" not in run.words:
                word = {torch.bfloat16: "bf16", torch.float16: "f16"}.get(stored, "f32")
            elif kind == "element" and name != "w" and name not in run.words:
                word = {torch.bfloat16: "bf16", torch.float16: "f16"}.get(stored, "f32") if "master" not in run.words else "f32"
            share, least = unit_of(word)
            wanted = np.broadcast_to(wanted, got.shape).astype(np.float64)
            size = max(*[float(np.abs(x).max(initial=0)) for x in (wanted, before[name][place])], 1e-3)  # which may cancel
            error = np.abs(got - wanted) - share * np.abs(wanted) - least * max(size, 1)
            moved = np.max([np.abs(other[name][place] - wanted) for other in others], axis=0)  # by sums that cancel
            if not (error <= 2e-5 * size + 2 * moved).all():
                at = np.unravel_index(int(np.argmax(np.where(np.isnan(error), np.inf, error))), got.shape)
                return f"{name} of {tuple(run.params[place].shape)} {stored} at {at}: {got[at]!r}, not {wanted[at]!r} ({word})"
    return None


def told(seed):
    """(the bits of three steps or why there are none, what is wrong)."""
    try:
        run = Run(seed)
        for count in (1, 2, 3):
            inputs = run.give()
            if words := wrong(run, count, inputs):
                return None, f"step {count}: {words}\n{run.drawn.text}\nstorage: {run.drawn.storage}"
        return run.bits(), None
    except (altgrad.Error, ValueError) as error:
        drawn = geometryrule.Drawn(seed)
        why = re.search(r"error: (.*)", str(error))
        if why and not re.search(r"sweep|phase|stream|spill|llvm|failed to", why[1]):
            return "refused: " + re.sub(r"'[^']*'|\d+", "N", why[1])[:100], None
        return None, f"{error}\n{drawn.text}\nstorage: {drawn.storage}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rules", type=int, nargs="?", default=100)
    parser.add_argument("file", type=pathlib.Path, nargs="?")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--same", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    known = json.loads(given.file.read_text()) if given.same else None
    found, bad, refused = {}, 0, collections.Counter()
    for seed in range(given.seed, given.seed + given.rules):
        bits, words = told(seed)
        found[str(seed)] = bits
        if words is None and known and known[str(seed)] != bits:
            words = f"other bits than in {given.file}\n{geometryrule.Drawn(seed).text}"
        if bits and bits.startswith("refused"):
            refused[bits] += 1
        if words:
            bad += 1
            print(f"--- seed {seed}: {words}", flush=True)
    if given.file and not given.same:
        given.file.write_text(json.dumps(found))
    for why, count in refused.most_common():
        print(f"{count:6} {why}")
    print(f"{given.rules} rules from seed {given.seed}, {sum(refused.values())} refused, {bad} wrong")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
