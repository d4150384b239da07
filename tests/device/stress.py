"""What wears a plan out: gradients that change their memory, graphs that outlive a rebuild, a card that is full."""

import time

import torch

import gpu as gpus
from optimizers import CLIP, SMALL, maker
from pairs import Pair, equal, every
from steady import CAPTURED, NAMES, WAYS


def alternating_gradients(bundles, device):
    """1000 tensors whose gradients lie in one memory and in another in turn, as zero_grad() makes them."""
    gpu = gpus.find(device)
    pair = Pair(gpu, maker("AdamW", **CLIP), [(33,)] * (1000 if gpu.real else 60)).step(1)
    places = [[torch.zeros_like(p, requires_grad=False) for p in pair.params[1]] for _ in range(2)]
    cpu = []
    for number in range(20):
        pair.grads()
        for p, held in zip(pair.params[1], places[number % 2]):
            p.grad = held.copy_(p.grad)
        pair.optimizers[0].step()
        gpu.synchronize()
        start = time.thread_time()  # of this thread: other checks run beside this one
        pair.optimizers[1].step()
        cpu.append((time.thread_time() - start) * 1e3)
    pair.same()
    return f"{len(pair.params[1])} tensors x 20 steps, {sorted(cpu)[10]:.2f} ms of CPU time for a step"


def _fewer(optimizer, params):
    """A step without one gradient."""
    held, params[0].grad = params[0].grad, None
    optimizer.step()
    params[0].grad = held


def _more(optimizer, params):
    """A step with a further group, whose gradient is gone afterwards."""
    extra = torch.nn.Parameter(torch.ones(9).to(params[0].device))
    extra.grad = torch.ones_like(extra)
    optimizer.add_param_group(dict(params=[extra]))
    optimizer.step()
    extra.grad = None


def _loaded(optimizer, params):
    """States that are other tensors: the graph goes on with those it was captured with. The CPU's stay."""
    if params[0].device.type != "cpu":
        optimizer.load_state_dict(optimizer.state_dict())


REBUILDS = {"one gradient fewer": _fewer, "a group more": _more, "a file loaded": _loaded}


def replay_after_rebuild(bundles, device):
    """A step is captured, its optimizer builds its tables anew, others take spare memory, the graph is replayed."""
    gpu = gpus.find(device)

    def replayed(change, ways):
        pair = Pair(gpu, lambda ps: maker("AdamW", **ways, **(CAPTURED if ps[0].device.type != "cpu" else {}))(ps), SMALL).step(2)
        host, other = pair.params
        fixed = [p.grad for p in other]
        gpu.synchronize()
        replay = gpu.step_graph(pair.optimizers[1].step)
        pair.both(change)
        Pair(gpu, maker("AdamW", **ways), SMALL).step(3).same("another optimizer,")
        for _ in range(4):
            pair.grads()
            for p, held in zip(other, fixed):
                p.grad = held.copy_(p.grad)
            pair.optimizers[0].step()
            replay()
        gpu.synchronize()
        for place, (p, q) in enumerate(zip(host, other)):
            equal(p, q, f"parameter {place}")
            if change is not _loaded:
                for key, value in pair.optimizers[0].state[p].items():
                    equal(value, pair.optimizers[1].state[q][key], f"state {key} of parameter {place}")
    return every((f"{words}, {name}", lambda a=(change, ways): replayed(*a)) for words, change in REBUILDS.items()
                 for name, (ways, scaler) in zip(NAMES, WAYS) if not scaler)


def little_memory(bundles, device):
    """With 1 MB left a step whose gradients have moved does what it did before, or says that there is no memory."""
    gpu = gpus.find(device)
    pair = Pair(gpu, maker("AdamW", **CLIP), [(300, 1024), (33,)] + [(64,)] * 200).step(2)
    pair.grads()
    moved = [p.grad.clone() for p in pair.params[1]]
    for p, grad in zip(pair.params[1], moved):
        p.grad = grad
    gpu.synchronize()
    stopped = ""
    with gpu.filled(leave=1 << 20) as left:
        try:
            pair.optimizers[1].step()
        except RuntimeError as error:
            stopped = str(error)
            assert "memory" in stopped, stopped
    if stopped:
        pair.optimizers[1].step()
    pair.optimizers[0].step()
    pair.same("with room again,")
    return f"{left / 1e6:.1f} MB left: the step " + ("said that there is no memory" if stopped else "went on")


CHECKS = [alternating_gradients, replay_after_rebuild, little_memory]
