"""What a steady step does not do, and what runs beside it: no waiting, graphs, streams, several devices."""

import itertools
import time

import torch

import gpu as gpus
from optimizers import AMP, CLIP, SMALL, maker
from pairs import Pair, equal, every, twins

CAPTURED = dict(capturable=True)


class Training:
    """A network of element-wise arithmetic, whose bits no library's choice of algorithm changes, and its optimizer."""

    def __init__(self, device, ways, scaler=False, name="AdamW", shapes=((65, 33), (4097,), (7,)), dtype=torch.float32):
        draw = torch.Generator().manual_seed(9)
        self.params = [torch.nn.Parameter(torch.randn(shape, generator=draw).to(device, dtype)) for shape in shapes]
        self.inputs = [torch.zeros(shape, dtype=dtype).to(device) for shape in shapes]
        # In double precision, so that it is the number that a Python float would be.
        self.lr = torch.tensor(1e-2, dtype=torch.float64).to(device)
        self.optimizer = maker(name, lr=self.lr, **ways)(self.params)
        self.scaler = torch.amp.GradScaler(self.params[0].device.type, init_scale=64.0, growth_interval=9) if scaler else None

    def give(self, values, lr):
        for held, value in zip(self.inputs, values):
            held.copy_(value, non_blocking=True)
        self.lr.fill_(lr)

    def turn(self):
        """Forward, backward and step."""
        self.optimizer.zero_grad(set_to_none=True)
        loss = sum((p * x).square().sum() for p, x in zip(self.params, self.inputs))
        (self.scaler.scale(loss) if self.scaler else loss).backward()
        self.step()

    def step(self):
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()

    def same(self, other, what):
        for place, (p, q) in enumerate(zip(self.params, other.params)):
            equal(p, q, f"{what}: parameter {place}")
            for key, value in self.optimizer.state[p].items():
                equal(value, other.optimizer.state[q][key], f"{what}: state {key} of parameter {place}")
        if self.optimizer.grad_norm is not None:
            equal(self.optimizer.grad_norm, other.optimizer.grad_norm, f"{what}: grad_norm")


WAYS = [({}, False), (CLIP, False), (AMP, True), (CLIP | AMP, True)]
NAMES = ["plain", "clip", "scaler", "clip and scaler"]


def values_for(training, number):
    draw = torch.Generator().manual_seed(100 + number)
    values = [torch.randn(x.shape, generator=draw).to(x.dtype) for x in training.inputs]
    if training.scaler and number % 10 == 7:
        values[0].view(-1)[3] = float("inf")
    return [v.to(x.device) for v, x in zip(values, training.inputs)]


def nothing_waits(bundles, device):
    """Whole turns while torch refuses to wait; and a step that returns while the GPU is still asleep."""
    gpu = gpus.find(device)

    def quiet(ways, scaler):
        training = Training(gpu.device, ways, scaler)
        for number in range(3):
            training.give(values_for(training, number), 1e-2)
            training.turn()
        given = [values_for(training, number) for number in range(3, 8)]
        gpu.synchronize()
        with gpu.no_waiting():
            for number, values in enumerate(given):
                training.give(values, 1e-3 * number)
                training.turn()
                norm = training.optimizer.grad_norm
        assert "max_grad_norm" not in ways or norm.device == gpu.device
        gpu.synchronize()
        # With other gradients in other memory, and a number that changed.
        for p in training.params:
            p.grad = torch.randn_like(p)
        training.optimizer.param_groups[0]["eps"] = 1e-7
        gpu.sleep(300)
        start, busy = time.perf_counter(), gpu.busy()
        training.optimizer.step()
        ms = (time.perf_counter() - start) * 1e3
        assert busy(), f"step() returned after {ms:.0f} ms, when the GPU had nothing left to do"
        gpu.synchronize()
    return every((f"{name}", lambda a=ways: quiet(*a)) for name, ways in zip(NAMES, WAYS))


def tensors_off_the_gpu(bundles, device):
    """Numbers of the CPU for parameters of the GPU, while torch refuses to wait."""
    gpu = gpus.find(device)

    def quiet(change):
        pair = Pair(gpu, maker("AdamW", lr=0.1), SMALL).step(2)
        pair.both(change)
        pair.step(2)
        pair.grads()
        pair.optimizers[0].step()
        gpu.synchronize()
        with gpu.no_waiting():
            pair.optimizers[1].step()
        pair.same()
    return every([
        ("a number", lambda: quiet(lambda o, ps: o.param_groups[0].update(lr=0.25))),
        ("the GPU's tensors", lambda: quiet(lambda o, ps: o.param_groups[0].update(
            lr=torch.tensor(0.25).to(ps[0].device), betas=(torch.tensor(0.5).to(ps[0].device), 0.99))))])


