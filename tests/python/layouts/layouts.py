"""One model in the layouts that clusters give it: replicas, shards, tensor parallel, experts on half of the ranks."""

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

# Shapes that end within chunks, on chunks, in uneven shards and, on four ranks, in an empty one.
PIECES = {"embed": {"weight": (131, 64)}, "up": {"weight": (128, 128), "bias": (128,)}, "down": {"weight": (33, 96), "bias": (3,)},
          "head": {"weight": (48, 64)}, "first": {"weight": (40, 64)}, "second": {"weight": (40, 64)}}
HALVES = {"head": torch.bfloat16}  # what is not float32
TENSOR = {"up": {"weight": 0, "bias": 0}, "down": {"weight": 1}}  # the dimension that tensor parallel cuts


class Piece(torch.nn.Module):
    """Its forward is a loss whose gradients are whole numbers, the same on all ranks: averages over 2, 3 and 4 are exact."""

    def __init__(self, name):
        super().__init__()
        self.name = name
        dice = torch.Generator().manual_seed(list(PIECES).index(name))
        for key, shape in PIECES[name].items():
            value = torch.randn(shape, generator=dice).to(HALVES.get(name, torch.float32))
            self.register_parameter(key, torch.nn.Parameter(value))

    def forward(self, step):
        dice = torch.Generator().manual_seed(1000 * step + list(PIECES).index(self.name))
        total = 0.0
        for param in self.parameters():
            if not is_here(param):
                continue
            grad = 12.0 * torch.randint(-10, 11, param.shape, generator=dice).to(param.dtype)
            share = (param * placed(grad, param)).float().sum()
            total = total + (share.full_tensor() if isinstance(share, DTensor) else share)
        return total


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        for name in PIECES:
            self.add_module(name, Piece(name))

    def forward(self, step):
        return sum([piece(step) for piece in self.children()])


def placed(whole, like):
    """A tensor that every rank has, laid out as `like` is."""
    if not isinstance(like, DTensor):
        return whole
    return distribute_tensor(whole, like.device_mesh, like.placements, src_data_rank=None)


def is_here(param):
    """Whether this rank is in the mesh of a parameter."""
    return not isinstance(param, DTensor) or param.device_mesh.get_coordinate() is not None


def whole_of(param):
    return (param.full_tensor() if isinstance(param, DTensor) else param).detach().clone()


def shard(model, mesh, left=(), ignored=()):
    """FSDP2, without the pieces that are `left` as they are, and the parameters that are `ignored`."""
    for name, piece in model.named_children():
        if name not in left:
            fully_shard(piece, mesh=mesh)
    return fully_shard(model, mesh=mesh, ignored_params=set(ignored))


def cut(model, mesh):
    """Tensor parallel, and plain parameters beside it."""
    for name, dims in TENSOR.items():
        piece = getattr(model, name)
        for key, dim in dims.items():
            value = distribute_tensor(getattr(piece, key).detach(), mesh, [Shard(dim)], src_data_rank=None)
            piece.register_parameter(key, torch.nn.Parameter(value))
    return model


def cut_and_shard(model):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return shard(cut(model, mesh["tp"]), mesh["dp"])


def halves():
    return {"first": DeviceMesh("cpu", [0, 1]), "second": DeviceMesh("cpu", [2, 3])}


def with_modules(model):
    """Each half of the ranks has an expert of its own, which is FSDP2's on that half; the other half has no such module."""
    for name, half in halves().items():
        if half.get_coordinate() is None:
            delattr(model, name)
        else:
            fully_shard(getattr(model, name), mesh=half)
    return shard(model, init_device_mesh("cpu", (4,)), halves())


def with_tensors(model):
    """Experts are DTensors on half of the ranks, and the other half has no part of them."""
    experts = []
    for name, half in halves().items():
        value = distribute_tensor(getattr(model, name).weight.detach(), half, [Shard(0)], src_data_rank=None)
        getattr(model, name).weight = torch.nn.Parameter(value)
        experts.append(getattr(model, name).weight)
    return shard(model, init_device_mesh("cpu", (4,)), halves(), experts)


# The number of ranks, and what becomes of the model.
LAYOUTS = {
    "alone": (1, lambda model: model),
    "DDP": (2, DistributedDataParallel),
    "ZeRO-2": (3, lambda model: model),
    "FSDP2 on 2": (2, lambda model: shard(model, init_device_mesh("cpu", (2,)))),
    "FSDP2 on 3": (3, lambda model: shard(model, init_device_mesh("cpu", (3,)))),
    "FSDP2 on 4": (4, lambda model: shard(model, init_device_mesh("cpu", (4,)))),
    "HSDP": (4, lambda model: shard(model, init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))),
    "TP": (2, lambda model: cut(model, init_device_mesh("cpu", (2,)))),
    "TP and FSDP2": (4, cut_and_shard),
    "experts": (4, with_tensors),
    "modules of experts": (4, with_modules),
}
# Parameters differ between ranks there, which altgrad.distributed refuses.
UNLIKE = "modules of experts",
