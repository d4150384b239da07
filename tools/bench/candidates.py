"""Who runs: the floor, torch's fused and foreach AdamW, altgrad's, each on tensors of its own."""

import random

import torch

from . import floor, program

MODES = ("plain", "clip", "scaler+clip")
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}


def mixed_sizes(count=300, total=27_000_000):
    """Sizes as a model has them, from biases to matrices, most of them no multiple of a vector."""
    draw = random.Random(7)
    sizes = [2 ** draw.uniform(6, 20) for _ in range(count)]
    return [int(size * total / sum(sizes)) + 1 for size in sizes]


# name -> (sizes, steps in one sample, gradients re-allocated before each step)
WORKLOADS = {
    "64M": ([64 << 20], 1, False),
    "300 mixed": (mixed_sizes(), 2, False),
    "1000x1024": ([1024] * 1000, 5, True),
}
QUICK = {"64M": ([4 << 20], 1, False), "300 mixed": (mixed_sizes(300, 3_000_000), 2, False),
         "1000x1024": WORKLOADS["1000x1024"]}


def values(sizes, dtype, scale):
    """Random, since zeros may run faster; drawn once and repeated, since drawing 64 M takes a second."""
    base = torch.randn(min(max(sizes), 1 << 20), generator=torch.Generator().manual_seed(1)).mul_(scale).to(dtype)
    return [base.repeat((n + base.numel() - 1) // base.numel())[:n].clone() for n in sizes]


class Torch:
    def __init__(self, sizes, dtype, mode, **choice):
        self.params = values(sizes, dtype, 1.0)
        for p, g in zip(self.params, values(sizes, dtype, 0.01)):
            p.requires_grad_().grad = g
        self.mode = mode
        self.optimizer = self.make(choice)
        # A scale of 1 that never grows: the same gradients can be unscaled in every round.
        self.scaler = self.scaler_class()("cpu", init_scale=1.0, growth_interval=1 << 30)
        self.scaler.scale(torch.ones(()))

    def scaler_class(self):
        return torch.amp.GradScaler

    def make(self, choice):
        return torch.optim.AdamW(self.params, lr=1e-4, **choice)

    def renew(self):
        for p in self.params:
            p.grad = p.grad.clone()

    def step(self):
        if self.mode == "scaler+clip":
            self.scaler.unscale_(self.optimizer)
        if self.mode != "plain":
            torch.nn.utils.clip_grad_norm_(self.params, 1.0)
        if self.mode == "scaler+clip":
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()


class Package(Torch):
    """altgrad.optim.AdamW, with altgrad.amp.GradScaler."""

    def scaler_class(self):
        import altgrad.amp
        return altgrad.amp.GradScaler

    def make(self, choice):
        import altgrad
        if self.mode != "plain":
            choice["max_grad_norm"] = 1.0
        return altgrad.optim.AdamW(self.params, lr=1e-4, **choice)

    def step(self):
        if self.mode == "scaler+clip":
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()


class Abi:
    """The same kernels without Python's bookkeeping: gradients are bound from an array of pointers that is ready. With a
    scaler the step unscales and checks by itself, in the pass that the norm needs."""

    OPTIONS = {"plain": (), "clip": ("--clip",), "scaler+clip": ("--clip", "--unscale")}

    def __init__(self, sizes, dtype, mode):
        name = "bf16" if dtype == torch.bfloat16 else "f32"
        folder = program.ROOT / "build" / "bench"
        folder.mkdir(parents=True, exist_ok=True)
        path = program.compile_bundle(folder / f"adamw-{name}-{MODES.index(mode)}.so", "adamw",
                                      " ".join(f"{s}={name}" for s in ("param", "grad", "m", "v")),
                                      options=self.OPTIONS[mode])
        self.program = program.Program(path, "cpu", floor.torch_parallel_for())
        self.grads = values(sizes, dtype, 0.01)
        zeros = [[torch.zeros(n, dtype=dtype) for n in sizes] for _ in "mv"]
        self.program.bind({"g": self.grads, "w": values(sizes, dtype, 1.0), "m": zeros[0], "v": zeros[1]},
                          {"max_norm": [1.0], "inv_scale": [1.0]})
        self.pointers = program.pointers(self.grads)

    def renew(self):
        self.grads = [g.clone() for g in self.grads]
        self.pointers = program.pointers(self.grads)

    def step(self):
        self.program.call("bind_stream", self.program.plan, b"g", self.pointers, len(self.grads))
        self.program.step()


class Floor:
    def __init__(self, sizes, dtype, mode):
        self.grads = values(sizes, dtype, 0.01)
        streams = [values(sizes, dtype, 1.0) for _ in "pmv"]
        self.floor = floor.Floor(streams[0], self.grads, streams[1], streams[2], mode != "plain")

    def renew(self):
        self.grads = [g.clone() for g in self.grads]
        self.floor.rebind(self.grads)

    def step(self):
        self.floor.step()


def makers():
    """name -> (maker, run in every n-th round): what is far from the floor need not run often."""
    found = {
        "floor": (Floor, 1),
        "torch fused": (lambda *a: Torch(*a, fused=True), 1),
        "torch foreach": (lambda *a: Torch(*a, foreach=True), 4),
        "altgrad": (Package, 1),
        "altgrad C ABI": (Abi, 1),
    }
    try:
        import altgrad
        altgrad.optim.AdamW
    except Exception as error:  # whatever the reason, the other candidates still run
        print(f"skipped: altgrad.optim.AdamW ({type(error).__name__}: {error})")
        del found["altgrad"]
    return found
