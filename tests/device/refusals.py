"""What is refused on a GPU: one clear error before anything is changed, and the CPU's path goes on.

Each in a process of its own, for a context that is lost stays lost: refusals.py CASE DEVICE.
"""

import contextlib
import os
import subprocess
import sys

import torch

import gpu as gpus
from optimizers import SMALL, maker
from pairs import Pair, equal


class Wrong(AssertionError):
    """What was expected did not happen."""


@contextlib.contextmanager
def refused(*words, kinds=(RuntimeError, ValueError, TypeError)):
    """One error that has these words."""
    import altgrad
    try:
        yield
    except (*kinds, altgrad.Error) as error:
        said = str(error)
        if not all(word.lower() in said.lower() for word in words):
            raise Wrong(f"the error says {said!r}, without {words}") from error
        print("   ", f"{type(error).__name__}: {said}".splitlines()[0][:200], flush=True)
    else:
        raise Wrong(f"nothing was refused; {words} expected")


def on_cpu(make, bound=None):
    """The parameters after a first step and a steady one on the CPU."""
    numbers = torch.Generator().manual_seed(2)
    params = [torch.nn.Parameter(torch.randn(shape, generator=numbers)) for shape in SMALL]
    optimizer = make(params)
    for _ in range(2):
        for p in params:
            p.grad = torch.randn(p.shape, generator=numbers)
        if bound:
            torch.nn.utils.clip_grad_norm_(params, bound)
        optimizer.step()
    return params


def of_torch():
    """What `cpu_goes_on` expects; not in a child of fork, where torch's own class asks CUDA for captures and fails."""
    return on_cpu(torch.optim.AdamW, 0.5)


def cpu_goes_on(expected=None):
    for p, q in zip(on_cpu(maker("AdamW", max_grad_norm=0.5)), expected or of_torch()):
        torch.testing.assert_close(p, q)


def kept_of(pair):
    return [p.detach().cpu() for p in pair.params[1]], {
        (place, key): value.cpu() for place, p in enumerate(pair.params[1])
        for key, value in pair.optimizers[1].state.get(p, {}).items()}


def unchanged(pair, kept):
    params, states = kept_of(pair)
    for place, (now, before) in enumerate(zip(params, kept[0])):
        equal(before, now, f"parameter {place} after the error")
    if list(states) != list(kept[1]):
        raise Wrong(f"states {sorted(set(states) ^ set(kept[1]))} came or went with the error")
    for key, before in kept[1].items():
        equal(before, states[key], f"state {key} after the error")


def gradient_elsewhere(gpu):
    """A parameter was moved under its gradient."""
    pair = Pair(gpu, maker("AdamW"), SMALL).step(2)
    pair.grads()
    moved, there = pair.params[1][1], pair.params[1][1].data
    # Only devices of one kind may take each other's place in a tensor; CUDA and the CPU count as one.
    moved.data = there.to("cpu" if gpu.real else gpu.others()[0])
    kept = kept_of(pair)
    with refused("gradient", "does not match its parameter"):
        pair.optimizers[1].step()
    unchanged(pair, kept)
    moved.data = there
    for optimizer in pair.optimizers:
        optimizer.step()
    pair.same("after the error")


def captured_with_others(gpu):
    """A gradient came and a state was replaced after the last eager step; the graph goes on afterwards."""
    from altgrad._binding import device_context
    pair = Pair(gpu, lambda ps: maker("AdamW", **(dict(capturable=True) if ps[0].device.type != "cpu" else {}))(ps), SMALL)
    last = [params[-1] for params in pair.params]
    pair.step(2, before=lambda number, params, optimizer: setattr(params[-1], "grad", None))
    pair.grads()
    kept, asked = kept_of(pair), device_context.DeviceContext.is_capturing
    if not gpu.real:
        device_context.DeviceContext.is_capturing = lambda self: True
    with refused("captured after a step"):
        gpu.graph(pair.optimizers[1].step)()
    device_context.DeviceContext.is_capturing = asked
    gpu.synchronize()
    unchanged(pair, kept)
    for optimizer in pair.optimizers:
        optimizer.step()
    pair.same("eager, after the error")
    if gpu.real:
        replay = gpu.graph(pair.optimizers[1].step)
        for _ in range(3):
            grads = [torch.randn(p.shape) for p in pair.params[0]]
            for p, q, g in zip(*pair.params, grads):
                p.grad = g
                q.grad.copy_(g)
            pair.optimizers[0].step()
            replay()
        pair.same("replayed, after the error")
    assert all(o.state[p]["step"] > 0 for o, p in zip(pair.optimizers, last))


