"""altgrad.optim in a group of one process, NCCL's on a GPU: what torch.distributed adds to a step changes no bit."""

import itertools
from unittest import mock

import torch
import torch.distributed as dist

from gpu import STAND_IN, Skipped
from pairs import equal, every

SHAPES = (65, 33), (17, 512), (7,), (3, 40, 64)
WAYS = [{}, dict(max_grad_norm=1e-2), dict(storage="m=bf16 v=f32", max_grad_norm=1e6)]


class Layer(torch.nn.Module):
    """Element-wise arithmetic, whose bits no library's choice of an algorithm changes."""

    def __init__(self, shape):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(shape))

    def forward(self, given):
        return (given * self.weight).square().sum()


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(map(Layer, SHAPES))

    def forward(self, given):
        return sum(layer(x.to(layer.weight.dtype)) for layer, x in zip(self.layers, given))


def plain(model, name, words):
    import altgrad
    return getattr(altgrad.optim, name)(model.parameters(), **words)


def fully_sharded(model, name, words, **policy):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh(next(model.parameters()).device.type, (1,))
    for layer in (*model.layers, model):
        fully_shard(layer, mesh=mesh, **policy)
    return plain(model, name, words)


def offloaded(model, name, words):
    """Parameters, gradients and states lie on the CPU, and the layers compute where they did."""
    from torch.distributed.fsdp import CPUOffloadPolicy
    return fully_sharded(model, name, words, offload_policy=CPUOffloadPolicy(pin_memory=False))


def arriving(model, name, words):
    """As `offloaded`, and each gradient is summed for the norm when its copy has come."""
    from torch.distributed.fsdp import CPUOffloadPolicy
    policy = CPUOffloadPolicy(pin_memory=next(model.parameters()).is_cuda)
    return fully_sharded(model, name, {**words, "norm_in_backward": True}, offload_policy=policy)


def zero2(model, name, words):
    import altgrad
    if name == "AdamW":
        return altgrad.distributed.DistAdamW(model.parameters(), bucket_bytes=30000, **words)
    return altgrad.distributed.Sharded(getattr(altgrad.optim, name), model.parameters(), **words)


def trained(make, name, words, dtype, where):
    """(parameters, norms) after five steps."""
    from altgrad._binding import early_norm
    model, norms = Model().to(where, dtype), []
    optimizer = make(model, name, words)
    for step in range(5):
        torch.manual_seed(step)
        given = [torch.randn(shape).to(where) for shape in SHAPES]
        optimizer.zero_grad()
        model(given).backward()
        with mock.patch.object(early_norm, "hook_bytes", lambda: 0):  # hooks are attached in a step
            optimizer.step()
        norms.append(None if optimizer.grad_norm is None else optimizer.grad_norm.cpu())
    if make is arriving and "max_grad_norm" in words:
        assert optimizer._built.tables[0].summed_rows() == (len(SHAPES), 0), optimizer._built.tables[0].summed_rows()
    for param, held in optimizer.state.items():
        for key, value in held.items():
            assert value.device == param.device or not value.dim(), f"{key} is on {value.device}, its parameter on {param.device}"
    return [getattr(param, "_local_tensor", param.data) for param in model.parameters()], norms


def group_of_one(bundles, device):
    """FSDP2, with offloading and without, and ZeRO-2 against the plain optimizer, on the same device."""
    if device.startswith(STAND_IN):
        raise Skipped("no NCCL")
    on_gpu = device.startswith("cuda")
    where = torch.device(device if ":" in device else device + ":0") if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(where)
    dist.init_process_group("nccl" if on_gpu else "gloo", store=dist.HashStore(), rank=0, world_size=1)

    def case(make, name, words, dtype):
        def body():
            mine, theirs = (trained(how, name, words, dtype, where) for how in (plain, make))
            for place, (a, b) in enumerate(zip(mine[0], theirs[0])):
                equal(a, b, f"parameter {place}")
            for a, b in zip(mine[1], theirs[1]):
                assert (a is None and b is None) or torch.isclose(a, b, rtol=1e-6), (a, b)
        return f"{make.__name__} {name} {words} {dtype}", body
    cases = [case(make, "AdamW", words, dtype) for make, words, dtype in itertools.product(
        (fully_sharded, offloaded, arriving, zero2), WAYS, (torch.float32, torch.bfloat16))]
    cases += [case(make, name, {}, torch.float32) for make in (fully_sharded, zero2) for name in ("AdamW8bit", "Lion")]
    try:
        return every(cases)
    finally:
        dist.destroy_process_group()


CHECKS = [group_of_one]
