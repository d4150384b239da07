"""Runs functions of a test in several processes that share a gloo group, each on one thread."""

import datetime
import multiprocessing
import os
import queue
import traceback

import torch
import torch.distributed as dist

CALM = 60  # seconds until a rank that waits for another gives up
WAIT = 10 * CALM  # seconds until there is an answer, on a machine that others keep busy, too


def run(functions, folder, count=2):
    """[what `function(rank, group)` returned on each rank, or its traceback] of each function."""
    context = multiprocessing.get_context("forkserver")  # torch is imported once; altgrad reads the environment later
    context.set_forkserver_preload(["pytest", "torch", "torch.distributed.checkpoint", "torch.distributed.fsdp"])
    answers = context.Queue()
    ranks = [context.Process(target=_rank, args=(functions, str(folder / "store"), rank, count, answers,
                                                 dict(os.environ))) for rank in range(count)]
    for rank in ranks:
        rank.start()
    try:
        got = dict(answers.get(timeout=WAIT) for _ in ranks)
    except queue.Empty:  # nobody reads what they answer later, so they would never end
        for rank in ranks:
            rank.kill()
        raise TimeoutError(f"not every rank has answered within {WAIT} s") from None
    for rank in ranks:
        rank.join()
    return list(zip(*[got[rank] for rank in range(count)]))


def _rank(functions, store, rank, count, answers, environment):
    os.environ.clear()
    os.environ.update(environment)  # of the test, which may have changed it since the server of forks began
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, count), rank=rank, world_size=count,
                            timeout=datetime.timedelta(seconds=CALM))
    answers.put((rank, [_answer(function, rank) for function in functions]))
    dist.destroy_process_group()


def _answer(function, rank):
    try:
        return function(rank, dist.group.WORLD)
    except Exception:
        return traceback.format_exc()
