"""A step that was captured, replayed with other gradients and among other steps."""

import ctypes

import pytest
import torch
from conftest import KIND

import altgrad.optim

SIZES = [(100,), (33, 5), (5000,)]


def cu(name, *arguments):
    """Calls a function of the test driver."""
    library, function, found = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_int()
    library.cuGetProcAddress_v2.argtypes = [
        ctypes.c_char_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_void_p]
    assert library.cuGetProcAddress_v2(
        name.encode(), ctypes.byref(function), 12080, 0, ctypes.byref(found)) == 0
    kinds = [type(argument) for argument in arguments]
    assert ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(function.value)(*arguments) == 0, name


class Graph:
    """What happens in a `with` on a stream of its own, to be replayed."""

    def __enter__(self):
        self.before = torch.ops.altgrad_test_device.use_stream(0, -1)
        self.stream = torch.ops.altgrad_test_device.use_stream(0, self.before)
        torch.ops.altgrad_test_device.use_stream(0, self.stream)
        cu("cuStreamBeginCapture", ctypes.c_void_p(self.stream), ctypes.c_int(0))

    def __exit__(self, *_):
        graph, self.ready = ctypes.c_void_p(), ctypes.c_void_p()
        cu("cuStreamEndCapture", ctypes.c_void_p(self.stream),
           ctypes.c_void_p(ctypes.addressof(graph)))
        cu("cuGraphInstantiateWithFlags", ctypes.c_void_p(ctypes.addressof(self.ready)), graph,
           ctypes.c_uint64(0))
        torch.ops.altgrad_test_device.use_stream(0, self.before)

    def replay(self):
        cu("cuGraphLaunch", self.ready, ctypes.c_void_p(self.stream))


def made(dtype, make):
    values = [torch.randn(size).to(dtype) for size in SIZES]
    lists = ([torch.nn.Parameter(v.to(f"{KIND}:0")) for v in values],
             [torch.nn.Parameter(v.clone()) for v in values])
    return lists, [make(of) for of in lists]


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
    lists, (there, here) = made(dtype, lambda of: altgrad.optim.AdamW(
        of, lr=1e-2, max_grad_norm=bound))
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
