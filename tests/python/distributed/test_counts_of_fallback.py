"""No tensor takes a slow way where kernels can step it, those that do are counted, and no object stays behind."""

import warnings

import long
import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

import altgrad


def counted(rank, group):
    """The counts of a sum that is still to be added up, of a float64 shard, and of both without their gradients."""
    warnings.simplefilter("ignore")
    mesh = init_device_mesh("cpu", (2,))
    whole = torch.nn.Parameter(DTensor.from_local(torch.ones(4), mesh, [Replicate()], run_check=False))
    wide = torch.ones(4, dtype=torch.float64)
    wide = torch.nn.Parameter(distribute_tensor(wide, mesh, [Shard(0)], src_data_rank=None))
    optimizer, said = altgrad.optim.AdamW([whole, wide]), []
    for _ in range(2):
        whole.grad = DTensor.from_local(torch.ones(4), mesh, [Partial()], run_check=False)
        wide.grad = wide.detach().clone()
        optimizer.step()
        said.append(optimizer.fallback_counts)
    whole.grad = wide.grad = None
    optimizer.step()
    return [*said, optimizer.fallback_counts]


def test_fallbacks_are_counted_and_objects_do_not_grow(tmp_path):
    said, grown = ranks.run([counted, long.Rank(200)], tmp_path)
    for answer in said:
        assert answer == [{"redistributed": 1, "torch": 1}, *[{"redistributed": 2, "torch": 2}] * 2], answer
    for answer in grown:
        assert not isinstance(answer, str), answer
        for name, (objects, _, slow) in answer.items():
            assert objects < 20 and slow == {}, (name, objects, slow)
