"""Muon on the GPU: its products by torch's GEMM, its sweeps by altgrad's kernels, AdamW beside it in one step."""

import os
import statistics
import unittest.mock

import altgrad
import torch

import gpu as gpus
from pairs import equal, every

SHAPES = [(192, 768), (768, 192), (256, 256), (256, 256), (128, 1000), (5, 7), (1, 9)]
SMALL = [(24, 48), (48, 24), (24, 24), (24, 24), (5, 7), (1, 9)]
VECTORS = [(768,), (64, 3, 3)]
GPT = [(2304, 768), (768, 768), (3072, 768), (768, 3072)] * 12  # the matrices of 124 M parameters
TABLE = {"1024x4096": [(1024, 4096)], "4096x4096": [(4096, 4096)], "48 of a GPT": GPT,
         "200 of 256x256": [(256, 256)] * 200}
LR, FAST = 0.02, dict(lr=3e-4, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.01)


class Run:
    """Matrices, then vectors, with gradients that stay where they are; the same values for each seed."""

    def __init__(self, device, shapes, vectors=(), seed=1):
        self.draw = torch.Generator().manual_seed(seed)
        self.params = [torch.nn.Parameter(self.drawn(shape).to(device)) for shape in [*shapes, *vectors]]
        for param in self.params:
            param.grad = torch.zeros_like(param)
        self.count = len(shapes)
        self.give()

    def drawn(self, shape):
        return torch.randn(shape, generator=self.draw)

    def give(self):
        for param in self.params:
            param.grad.copy_(self.drawn(param.shape))

    def ours(self, lr=LR, adamw=FAST, **given):
        import altgrad
        groups = [{"params": self.params[:self.count]}]
        if self.count < len(self.params):
            groups.append({"params": self.params[self.count:], "use_muon": False, **adamw})
        self.optimizer = altgrad.optim.Muon(groups, lr=lr, **given)
        return self

    def same(self, other, what):
        for place, (p, q) in enumerate(zip(self.params, other.params)):
            equal(p, q, f"{what}: parameter {place}")
            for key, value in self.optimizer.state[p].items():
                equal(value, other.optimizer.state[q][key], f"{what}: state {key} of parameter {place}")


def scale_of(shape):
    return max(1.0, shape[0] / shape[1]) ** 0.5


def beside_torch(gpu, shapes):
    """20 steps: momenta and AdamW's part as torch has them, matrices within what bf16 leaves of each update."""
    mine, theirs = (Run(gpu.device, shapes, VECTORS) for _ in range(2))
    mine.ours()
    others = (torch.optim.Muon(theirs.params[:theirs.count], lr=LR),
              torch.optim.AdamW(theirs.params[theirs.count:], **FAST))
    for number in range(20):
        for run in (mine, theirs):
            run.give()
        for optimizer in (mine.optimizer, *others):
            optimizer.step()
        for p, q in zip(mine.params[:mine.count], theirs.params):
            torch.testing.assert_close(*(optimizer.state[of]["momentum_buffer"]
                                         for optimizer, of in ((mine.optimizer, p), (others[0], q))))
            apart, most = (p - q).abs().max().item(), (number + 1) * LR * scale_of(p.shape) * 2.0 ** -6
            assert apart <= most, f"step {number}, {tuple(p.shape)}: {apart} apart, at most {most}"
    for p, q in zip(mine.params[mine.count:], theirs.params[mine.count:]):
        torch.testing.assert_close(p, q)


def iterate(gradient, steps=5):
    """The iteration in float64 on the CPU, of a first step's momentum with its look ahead."""
    a, b, c = 3.4445, -4.775, 2.0315
    x = gradient.cpu().double()
    tall = x.shape[0] > x.shape[1]
    x = (x.mT if tall else x) / x.norm()
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


def against_f64(gpu, shapes):
    """One step: no further from float64 than torch's by more than a quarter, and in float32 within 2^-12 of it."""
    def updates(make):
        run = Run(gpu.device, shapes)
        for param in run.params:
            param.data.zero_()
        make(run).step()
        return [-p.detach().cpu().double() / scale_of(p.shape) for p in run.params]

    wanted = [iterate(p.grad) for p in Run(gpu.device, shapes).params]
    plain = dict(lr=1.0, weight_decay=0.0)
    far = lambda found: [((f - w).norm() / w.norm()).item() for f, w in zip(found, wanted)]
    ours = far(updates(lambda run: run.ours(**plain).optimizer))
    theirs = far(updates(lambda run: torch.optim.Muon(run.params, **plain)))
    exact = far(updates(lambda run: run.ours(orthogonalize=altgrad.optim.NewtonSchulz(dtype=torch.float32), **plain).optimizer))
    for shape, one, other, f32 in zip(shapes, ours, theirs, exact):
        assert one <= 1.25 * other + 2.0 ** -8, f"{shape}: {one:.2e} from float64, torch's {other:.2e}"
        assert f32 <= 2.0 ** -12, f"{shape} in float32: {f32:.2e} from float64"
    return max(ours), max(theirs)


def replayed(gpu, shapes):
    """A captured step has the bytes of an eager one, replay after replay."""
    eager, graph = (Run(gpu.device, shapes, VECTORS).ours(lr=torch.tensor(LR).to(gpu.device)) for _ in range(2))
    for _ in range(3):
        for run in (eager, graph):
            run.give()
            run.optimizer.step()
    gpu.synchronize()
    replay = gpu.graph(graph.optimizer.step)
    for number in range(5):
        for run in (eager, graph):
            run.give()
            run.optimizer.param_groups[0]["lr"].fill_(LR / (1 + number))
        eager.optimizer.step()
        replay()
        eager.same(graph, f"replay {number}")


