"""Runs functions of a test in several processes that share a gloo group, each on one thread."""

import contextlib
import datetime
import multiprocessing
import os
import queue
import time
import traceback

import torch
import torch.distributed as dist

WAIT = 600  # seconds until there is an answer, and until a rank gives up another, on a machine that is busy, too
CALM = 60  # seconds that are left to the others when a rank has failed or ended, for they may wait for it


def run(functions, folder, count=2):
    """[what `function(rank, group)` returned on each rank, or its traceback] of each function; none is called after that."""
    context = multiprocessing.get_context("forkserver")  # torch is imported once; altgrad reads the environment later
    context.set_forkserver_preload(["pytest", "torch", "torch.distributed.checkpoint", "torch.distributed.fsdp"])
    answers = context.Queue()
    ranks = [context.Process(target=_rank, args=(functions, str(folder / "store"), rank, count, answers,
                                                 dict(os.environ))) for rank in range(count)]
    for rank in ranks:
        rank.start()
    got = _collect(ranks, answers)
    for place, rank in enumerate(ranks):
        if place not in got:  # nobody reads what it answers later, so it would never end
            rank.kill()
        rank.join()
    missing = [f"rank {place} has not answered; it ended with {rank.exitcode}" for place, rank in enumerate(ranks)]
    return list(zip(*[got.get(place, [missing[place]] * len(functions)) for place in range(count)]))


def _collect(ranks, answers):
    """{rank: its answers} of those that come in time."""
    got, end, fine = {}, time.monotonic() + WAIT, True
    while len(got) < len(ranks) and time.monotonic() < end:
        lost = any([rank.exitcode is not None and place not in got for place, rank in enumerate(ranks)])
        with contextlib.suppress(queue.Empty):
            rank, said, failed = answers.get(timeout=1)
            got[rank], lost = said, lost or failed
        if fine and lost:
            fine, end = False, time.monotonic() + CALM
    return got


def _rank(functions, store, rank, count, answers, environment):
    os.environ.clear()
    os.environ.update(environment)  # of the test, which may have changed it since the server of forks began
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, count), rank=rank, world_size=count,
                            timeout=datetime.timedelta(seconds=WAIT))
    said, failed = [], False
    for function in functions:
        try:
            said.append(said[-1] if failed else function(rank, dist.group.WORLD))
        except Exception:
            said.append(traceback.format_exc())
            failed = True
    answers.put((rank, said, failed))
    if not failed:
        dist.destroy_process_group()
