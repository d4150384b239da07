"""A rank that dies or is late: the others say so in bounded time, and the last checkpoint is whole."""

import datetime
import time

import killed
import pytest
import ranks
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

import altgrad

# Where which rank dies, run after run, each of which goes on where the last one was saved.
FAULTS = (1, "backward", 1), (0, "updated", 3), (1, "save", 4), (0, "metadata", 5)
GONE = "perhaps another rank ended or is late"


def test_a_run_goes_on_after_each_death(tmp_path):
    for fault, saved in zip(FAULTS, (0, 2, 3, 4)):
        said = killed.run(tmp_path, fault)
        survivor = said[1 - fault[0]]
        assert isinstance(survivor, str), survivor
        assert GONE in survivor or fault[1] in ("save", "metadata"), survivor
        assert killed.last_of(tmp_path) == saved, fault
    assert set(map(repr, killed.run(tmp_path).values())) == {repr(killed.whole())}


@pytest.mark.parametrize("way", ["FSDP2", "meshes"])
def test_a_run_on_meshes_goes_on_after_a_death(way, tmp_path):
    for fault, saved in (((1, "backward", 1), 0), ((0, "updated", 3), 2)):
        said = killed.run(tmp_path, fault, way=way)
        assert isinstance(said[1 - fault[0]], str) and killed.last_of(tmp_path) == saved, said
    assert set(map(repr, killed.run(tmp_path, way=way).values())) == {repr(killed.whole())}


def late(rank, group):
    """(what is said, after how many seconds) where rank 1 comes after the group's patience has ended."""
    patient, said, begun = dist.new_group(), "", 0.0
    model, optimizer = killed.made(lambda params, **words: altgrad.distributed.DistAdamW(
        params, process_group=patient, **words))
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=4), patient)
    try:
        if rank == 1:
            dist.barrier()  # when the other has given up
        begun = time.monotonic()
        killed.backward(model, 0)
        optimizer.step()
    except RuntimeError as error:
        said = str(error)
    if rank == 0:
        dist.barrier()
    return said, time.monotonic() - begun


def made_on(meshes, rate):
    """A parameter on each mesh, and one that all ranks have, with gradients."""
    params = [torch.nn.Parameter(distribute_tensor(torch.ones(8, 4), mesh, [Shard(0)], src_data_rank=None)) for mesh in meshes]
    params.append(torch.nn.Parameter(torch.ones(3)))
    for param in params:
        param.grad = torch.ones_like(param)
    return params, altgrad.optim.AdamW(params, lr=rate, max_grad_norm=1.0)


def others(rank, group):
    """What each rank says where the last one, whose mesh has half of the ranks, has another rate."""
    half = [DeviceMesh("cpu", half) for half in ([0, 1], [2, 3])][rank // 2]
    params, optimizer = made_on([half, init_device_mesh("cpu", (4,))], 0.1 * (1 + (rank == 3)))
    try:
        optimizer.step()
    except ValueError as error:
        return str(error), [(param.to_local() if isinstance(param, DTensor) else param).unique().tolist() for param in params]


def test_another_rate_on_one_rank_is_an_error_on_all(tmp_path):
    answers, = ranks.run([others], tmp_path, 4)
    for said, numbers in answers:
        assert "differs in lr of group 0 from rank" in said and numbers == [[1.0]] * 3, said  # nothing was stepped


def raising(rank, group):
    """What is said where rank 1 raises in backward alone, and what the others' parameters are then."""
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=4), dist.group.WORLD)
    params, optimizer = made_on([init_device_mesh("cpu", (2,))], 0.1)
    optimizer.step()
    before, begun, said = params[0].to_local().tolist(), time.monotonic(), "raised in backward"
    try:
        if rank == 0:
            optimizer.step()
    except RuntimeError as error:
        said = str(error)
    time.sleep(0 if rank == 0 else 8)  # its process is there
    return said, time.monotonic() - begun, params[0].to_local().tolist() == before


def test_a_rank_that_raises_alone_leaves_nothing_half_applied(tmp_path):
    answers, = ranks.run([raising], tmp_path)
    said, seconds, same = answers[0]
    assert GONE in said and seconds < ranks.CALM and same, answers


def test_a_late_rank_is_not_waited_for_forever(tmp_path):
    answers, = ranks.run([late], tmp_path)
    for said, seconds in answers:
        assert GONE in said and seconds < ranks.CALM, said