def skipped(gpu, shapes):
    """A NaN in one matrix, of which GradScaler tells, leaves everything as it was; then all goes on as without it."""
    spoilt, whole = (Run(gpu.device, shapes, VECTORS).ours(fused_amp=True) for _ in range(2))
    for number in range(4):
        for run in (spoilt, whole):
            run.give()
            bad = number == 2
            if bad:
                run.params[1].grad[0, 0] = float("nan")
            run.optimizer.grad_scale, run.optimizer.found_inf = (
                torch.tensor([value]).to(gpu.device) for value in (4.0, float(bad)))
            if not bad or run is spoilt:
                run.optimizer.step()
        spoilt.same(whole, f"step {number}")
    assert all(p.isfinite().all() for p in spoilt.params)


def quiet(gpu, shapes):
    """A step waits for nothing, with a new rate as well."""
    run = Run(gpu.device, shapes, VECTORS).ours()
    for _ in range(2):
        run.optimizer.step()
    gpu.synchronize()
    with gpu.no_waiting():
        run.optimizer.param_groups[0]["lr"] = 0.01
        run.optimizer.step()


def muon_on_the_gpu(bundles, device):
    """Muon and AdamW in one step beside torch's two; float64; graphs; a spoilt gradient; no waiting."""
    gpu = gpus.find(device)
    shapes, far = SHAPES if gpu.real else SMALL, []
    words = every([("beside torch", lambda: beside_torch(gpu, shapes)),
                   ("against float64", lambda: far.extend(against_f64(gpu, shapes))),
                   ("replayed", lambda: replayed(gpu, shapes)), ("skipped", lambda: skipped(gpu, shapes)),
                   ("quiet", lambda: quiet(gpu, shapes))])
    return words + ", at most {:.2e} from float64, torch's {:.2e}".format(*far)


def flops_of(shapes):
    """Of five steps of three products."""
    sides = [sorted(shape) for shape in shapes]
    return sum(20 * n * n * m + 10 * n ** 3 for n, m in sides)


def measured(gpu, shapes):
    """name -> median ms of a step, in turn."""
    graph = Run(gpu.device, shapes).ours(lr=1e-6).optimizer.step
    steps = {"torch": torch.optim.Muon(Run(gpu.device, shapes).params, lr=1e-6).step,
             "altgrad": Run(gpu.device, shapes).ours(lr=1e-6).optimizer.step,
             "own products": Run(gpu.device, shapes).ours(lr=1e-6).optimizer.step}
    for name, step in (*steps.items(), ("in a graph", graph)):
        # Who multiplies is decided when the first step is built.
        with unittest.mock.patch.dict(os.environ, ALTGRAD_CUDA_PRODUCTS="own" if name == "own products" else "library"):
            for _ in range(3 if gpu.real else 1):
                step()
    gpu.synchronize()
    steps["in a graph"] = gpu.graph(graph)
    times = {name: [] for name in steps}
    for turn in range(15 if gpu.real else 1):
        for name in list(steps)[::-1 if turn % 2 else 1]:
            times[name].append(gpu.timed(steps[name])[0])
    return {name: statistics.median(series) for name, series in times.items()}


def in_strips(x, a, strips):
    """x times its transpose: strips of rows up to the diagonal, and mirrored copies of what is below it."""
    n = len(x)
    for begin in range(0, n, n // strips):
        end = begin + n // strips
        torch.mm(x[begin:end], x[:end].mT, out=a[begin:end, :end])
        if begin:
            a[:begin, begin:end].copy_(a[begin:end, :begin].mT)


def symmetric_times(bundles, device):
    """A symmetric product in one call, which is what a step does, and in strips with mirrors: medians in ms."""
    gpu = gpus.find(device)
    words = []
    for n, m in [(1024, 4096), (2048, 2048), (4096, 4096), (8192, 8192)] if gpu.real else [(32, 64)]:
        x = torch.randn(n, m, device=gpu.device).bfloat16()
        a, ms = torch.empty(n, n, dtype=x.dtype, device=gpu.device), {}
        for strips in (1, 2, 4):
            body = (lambda: torch.mm(x, x.mT, out=a)) if strips == 1 else lambda: in_strips(x, a, strips)
            body()
            whole = a.clone() if strips == 1 else whole
            assert (a.float() - whole.float()).abs().max() <= 2.0 ** -7 * whole.float().abs().max()
            ms[strips] = statistics.median(gpu.timed(body, 0.3)[0] for _ in range(11))
        words.append(f"{n}x{m}: " + ", ".join(f"{strips} strips {time:.4f}" for strips, time in ms.items()))
    return "; ".join(words)


def muon_times(bundles, device):
    """Steps of matrices alone, medians of device events: torch.optim.Muon's, altgrad's by the library's products, by
    kernels of its own for the symmetric ones, and by the library's in a graph."""
    gpu = gpus.find(device)
    rows = []
    for name, shapes in (TABLE if gpu.real else {"small": SMALL}).items():
        ms = measured(gpu, shapes)
        words = ", ".join(f"{who} {time:.3f}" for who, time in ms.items())
        rows.append(f"{name}: {words} ms, {ms['torch'] / ms['altgrad']:.2f} x, "
                    f"{flops_of(shapes) / ms['altgrad'] / 1e9:.0f} TFLOP/s")
        print(f"    {rows[-1]}", flush=True)
    return "; ".join(rows)


CHECKS = [muon_on_the_gpu, muon_times, symmetric_times]