def captured_without_capturable(gpu):
    from altgrad._binding import device_context
    pair = Pair(gpu, maker("AdamW"), SMALL).step(2)
    kept, asked = kept_of(pair), device_context.DeviceContext.is_capturing
    if not gpu.real:
        device_context.DeviceContext.is_capturing = lambda self: True
    with refused("capturable is False"):
        gpu.graph(pair.optimizers[1].step)()
    device_context.DeviceContext.is_capturing = asked
    gpu.synchronize()
    unchanged(pair, kept)
    pair.step(2).same("eager, after the error")


def no_device(gpu):
    """The process sees no GPU: CUDA_VISIBLE_DEVICES is empty."""
    from inputs import program
    if gpu is not None and gpu.real and torch.cuda.is_available():
        raise Wrong("CUDA_VISIBLE_DEVICES='' left a GPU")
    cpu_goes_on()
    bundle = sorted((gpus.ROOT / "build" / "device" / "bundles").glob("adamw.so"))
    if bundle:
        with refused(kinds=(program.Refused,)):
            program.Program(bundle[0], "cuda:0")
    cpu_goes_on()


def forked(gpu):
    """A child of fork has no CUDA; what it has is the CPU."""
    pair, expected = Pair(gpu, maker("AdamW", max_grad_norm=0.5), SMALL).step(2), of_torch()
    gpu.synchronize()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            # On the CPU first: whatever the GPU's path leaves behind cannot help it.
            torch.set_num_threads(1)
            cpu_goes_on(expected)
            with refused("fork"):
                pair.optimizers[1].step()
            cpu_goes_on(expected)
            status = 0
        except BaseException as error:
            print(f"    in the child: {type(error).__name__}: {error}", flush=True)
        finally:
            sys.stdout.flush()
            os._exit(status)
    if os.waitpid(child, 0)[1]:
        raise Wrong("the forked child did not get its error, or the CPU did not go on")
    pair.step(2).same("in the parent")


@contextlib.contextmanager
def no_tables(device):
    """The test driver's torch has no memory for tables."""
    def full(*_):
        raise RuntimeError("out of memory")
    module = torch.get_device_module(device)
    allocate, module.caching_allocator_alloc = module.caching_allocator_alloc, full
    try:
        yield
    finally:
        module.caching_allocator_alloc = allocate


def out_of_memory(gpu):
    """No room for what a first step makes; with room again the step is as if nothing had been."""
    torch.manual_seed(1)
    pair = Pair(gpu, maker("AdamW", max_grad_norm=0.5), [(3000, 1024), (33,)])
    pair.grads()
    kept, taken = kept_of(pair), []
    if gpu.real:
        size = 1 << 34
        while size >= 1 << 12:
            try:
                taken.append(torch.empty(size, dtype=torch.uint8, device=gpu.device))
            except torch.OutOfMemoryError:
                size //= 2
    # cuMemHostAlloc's and the workspace's failures are in tests/unit.
    with contextlib.nullcontext() if gpu.real else no_tables(gpu.device), refused("memory"):
        pair.optimizers[1].step()
    cpu_goes_on()
    taken.clear()
    gpu.free()
    params, states = kept_of(pair)
    for place, (now, before) in enumerate(zip(params, kept[0])):
        equal(before, now, f"parameter {place} after the error")
    if states:
        print(f"    left in the state: {sorted(states)}", flush=True)
    pair.optimizers[0].step()
    pair.optimizers[1].step()
    pair.same("with room again")


CASES = {f.__name__: f for f in (gradient_elsewhere, captured_with_others, captured_without_capturable, no_device,
                                 forked, out_of_memory)}


def child(name, device):
    """Runs one case in a process of its own; raises with its words."""
    environment = dict(os.environ)
    if name == "no_device":
        environment |= {"CUDA_VISIBLE_DEVICES": "", "FAKE_CUDA_DEVICES": "0"}
    try:
        done = subprocess.run([sys.executable, "-W", "ignore", __file__, name, device], env=environment,
                              capture_output=True, text=True, timeout=gpus.patience(device))
    except subprocess.TimeoutExpired:
        raise AssertionError(f"still running after {gpus.patience(device)} s") from None
    print(done.stdout, end="", flush=True)
    if done.returncode == 77:
        raise gpus.Skipped(done.stdout.strip())
    if done.returncode:
        raise AssertionError(" ".join([f"status {done.returncode}", *done.stderr.splitlines()[-1:]]))
    return "one error, and the CPU goes on"


def _check(name):
    def check(bundles, device):
        gpus.find(device)
        return child(name, device)
    check.__name__ = f"refused_{name}"
    return check


CHECKS = [_check(name) for name in CASES]

if __name__ == "__main__":
    try:
        CASES[sys.argv[1]](gpus.find(sys.argv[2]))
    except gpus.Skipped as reason:
        print(reason)
        sys.exit(77)
