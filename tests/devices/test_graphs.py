"""A step that was captured, replayed with other gradients and among other steps."""

import ctypes
import gc
import threading

import pytest
import torch
from conftest import KIND, cu

import altgrad

SIZES = [(100,), (33, 5), (5000,)]


class Graph:
    """What happens in a `with` on a stream of its own, to be replayed."""

    stream, ready = -1, None

    def __enter__(self):
        self.destroy()
        self.before = torch.ops.altgrad_test_device.use_stream(0, self.stream)
        self.stream = torch.ops.altgrad_test_device.use_stream(0, self.before)
        torch.ops.altgrad_test_device.use_stream(0, self.stream)
        cu("cuStreamBeginCapture", ctypes.c_void_p(self.stream), ctypes.c_int(0))

    def __exit__(self, *_):
        graph, self.ready = ctypes.c_void_p(), ctypes.c_void_p()
        cu("cuStreamEndCapture", ctypes.c_void_p(self.stream),
           ctypes.c_void_p(ctypes.addressof(graph)))
        cu("cuGraphInstantiateWithFlags", ctypes.c_void_p(ctypes.addressof(self.ready)), graph,
           ctypes.c_uint64(0))
        cu("cuGraphDestroy", graph)
        torch.ops.altgrad_test_device.use_stream(0, self.before)

    def destroy(self):
        if self.ready:
            cu("cuGraphExecDestroy", self.ready)
            self.ready = None

    def replay(self):
        cu("cuGraphLaunch", self.ready, ctypes.c_void_p(self.stream))


def made(dtype, make):
    values = [torch.randn(size).to(dtype) for size in SIZES]
    lists = ([torch.nn.Parameter(v.to(f"{KIND}:0")) for v in values],
             [torch.nn.Parameter(v.clone()) for v in values])
    return lists, [make(of) for of in lists]


def adamw(params, **options):
    return altgrad.optim.AdamW(params, lr=1e-2, capturable=params[0].device.type == KIND, **options)


