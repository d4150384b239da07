"""Parameters that several processes share (DTensors): the part that lies here, and where it lies in the whole."""

from dataclasses import dataclass
from math import prod

import torch

from .layout import contiguous_strides, is_dtensor, local_of


@dataclass(frozen=True, slots=True)
class ShardLocation:
    """Position of this rank's shard within the full tensor, whose `shape` is given.

    `begin` is the index in the whole of its first element, and so is `offset`, which is None where it is no run of
    neighbours. `parted`: whether other processes have other parts. Parts are cut at multiples of `cut` elements, or at
    the end of the whole.
    """

    shape: tuple
    offset: int | None
    parted: bool
    cut: int
    first: int = 0  # `begin` where there is no offset

    @property
    def begin(self):
        return self.first if self.offset is None else self.offset


class LocalShard:
    """What of a DTensor lies here."""

    is_whole = False

    def __init__(self, owner):
        self.owner = owner

    def local(self):
        return local_of(self.owner)

    def is_still(self, tensor):
        """Whether it is `tensor`."""
        return self.owner._local_tensor is tensor

    def grad(self, fallbacks):
        return local_grad(self.owner, fallbacks)


def check_placements(owner, param):
    """Raises for a DTensor that is no parameter of its own on any process: sums that are still to be added."""
    if is_dtensor(param) and any(placement.is_partial() for placement in param.placements):
        raise TypeError(f"altgrad.optim.{owner} does not support {param.placements} parameters: a Partial one has its "
                        "numbers on no process; redistribute it to Shard or Replicate first")


def is_elsewhere(param):
    """Whether a DTensor has nothing on this rank, which is not in its mesh."""
    return is_dtensor(param) and param.device_mesh.get_coordinate() is None


def local_grad(param, fallbacks):
    """The gradient of a parameter as it lies here, or None.

    Of a DTensor it gets the parameter's placements first, which the Counter `fallbacks` counts: tensor parallel layers
    leave sums that are to be added up.
    """
    grad = param.grad
    if grad is None or not is_dtensor(grad):
        return grad
    if grad.placements != param.placements:
        with torch.no_grad():
            param.grad = grad = grad.redistribute(placements=param.placements)
        fallbacks["redistributed"] += 1
    return local_of(grad)


def location_of(param):
    """The ShardLocation of a DTensor, or of a part that says its own; None of another tensor."""
    if not is_dtensor(param):
        return getattr(param, "altgrad_shard_location", None)
    mesh, shape = param.device_mesh, tuple(param.shape)
    here, first = box_of(param)
    # On a mesh of one rank, too, so that its files are those of any other mesh.
    parted = not all(placement.is_replicate() for placement in param.placements)
    by_rows = all([of.is_replicate() or of.dim == 0 for of in param.placements])
    return ShardLocation(shape, _offset(shape, here, first), parted, max(1, prod(shape[1:])) if by_rows else 1,
                         _index(shape, first))


def box_of(tensor):
    """(sizes, begins) in each dimension of what lies here of a tensor; all 0 where it is a DTensor that is elsewhere."""
    if not is_dtensor(tensor):
        return tuple(tensor.shape), (0,) * tensor.dim()
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
    if is_elsewhere(tensor):
        return (0,) * tensor.dim(), (0,) * tensor.dim()
    return compute_local_shape_and_global_offset(tuple(tensor.shape), tensor.device_mesh, tensor.placements)


def replicated_dims(tensor):
    """The dimensions of a DTensor's mesh along which other processes have the same part of it."""
    return tuple([dim for dim, of in enumerate(tensor.placements) if of.is_replicate() and tensor.device_mesh.size(dim) > 1])


def _offset(shape, here, first):
    """The index of the first element, if the part is a run of neighbours: rows of one index, then some, then all."""
    if not prod(here):
        return 0
    cut = max([dim for dim, size in enumerate(shape) if here[dim] != size], default=0)
    if any(size != 1 for size in here[:cut]):
        return None
    return _index(shape, first)


