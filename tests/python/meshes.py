"""Parameters of one model on several meshes: plain, FSDP2, HSDP, tensor parallel, slices, three dimensions, experts."""

from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

SHAPES = (12, 6), (8, 6), (9, 4), (6,), (16, 4), (7, 5), (4, 4), (10, 3), (10, 3)


def places(count, rank):
    """[(mesh, placements) of each parameter that lies here, () of a plain one, None of one that is elsewhere].

    The last two are experts, one for each half of the ranks.
    """
    flat = init_device_mesh("cpu", (count,))
    halves = [DeviceMesh("cpu", list(half)) for half in (range(count // 2), range(count // 2, count))]
    square = init_device_mesh("cpu", (2, 2) if count == 4 else (1, count), mesh_dim_names=("dp", "tp"))
    cube = init_device_mesh("cpu", (2, 1, 2) if count == 4 else (1, 1, count))
    experts = [(mesh, [Shard(0)]) if rank in mesh.mesh.tolist() else None for mesh in halves]
    return [(flat, [Shard(0)]), (square, [Shard(0), Shard(1)]), (square["dp"], [Shard(0)]), (), (square["tp"], [Shard(0)]),
            (square, [Replicate(), Shard(0)]), (cube, [Shard(0), Replicate(), Shard(1)]), *experts]


def place(whole, home):
    return distribute_tensor(whole, *home, src_data_rank=None) if home else whole