def give(lists, into=None):
    """New gradients; `into` the memory of others, as a captured backward writes them."""
    for index, (there, here) in enumerate(zip(*lists)):
        here.grad = torch.randn_like(here)
        if into is None:
            there.grad = here.grad.to(there.device)
        else:
            into[index].copy_(here.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bound", [None, 1.0])
def test_replays_among_steps(dtype, bound):
    lists, (there, here) = made(dtype, lambda of: adamw(of, max_grad_norm=bound))
    give(lists)
    for optimizer in (there, here):
        optimizer.step()
    static = [p.grad for p in lists[0]]
    graph = Graph()
    with graph:
        there.step()
    for round in range(5):
        give(lists, into=static)
        graph.replay()
        here.step()
        if round % 2:
            give(lists)
            there.step()
            here.step()
    for mine, its in zip(*lists):
        assert torch.equal(mine.detach().cpu(), its.detach())
        assert there.state[mine]["step"].item() == here.state[its]["step"].item() == 8


def test_a_graph_keeps_the_numbers_of_its_capture():
    lists, (there, here) = made(torch.float32, lambda of: altgrad.optim.SGD(of, lr=1.0))
    give(lists)
    for optimizer in (there, here):
        optimizer.step()
    static, graph = [p.grad for p in lists[0]], Graph()
    with graph:
        there.step()
    there.param_groups[0]["lr"] = 1e6
    give(lists)
    there.param_groups[0]["lr"] = 0.0
    there.step()
    for _ in range(2):
        give(lists, into=static)
        graph.replay()
        here.step()
    for mine, its in zip(*lists):
        assert torch.equal(mine.detach().cpu(), its.detach())


# What may happen to an optimizer after its step was captured; each takes the lists and the two optimizers.

def one_gradient_less(lists, optimizers):
    give(lists)
    for params, optimizer in zip(lists, optimizers):
        params[1].grad = None
        optimizer.step()


def another_group(lists, optimizers):
    value = torch.randn(9)
    for params, optimizer, place in zip(lists, optimizers, (f"{KIND}:0", "cpu")):
        optimizer.add_param_group({"params": [torch.nn.Parameter(value.to(place, copy=True))]})
    give(lists)
    for optimizer in optimizers:
        optimizer.step()


def a_loaded_file(lists, optimizers):
    for optimizer in optimizers:
        optimizer.load_state_dict(optimizer.state_dict())
    give(lists)
    for optimizer in optimizers:
        optimizer.step()


def another_scaler(lists, optimizers):
    give(lists)
    for params, optimizer in zip(lists, optimizers):
        scaler = altgrad.amp.GradScaler(params[0].device.type, init_scale=1.0)
        scaler.scale(torch.ones((), device=params[0].device))
        scaler.step(optimizer)


def a_second_graph(lists, optimizers):
    give(lists)
    for optimizer in optimizers:
        optimizer.step()
    with Graph():
        optimizers[0].step()


def deleted(lists, optimizers):
    del optimizers[0]
    gc.collect()


def other_steps():
    """Who takes memory that came back, for tables of the same size."""
    values = [torch.nn.Parameter(torch.randn(size, device=f"{KIND}:0")) for size in SIZES]
    for _ in range(20):
        optimizer = altgrad.optim.AdamW(values, lr=1.0, max_grad_norm=1.0)
        for value in values:
            value.grad = torch.randn_like(value)
        optimizer.step()


@pytest.mark.parametrize("event", [one_gradient_less, another_group, a_loaded_file, another_scaler, a_second_graph,
                                   deleted])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_graph_keeps_what_it_uses(event, dtype):
    lists, optimizers = made(dtype, lambda of: adamw(of, max_grad_norm=1.0))
    give(lists)
    for optimizer in optimizers:
        optimizer.step()
    static, graph = [p.grad for p in lists[0]], Graph()
    with graph:
        optimizers[0].step()
    states = [[] if event is deleted else list(optimizers[0].state[p].values()) for p in lists[0]]
    # A file that is loaded brings other states: the twin goes on with those of the capture.
    here = adamw(lists[1], max_grad_norm=1.0)
    for param in lists[1]:
        here.state[param] = optimizers[1].state[param]
    event(lists, optimizers)
    del optimizer
    other_steps()
    for _ in range(2):
        give(lists, into=static)
        graph.replay()
        here.step()
    for mine, its, kept in zip(*lists, states):
        assert torch.equal(mine.detach().cpu(), its.detach())
        for value, other in zip(kept, here.state[its].values()):
            assert torch.equal(value.cpu(), other)


def test_captured_a_thousand_times_nothing_grows():
    lists, (there, _) = made(torch.float32, lambda of: adamw(of, max_grad_norm=1.0))
    give(lists)
    there.step()
    library, graph = ctypes.CDLL("libcuda.so.1"), Graph()
    library.fakecuda_get.restype = ctypes.c_int64
    for turn in range(1000):
        with graph:
            there.step()
        if turn == 100:  # what is spare has been made by then
            alive = library.fakecuda_get(b"alive")
    assert library.fakecuda_get(b"alive") == alive


def test_a_clip_outlives_the_thread_that_captured_it():
    there = [torch.nn.Parameter(torch.zeros(size, device=f"{KIND}:0")) for size in SIZES]
    for param in there:
        param.grad = torch.full_like(param, 3.0)
    graph = Graph()

    def work():
        altgrad.ops.clip_grad_norm_(there, 1.0)
        with graph:
            altgrad.ops.clip_grad_norm_(there, 1.0)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    gc.collect()
    other_steps()
    for param in there:
        param.grad.fill_(3.0)
    here = [torch.nn.Parameter(torch.zeros(size)) for size in SIZES]
    for param in here:
        param.grad = torch.full_like(param, 3.0)
    altgrad.ops.clip_grad_norm_(here, 1.0)
    graph.replay()
    for mine, its in zip(there, here):
        assert torch.equal(mine.grad.cpu(), its.grad)