def _index(shape, place):
    """The index of an element in row-major order."""
    return sum([begin * prod(shape[dim + 1:]) for dim, begin in enumerate(place)])


def in_whole(local, param, block=1):
    """A state of the part of `param` that lies here, as a DTensor with the mesh and placements of `param`.

    What has no dimension is of the whole, and stays. Scales of blocks, in one row, get the rows of the parameter.
    """
    if not is_dtensor(param) or not local.dim():
        return local
    part, shape = param._local_tensor, tuple(local.shape)
    if location_of(param).parted:
        if local.dim() == 1 < part.dim():
            local = local.view(part.shape[0], prod(param.shape[1:]) // block)
        shape = tuple(param.shape) if local.shape == part.shape else (param.shape[0], *local.shape[1:])
    return dtensor_of(local, param, shape)


def dtensor_of(local, like, shape):
    """A DTensor of this shape, of which `local` lies here, with the mesh and placements of `like`."""
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
    # from_local would bring the states of an offloaded parameter to the device of its mesh.
    spec = DTensorSpec(like.device_mesh, like.placements, tensor_meta=TensorMeta(
        torch.Size(shape), contiguous_strides(shape), local.dtype))
    return DTensor(local, spec, requires_grad=False)


def local_states(held):
    """The states of a parameter as they lie here, with the scales of blocks in one row."""
    return {key: value if not is_dtensor(value) else local_of(value).view(-1) if _is_scale(key) else local_of(value)
            for key, value in held.items()}


def _is_scale(key):
    return key.endswith("_scale") and not key.startswith("copy")


def absent(param, dtype):
    """A parameter without elements in the place of one that another process steps as a whole; its gradients have `dtype`."""
    made = torch.nn.Parameter(torch.empty(0, dtype=param.dtype, device=local_of(param).device))
    made.altgrad_shard_location, made.grad_dtype = ShardLocation(tuple(param.shape), 0, False, 1), dtype
    return made


def shape_of(param):
    """The shape of a parameter, or of the whole of which it is a part."""
    at = getattr(param, "altgrad_shard_location", None)
    return tuple(param.shape) if at is None else at.shape


def check_local_shard(at, bundle, index):
    """Raises ValueError where the step of a set of a Bundle does what a part of a tensor cannot have."""
    for stream in bundle.sets[index].states:
        if stream.role == "tensor_scale" or stream.columns:
            raise ValueError("it is sharded, and its copy has scales over rows that other ranks have: leave copy= out")
        if stream.role == "block_scale" and at.offset is None:
            raise ValueError(f"it is not sharded along dimension 0, and a block of {stream.key!r} has elements of other ranks: "
                             "shard dimension 0")
        if stream.role == "block_scale" and at.cut % stream.block:
            remedy = ("choose blocks that divide it, and shard dimension 0" if stream.key != "copy" or at.cut > 1 else
                      "give it a param_group of its own, and the others copy= in their storage")
            raise ValueError(f"it is sharded, and each index of its dimension 0 has {at.cut} elements, which is no "
                             f"multiple of the {stream.block} in a block of {stream.key!r}: {remedy}")
    if at.offset is None and any([single.role == "random" for single in bundle.singles]):
        raise ValueError("it is not sharded along dimension 0, and random bits depend on an element's index in the whole tensor: "
                         "shard dimension 0")


def check_units(at):
    """Raises ValueError where a step takes a norm of each unit, and other ranks have parts of one."""
    if len(at.shape) < 2 and prod(at.shape) > 1:
        raise ValueError("max_grad_norm=\"agc-unit\" takes one norm of a vector, and other ranks have parts of it: use \"agc\"")
    if at.cut % max(1, prod(at.shape[1:])) or at.offset is None:
        raise ValueError("max_grad_norm=\"agc-unit\" takes a norm for each index of dimension 0, and other ranks have parts "
                         "of some: use \"agc\"")