def graph_of_training(bundles, device):
    """Forward, backward and step in a graph, replayed 100 times with other inputs and lr, and as eager: the same bytes."""
    gpu = gpus.find(device)
    turns = 100 if gpu.real else 10

    def replayed(name, ways, scaler, dtype):
        # torch's SGD has no such option: its lr may be a tensor all the same.
        ways = ways | (CAPTURED if name == "AdamW" else {})
        eager, graph = (Training(gpu.device, ways, scaler, name, dtype=dtype) for _ in range(2))
        side = gpu.stream()
        gpu.after(side, None)
        with gpu.on(side):
            for number in range(3):
                for training in (eager, graph):
                    training.give(values_for(training, number), 1e-2)
                    training.turn()
        gpu.after(None, side)
        gpu.synchronize()
        graph.optimizer.zero_grad(set_to_none=True)
        replay = gpu.graph(graph.turn)
        for number in range(turns):
            values = values_for(eager, number)
            for training, turn in ((eager, eager.turn), (graph, replay)):
                training.give(values, 1e-2 / (1 + number))
                turn()
            if number in (0, turns // 2):
                eager.same(graph, f"replay {number}")
        eager.same(graph, "the last replay")

    cases = [("AdamW", *ways, torch.float32) for ways in WAYS]
    cases += [("AdamW", CLIP, False, torch.bfloat16), ("SGD", dict(momentum=0.9, **CLIP), False, torch.float32)]
    return every((f"{case[0]} {list(case[1])} {case[3]}", lambda a=case: replayed(*a)) for case in cases) + (
        f" x {turns} " + ("replays" if gpu.real else "calls, for there are no graphs here"))


def graph_among_eager(bundles, device):
    """Replays of the step alone between eager steps on other streams, gradients in their old and in other memory."""
    gpu = gpus.find(device)

    def among(ways):
        pair = Pair(gpu, lambda ps: maker("AdamW", lr=torch.tensor(1e-2, dtype=torch.float64).to(ps[0].device), **ways,
                                          **(CAPTURED if ps[0].device.type != "cpu" else {}))(ps), SMALL).step(2)
        host, other = pair.params
        fixed = [p.grad for p in other]
        pair.grads()
        for p, grad in zip(other, fixed):
            p.grad = grad.copy_(p.grad)
        pair.optimizers[0].step()
        pair.optimizers[1].step()
        gpu.synchronize()
        replay = gpu.graph(pair.optimizers[1].step)
        if not gpu.real:
            replay = lambda: [setattr(p, "grad", g) for p, g in zip(other, fixed)] and pair.optimizers[1].step()
        streams = [None, gpu.stream(), gpu.stream()]
        for number in range(24):
            grads = [torch.randn(p.shape) for p in host]
            for p, g in zip(host, grads):
                p.grad = g.clone()
            pair.both(lambda o, ps: o.param_groups[0]["lr"].fill_(1e-2 / (1 + number)))
            before, stream = streams[(number - 1) % 3], streams[number % 3]
            gpu.after(stream, before)
            gpu.after(stream, None)
            with gpu.on(stream):
                gpu.sleep(1)
                moved = number % 3 == 1
                for p, g, held in zip(other, grads, fixed):
                    p.grad = g.to(p.device) if moved else held.copy_(g, non_blocking=True)
                if number % 2:
                    pair.optimizers[1].step()
                else:
                    for g, held in zip(grads, fixed):
                        held.copy_(g)
                    replay()
            pair.optimizers[0].step()
            gpu.after(None, stream)
        pair.same()
    return every((name, lambda w=ways: among(w)) for name, (ways, scaler) in zip(NAMES, WAYS) if not scaler)


def two_graphs(bundles, device):
    """Two graphs of one optimizer with gradients in two places, in turn."""
    gpu = gpus.find(device)
    pair = Pair(gpu, lambda ps: maker("AdamW", **CLIP, **(CAPTURED if ps[0].device.type != "cpu" else {}))(ps), SMALL).step(2)
    host, other = pair.params
    places = [[torch.zeros_like(p, requires_grad=False) for p in other] for _ in range(2)]
    replays = []
    for grads in places:
        for p, g in zip(other, grads):
            p.grad = g
        replays.append((gpu.graph(pair.optimizers[1].step), grads))
    for number in range(10):
        replay, grads = replays[number % 2]
        for p, q, g in zip(host, other, grads):
            p.grad = torch.randn(p.shape)
            g.copy_(p.grad)
            q.grad = g
        replay()
        pair.optimizers[0].step()
    if gpu.real:
        pair.same()
    return "2 graphs x 5 replays"


def streams_and_the_allocator(bundles, device):
    """Steps on streams in turn; gradients made late on another stream, and let go of at once."""
    gpu = gpus.find(device)

    def turns(ways):
        pair = Pair(gpu, maker("AdamW", **ways), [(70001 if gpu.real else 7001,), (33,)])
        streams = [gpu.stream() for _ in range(3)]
        for number in range(18):
            grads = [torch.randn(p.shape) for p in pair.params[0]]
            for p, g in zip(pair.params[0], grads):
                p.grad = g
            pair.optimizers[0].step()
            ready = [g.to(gpu.device) for g in grads]
            producer, consumer = streams[number % 3], streams[(number + 1) % 3]
            gpu.after(producer, None)
            gpu.after(producer, streams[(number - 1) % 3])
            with gpu.on(producer):
                gpu.sleep(2)  # a step that did not wait would read what was there before
                late = [torch.zeros_like(g).add_(g) for g in ready]
            gpu.after(consumer, producer)
            with gpu.on(consumer):
                for p, g in zip(pair.params[1], late):
                    p.grad = g
                    if gpu.real:
                        g.record_stream(consumer)
                pair.optimizers[1].step()
                pair.optimizers[1].zero_grad(set_to_none=True)
                del late
                # Takes the gradients' memory, if somebody gave it back too early.
                [torch.full_like(p, float("nan")) for p in pair.params[1]]
            gpu.after(None, consumer)
        pair.same()
    return every((name, lambda w=ways: turns(w)) for name, (ways, scaler) in zip(NAMES, WAYS) if not scaler)


def rows_of_zeros(bundles, device):
    """Gradients, states and parameters that are zeros, and empty tensors: the same bytes."""
    gpu = gpus.find(device)

    def zeros(name, ways, dtype):
        pair = Pair(gpu, maker(name, **ways), [(300 if gpu.real else 3, 129), (0,), (4096,), ()], dtype=dtype)
        pair.both(lambda o, ps: [p.data.zero_() for p in ps[:3]])
        pair.step(2, build=lambda g, place: g.zero_())
        pair.step(2, build=lambda g, place: g.mul_(g.abs() > 1.5))
        pair.same()
    return every((f"{name} {list(ways)} {dtype}", lambda a=(name, ways, dtype): zeros(*a)) for name, ways, dtype in
                 itertools.product(("AdamW", "Adagrad", "LAMB"), ({}, CLIP), (torch.float32, torch.bfloat16)))


def several_devices(bundles, device):
    """CPU and GPU, and two GPUs where there are two, in one optimizer under one norm; a spoilt step is skipped on all."""
    gpu = gpus.find(device)
    others = gpu.others()[:1]

    def mixed(places, ways):
        torch.manual_seed(3)
        pair = Pair(gpu, maker("AdamW", lr=0.1, **ways), [(257, 33), (4097,), (7,), (5, 3)],
                    build=lambda v, place: v if v.device.type == "cpu" else v.to(places[place % len(places)]))
        for number in range(6):
            pair.grads()
            if "fused_amp" in ways:
                for params, o in zip(pair.params, pair.optimizers):
                    where = params[0].device
                    o.grad_scale, o.found_inf = (torch.tensor(x).to(where) for x in (2.0, float(number == 3)))
            for o in pair.optimizers:
                o.step()
            if ways.get("max_grad_norm"):
                torch.testing.assert_close(pair.optimizers[1].grad_norm.cpu(), pair.optimizers[0].grad_norm)
        gpu.synchronize()
        for place, (host, other) in enumerate(zip(*pair.params)):
            assert other.device == torch.device(places[place % len(places)]), other.device
            counts = [o.state[p]["step"] for o, p in zip(pair.optimizers, (host, other))]
            equal(*counts, f"count of parameter {place}")
            # The norm is the sum of the devices' shares, in another order than on one device.
            if ways.get("max_grad_norm"):
                torch.testing.assert_close(host.detach(), other.detach().cpu(), msg=lambda m: f"parameter {place}: {m}")
            else:
                equal(host, other, f"parameter {place}")
    kinds = [("CPU and GPU", ["cpu", gpu.device])] + [("two GPUs", [gpu.device, *others]),
                                                      ("all", [gpu.device, "cpu", *others])] * bool(others)
    words = every((f"{name} {list(ways)}", lambda a=(places, ways): mixed(*a)) for name, places in kinds
                  for ways, _ in WAYS)
    return words + ("" if others else ", one GPU: no two in one optimizer")


CHECKS = [nothing_waits, tensors_off_the_gpu, graph_of_training, graph_among_eager, two_graphs,
          streams_and_the_allocator, rows_of_zeros, several_devices]
