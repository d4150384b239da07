"""Tensors for a bundle, in guarded memory at any alignment, the same values on the host and on the device."""

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from bench import program  # noqa: E402

GUARD, CANARY = 64, 0xC5
SIZES = [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 4095, 4096, 4097,
         8191, 8193, 65537, 278011]
SPECIAL = [0.0, -0.0, float("inf"), -float("inf"), float("nan"), 1e-45, -1e-42, 1.1754942e-38, 3.4028235e38, -3.4e38,
           1e-20, 65504.0, 57344.0, 448.0, 464.0, 1.0, -1.0]


class Guarded:
    """One tensor inside memory whose other bytes must not change."""

    def __init__(self, value, device, offset):
        self.size = value.element_size()
        start = GUARD + offset * self.size
        self.span = start, start + value.numel() * self.size
        self.memory = torch.full((self.span[1] + GUARD,), CANARY, dtype=torch.uint8, device=device)
        # The allocator aligns to 64 bytes or more, so the offset alone decides the alignment.
        self.tensor = self.memory[slice(*self.span)].view(value.dtype)
        self.tensor.copy_(value)

    def intact(self):
        first, last = self.span
        return bool((self.memory[:first] == CANARY).all() and (self.memory[last:] == CANARY).all())


def draw(stream, n, generator, special=False):
    """Values for one tensor of a stream; states are not negative, as second moments are."""
    dtype = program.FORMATS[stream["format"]]
    if special and n:
        pick = torch.randint(len(SPECIAL), (n,), generator=generator)
        value = torch.tensor(SPECIAL, dtype=torch.float32)[pick]
    else:
        value = torch.randn(n, generator=generator)
    if stream["role"] == "state":
        value = value.abs() * 0.01
    elif stream["role"] == "grad":
        value = value * 0.1
    return value.to(dtype)


SCALARS = {"max_norm": 1.0, "inv_scale": 0.5, "grad_scale": 2.0, "found_inf": 0.0}


def scalar_values(manifest, rows, groups):
    """Different in every group and tensor where the scope allows it."""
    values = {}
    for scalar in manifest["scalars"]:
        name, scope = scalar["name"], scalar["scope"]
        if scope == "step":
            values[name] = [SCALARS.get(name, scalar["default"] or 0)]
        elif scope == "group":
            values[name] = [(scalar["default"] or 0) * (1 - 0.01 * i) for i in range(groups)]
        else:
            values[name] = [i % 5 for i in range(rows)]
    return values


class Side:
    """A program bound to guarded tensors on one device."""

    def __init__(self, path, device, values, groups, offset=lambda stream, row: 0, scalars=None):
        self.program = program.Program(path, device)
        if device.startswith("cpu"):
            self.program.call("set_threads", self.program.plan, 1)  # small tensors, and the results are the same
        manifest = self.program.manifest
        memory = self.program.memory
        self.guarded = {s["name"]: [Guarded(v, memory, offset(i, row)) for row, v in enumerate(values[s["name"]])]
                        for i, s in enumerate(manifest["streams"])}
        rows = len(groups)
        given = scalar_values(manifest, rows, max(groups, default=0) + 1) | (scalars or {})
        self.program.bind({name: [g.tensor for g in list_] for name, list_ in self.guarded.items()}, given, groups)

    def set_grads(self, grads):
        for stream in self.program.manifest["streams"]:
            if stream["role"] == "grad":
                for guarded, value in zip(self.guarded[stream["name"]], grads):
                    guarded.tensor.copy_(value)

    def results(self):
        """name -> bytes on the host, of everything that the step may write."""
        found = {}
        for stream in self.program.manifest["streams"]:
            if stream["access"] != "in":
                for row, g in enumerate(self.guarded[stream["name"]]):
                    found[f"{stream['name']}[{row}]"] = g.tensor.view(torch.uint8).cpu()
        for scalar in self.program.manifest["scalars"]:
            if scalar["access"] != "in":
                found[scalar["name"]] = self.program.scalars[scalar["name"]].view(torch.uint8).cpu()
        return found

    def intact(self):
        return all(g.intact() for list_ in self.guarded.values() for g in list_)


def same(host, device, what):
    """Every byte equal, no canary touched; raises AssertionError that names the first difference."""
    mine, theirs = host.results(), device.results()
    for name, expected in mine.items():
        if not torch.equal(expected, theirs[name]):
            at = int((expected != theirs[name]).nonzero()[0])
            raise AssertionError(f"{what}: {name} differs from byte {at} of {expected.numel()}: host "
                                 f"{expected[at // 4 * 4:][:4].tolist()}, device {theirs[name][at // 4 * 4:][:4].tolist()}")
    for side, name in ((host, "host"), (device, "device")):
        if not side.intact():
            raise AssertionError(f"{what}: the {name} wrote outside its tensors")


def compare(path, device, sizes=SIZES, steps=3, groups=3, seed=0, special=False, offset=None, scalars=None,
            before=None):
    """Runs one bundle on "cpu:v3" and on `device` from equal inputs and compares bytes after every step."""
    if not device.startswith(("cpu", "cuda")):
        sizes = [n for n in sizes if n < 5000][:99]  # an interpreter's pace
    generator = torch.Generator().manual_seed(seed)
    host = program.Program(path, "cpu:v3").manifest
    values = {s["name"]: [draw(s, n, generator, special) for n in sizes] for s in host["streams"]}
    grad = next(s for s in host["streams"] if s["role"] == "grad")
    rows = [i % groups for i in range(len(sizes))]
    sides = [Side(path, where, values, rows, offset or (lambda stream, row: (stream + row) % 16), scalars)
             for where in ("cpu:v3", device)]
    for step in range(steps):
        grads = [draw(grad, n, generator, special and step == 0) for n in sizes]
        if before:
            before(grads, step)
        for side in sides:
            side.set_grads(grads)
            side.program.step()
        same(*sides, f"{pathlib.Path(path).stem} step {step}")
    return sides
