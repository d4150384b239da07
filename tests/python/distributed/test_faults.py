"""A rank that dies or is late: the others say so in bounded time, and the last checkpoint is whole."""

import datetime
import time

import killed
import ranks
import torch.distributed as dist

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


def test_a_late_rank_is_not_waited_for_forever(tmp_path):
    answers, = ranks.run([late], tmp_path)
    for said, seconds in answers:
        assert GONE in said and seconds < ranks.CALM, said
