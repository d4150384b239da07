"""The ranks of a Sharded: those that share the parts, and those of other rows of a mesh that have the same part."""

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from .._binding.rank_sets import RankSet, check_group


def take_ranks(owner, given):
    """(the group that shares the parts, the group of replicas or None, all of them as a RankSet) of a process group, a
    DeviceMesh of one dimension or of replicas x shards, or None.

    Raises TypeError or ValueError for anything else.
    """
    if not isinstance(given, DeviceMesh):
        group = check_group(dist.group.WORLD if given is None else given)
        return group, None, RankSet([group])
    if given.ndim > 2:
        raise ValueError(f"{owner}: process_group is a mesh of {given.ndim} dimensions; it takes one, or replicas x shards")
    if given.get_coordinate() is None:
        raise ValueError(f"{owner}: process_group is a mesh, and this rank is not in it")
    groups = [given.get_group(dim) for dim in range(given.ndim)]
    replicas = groups[0] if given.ndim == 2 and given.size(0) > 1 else None
    return groups[-1], replicas, RankSet(groups, given.mesh.flatten().tolist())
