"""The processes that take a step together, and the all-reduce of what each of them knows."""

import hashlib
from contextlib import contextmanager

import torch

from .layout import is_dtensor, local_of, name_of


@contextmanager
def exchange(what):
    """Says of an exchange between ranks that fails, `what`, that the run is over; raises RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise RuntimeError(f"altgrad: {what} failed; perhaps another rank ended or is late. Parameters and states may differ "
                           f"between ranks now: begin again from the last checkpoint ({reason})") from error


class Ranks:
    """Processes in one order that all of them have; false where this one is alone.

        Ranks(groups, mesh, mixed)

    `groups` are process groups whose product they are, the outermost first; `mesh` is that of DTensors, or None;
    `mixed` names two parameters whose meshes differ, so that nothing can be added up.
    """

    def __init__(self, groups=(), mesh=None, mixed=()):
        self._groups, self.mesh, self.mixed = list(groups), mesh, mixed
        self._first = mesh is None or not any(mesh.get_coordinate())
        self._copies = () if mesh is None else tuple([dim for dim in range(mesh.ndim) if mesh.size(dim) > 1])

    def __bool__(self):
        return bool(self._groups)

    def counts(self, at):
        """Whether sums over all ranks take the parameter at this ShardLocation, or None, from here.

        The same plain tensor beside DTensors is on every rank of their mesh.
        """
        return self._first if at is None else at.counted

    def copies(self, at):
        """The dimensions of the mesh along which other ranks have the same as the parameter at this ShardLocation, or None."""
        return self._copies if at is None else at.copies

    def gather(self, words):
        """[ranks, words]: the tensors of one dimension of all ranks, on the device of this one's."""
        import torch.distributed as dist
        given = words.detach()
        count = len(given)
        for group in reversed(self._groups):
            given = given.to(_device_for(group, given.device)).contiguous()
            parts = [torch.empty_like(given) for _ in range(dist.get_world_size(group))]
            with exchange("a sum over ranks"):
                dist.all_gather(parts, given, group=group)
            given = torch.stack(parts)
        return given.view(-1, count).to(words.device)

    def sum(self, share):
        """The sum of every rank's share, added in the order of ranks: the same bits on all of them.

        `share` is a number, or a 0-dim tensor; then the sum is one, on the same device.
        """
        own = isinstance(share, torch.Tensor)
        mine = (share if own else torch.tensor(share, dtype=torch.float64, device="cpu")).detach().to(torch.float64).reshape(1)
        total = torch.zeros_like(mine)
        for part in self.gather(mine):
            total += part
        return total[0] if own else total.item()

    def agree(self, text):
        """The first rank that does not say what rank 0 says, a string; None where all do."""
        mine = int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big")
        digests = self.gather(torch.tensor([mine], dtype=torch.int64, device="cpu")).view(-1).tolist()
        return next((rank for rank, digest in enumerate(digests) if digest != digests[0]), None)

    def check(self, optimizer, text):
        """Raises where parameters of different meshes have to be added up; and where another rank has other DTensors to
        add up: `text` tells them. All ranks have others in the same step, so they ask in the same."""
        if self.mixed:
            names = " and ".join([name_of(optimizer, param) for param in self.mixed])
            raise RuntimeError(
                f"altgrad.optim.{type(optimizer).__name__}: {names} are DTensors of different meshes, and the step "
                "adds up what all processes know: give an optimizer parameters of one mesh")
        if self.mesh is None or hash(text) in optimizer._agreed:
            return
        if (other := self.agree(text)) is not None:
            raise ValueError(
                f"altgrad.optim.{type(optimizer).__name__}: rank {other} of {self.mesh} has other DTensors with "
                "gradients than rank 0, another order of them, or other options, so that the ranks cannot add up their parts")
        optimizer._agreed = optimizer._agreed | {hash(text)}


def ranks_of(optimizer):
    """The Ranks of an optimizer: those of its process_group, or of the mesh of its DTensors."""
    group = optimizer.process_group
    sharded = [param for of in optimizer.param_groups for param in of["params"] if is_dtensor(param)]
    if group is not None:
        if sharded:
            raise RuntimeError(f"altgrad.optim.{type(optimizer).__name__}: a parameter is a DTensor, whose norm is of "
                               "all ranks already, and process_group would add them once more: leave it out")
        return Ranks([group])
    if not sharded:
        return Ranks()
    mesh = sharded[0].device_mesh
    mixed = [param for param in sharded if param.device_mesh != mesh][:1]
    groups = [mesh.get_group(dim) for dim in range(mesh.ndim)] if mesh.size() > 1 else []
    return Ranks(groups, mesh, (sharded[0], *mixed) if mixed else ())


def _device_for(group, device):
    """Where the group's ranks can exchange what lies on `device`."""
    device_types = _device_types(group)
    # gloo names GPUs, too, where there are none.
    if device.type in device_types or not device_types:
        return device
    return torch.device("cpu" if "cpu" in device_types else device_types[0])


def _device_types(group):
    return [of.type for of in group._device_types]


def check_reach(owner, params, group):
    """Raises ValueError for a parameter on a device for which a process group has no backend, so that it cannot travel."""
    device_types = _device_types(group)
    for param in params:
        kind = local_of(param).device.type
        if device_types and kind not in device_types:
            raise ValueError(f"{owner}: a parameter of shape {tuple(param.shape)} is on {kind}, and process_group exchanges "
                             f"what is on {' and '.join(sorted(device_types))}: move the model, or begin the group with a backend "
                             "for each, such as init_process_group('cpu:gloo,cuda:nccl')")
