"""Processes that exchange what each of them knows, by one flat collective whatever their number."""

import hashlib
from contextlib import contextmanager
from math import prod

import torch

from .layout import local_of


@contextmanager
def exchange(what):
    """Says of an exchange between ranks that fails, `what`, that the run is over; raises RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        raise RuntimeError(f"altgrad: {what} failed; perhaps another rank ended or is late. Parameters and states may differ "
                           f"between ranks now: begin again from the last checkpoint ({reason})") from error


class RankSet:
    """Processes in one order that all of them have.

        RankSet(groups)

    `groups` are process groups whose product they are, the outermost first. `members` are their ranks, and `first` is
    the first one of them.
    """

    def __init__(self, groups, members=None):
        import torch.distributed as dist
        self._groups, self._sizes = list(groups), [dist.get_world_size(group) for group in groups]
        self.members = tuple(dist.get_process_group_ranks(groups[0]) if members is None else members)
        self.first = self.members[0]

    @classmethod
    def of_mesh(cls, mesh):
        """The ranks of a DeviceMesh; of all ranks by one collective, otherwise by one for each dimension."""
        import torch.distributed as dist
        if mesh.size() == dist.get_world_size() and mesh.device_type in device_types(dist.group.WORLD):
            return cls([dist.group.WORLD])
        return cls([mesh.get_group(dim) for dim in range(mesh.ndim) if mesh.size(dim) > 1], mesh.mesh.flatten().tolist())

    def __repr__(self):
        return f"the ranks {', '.join(map(str, self.members[:8]))}{', ...' * (len(self.members) > 8)}"

    def is_first(self):
        import torch.distributed as dist
        return dist.get_rank() == self.first

    def one_group(self):
        """A process group of all of them; where there is none they make one, at once."""
        import torch.distributed as dist
        if len(self._groups) == 1:
            return self._groups[0]
        return dist.new_group(sorted(self.members), use_local_synchronization=True)

    def gather(self, words):
        """[ranks, words]: the tensors of one dimension of all ranks, on the device of this one's."""
        import torch.distributed as dist
        given = words.detach()
        for group, size in zip(reversed(self._groups), reversed(self._sizes)):
            given = given.to(_device_for(group, given.device)).contiguous()
            every = given.new_empty(size * len(given))
            with exchange("a sum over ranks"):
                dist.all_gather_into_tensor(every, given, group=group)
            given = every
        return given.view(prod(self._sizes), len(words)).to(words.device)

    def sum(self, shares):
        """The sums of what every rank has: a number, or a tensor of any shape whose sums are float64 on the same device.

        Shares are numbers of float32 as a rule, whose sum in float64 depends on no order.
        """
        return self._all_reduce(shares, "SUM")

    def worst(self, values):
        """The largest of what every rank has, as `sum` takes it."""
        return self._all_reduce(values, "MAX")

    def _all_reduce(self, given, op):
        import torch.distributed as dist
        if not isinstance(given, torch.Tensor):
            return self._all_reduce(torch.tensor(given, dtype=torch.float64, device="cpu"), op).item()
        total = given.detach().to(torch.float64, copy=True)
        for group in reversed(self._groups):
            total = total.to(_device_for(group, total.device))
            with exchange("a sum over ranks"):
                dist.all_reduce(total, getattr(dist.ReduceOp, op), group=group)
        return total.to(given.device)

    def agree(self, text):
        """The first rank that does not say what the first one says, a string; None where all do."""
        digests = self.gather(_digests([text])).view(-1).tolist()
        return next((self.members[rank] for rank, digest in enumerate(digests) if digest != digests[0]), None)

    def differences(self, facts):
        """The names of what a rank says otherwise than the first one, of a dict; none where ranks have other names."""
        if self.agree(repr(list(facts))) is not None:
            return []
        digests = self.gather(_digests(map(repr, facts.values())))
        return [name for name, same in zip(facts, (digests == digests[0]).all(dim=0).tolist()) if not same]


def _digests(texts):
    return torch.tensor([int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") for text in texts],
                        dtype=torch.int64, device="cpu")


def _device_for(group, device):
    """Where the group's ranks can exchange what lies on `device`."""
    known = device_types(group)
    # gloo names GPUs, too, where there are none.
    if device.type in known or not known:
        return device
    return torch.device("cpu" if "cpu" in known else known[0])


def device_types(group):
    """The types of devices for which a process group has a backend."""
    return [of.type for of in group._device_types]


def check_reach(owner, params, group):
    """Raises ValueError for a parameter on a device for which a process group has no backend, so that it cannot travel."""
    known = device_types(group)
    for param in params:
        kind = local_of(param).device.type
        if known and kind not in known:
            raise ValueError(f"{owner}: a parameter of shape {tuple(param.shape)} is on {kind}, and process_group exchanges "
                             f"what is on {' and '.join(sorted(known))}: move the model, or begin the group with a backend "
                             "for each, such as init_process_group('cpu:gloo,cuda:nccl')")


def check_group(group):
    """Raises unless `group` is None or a process group that this rank is in."""
    if group is None:
        return group
    import torch.distributed as dist
    if not dist.is_available() or not isinstance(group, dist.ProcessGroup):
        if dist.is_available() and group is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError("process_group: this rank is not in the group")
        raise TypeError("process_group is a torch.distributed.ProcessGroup or None, "
                        f"not {type(group).__name__}")
    return group
