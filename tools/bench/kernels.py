"""Kernels of others that step float32 masters on the host: torch's, and those built from folders of sources."""

import pathlib
import subprocess

import torch

from . import candidates, floor


class Cast:
    """What a step of float32 masters needs around it: gradients widened and clipped before, weights rounded after."""

    def __init__(self, sizes, dtype, mode):
        self.clipped = mode == "clip"
        self.grads = candidates.values(sizes, torch.bfloat16, 0.01)
        self.weights = candidates.values(sizes, torch.bfloat16, 1.0)
        self.masters = [torch.nn.Parameter(weight.float()) for weight in self.weights]
        for master in self.masters:
            master.grad = torch.empty_like(master)
        self.begin()

    def begin(self):
        self.optimizer = torch.optim.AdamW(self.masters, lr=1e-4, fused=True)
        self.update = self.optimizer.step

    @torch.no_grad()
    def step(self):
        torch._foreach_copy_([master.grad for master in self.masters], self.grads)
        if self.clipped:
            torch.nn.utils.clip_grad_norm_(self.masters, 1.0)
        self.update()
        torch._foreach_copy_(self.weights, [master.data for master in self.masters])


def build(name, sources, flags, include=()):
    """The module that torch's builder makes of C++ sources, under build/bench, once."""
    from torch.utils.cpp_extension import load
    out = floor.ROOT / "build" / "bench" / name
    out.mkdir(parents=True, exist_ok=True)
    return load(f"altgrad_bench_{name}", [str(path) for path in sources], build_directory=str(out),
                extra_include_paths=[str(path) for path in include], extra_cflags=["-O3", "-fopenmp", *flags],
                extra_ldflags=["-fopenmp"])


def deepspeed(source):
    """A step by csrc/adam/cpu_adam.cpp of DeepSpeed: float32 gradients, one call for each tensor."""
    wide = "-D__AVX512__" if "avx512f" in open("/proc/cpuinfo").read() else "-D__AVX256__"
    built = build("deepspeed", [source, source.with_name("cpu_adam_impl.cpp")], ["-std=c++20", "-march=native", wide],
                  [source.parents[1] / "includes"])

    class DeepSpeed(Cast):
        def begin(self):
            self.moments = [[torch.zeros_like(master.data) for master in self.masters] for _ in "mv"]
            self.count = 0
            built.create_adam(0, 1e-4, 0.9, 0.999, 1e-8, 0.01, True, False)

        def update(self):
            self.count += 1
            for master, m, v in zip(self.masters, *self.moments):
                built.adam_update(0, self.count, 1e-4, 0.9, 0.999, 1e-8, 0.01, True, master.data, master.grad, m, v)

    return DeepSpeed


def prime_rl(source):
    """A step by prime-rl's kernel, which reads bf16 gradients and writes bf16 weights, built for this CPU as their
    loader builds it. Its clip takes a norm of each tensor first and scales gradients in the step."""
    cpu = torch.backends.cpu.get_cpu_capability()
    flags = {"AVX512": ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma"],
             "AVX2": ["-mavx2", "-mfma", "-mf16c"]}.get(cpu, [])
    names = [f"-DCPU_CAPABILITY={cpu}", f"-DCPU_CAPABILITY_{cpu}"] if flags else []
    built = build("prime_rl", [source], flags + names)

    class PrimeRL:
        def __init__(self, sizes, dtype, mode):
            self.clipped = mode == "clip"
            self.grads = candidates.values(sizes, torch.bfloat16, 0.01)
            self.weights = candidates.values(sizes, torch.bfloat16, 1.0)
            self.masters = [weight.float() for weight in self.weights]
            self.moments = [[torch.zeros_like(master) for master in self.masters] for _ in "mv"]
            self.counts = [torch.zeros(()) for _ in sizes]

        def step(self):
            scale = 1.0
            if self.clipped:
                norms = [torch.linalg.vector_norm(grad, dtype=torch.float32) for grad in self.grads]
                scale = min(1.0, 1.0 / (sum(norm.square().item() for norm in norms) ** 0.5 + 1e-6))
            built.adamw_step(self.masters, self.grads, *self.moments, self.counts, self.weights, 1e-4, 0.9, 0.999, 0.01,
                             1e-8, scale)

    return PrimeRL


KNOWN = {"csrc/adam/cpu_adam.cpp": ("DeepSpeed and casts", deepspeed),
         "src/prime_rl/trainer/optim/cpu_adam/kernel.cpp": ("prime-rl", prime_rl)}


def found(folders):
    """name -> (maker, every how many rounds) for the kernel that each folder, a checkout of its project, has."""
    makers = {}
    for folder in folders:
        path = next((path for path in KNOWN if pathlib.Path(folder, path).is_file()), None)
        if not path:
            raise SystemExit(f"--folder {folder}: it has none of {', '.join(KNOWN)}; give the root of a checkout of "
                             "DeepSpeed or prime-rl")
        name, maker = KNOWN[path]
        try:
            makers[name] = maker(pathlib.Path(folder, path)), 2
        except (RuntimeError, subprocess.CalledProcessError) as error:
            raise SystemExit(f"--folder {folder}: {name} does not build: {error}") from error
    return makers
