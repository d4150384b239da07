"""A run of two ranks that ends at any moment and goes on from its last checkpoint: tools/soak.sh killed COUNT [SEED].

The ways are DistAdamW, FSDP2, and DTensors of several meshes beside a plain parameter; runs take them in turn.
"""

import contextlib
import datetime
import multiprocessing
import os
import pathlib
import random
import signal
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     set_model_state_dict, set_optimizer_state_dict)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import altgrad

STEPS, RANKS = 8, 2
CALM = 300  # seconds until a rank that waits for another gives up, on a machine that is busy, too
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
WORDS = dict(lr=0.01, max_grad_norm=1e6)


class Writer(dcp.FileSystemWriter):
    """Calls `fault` in the middle of a save."""

    def __init__(self, path, fault):
        super().__init__(path)
        self.fault = fault

    def write_data(self, *args, **words):
        self.fault("save")
        return super().write_data(*args, **words)

    def finish(self, *args, **words):
        self.fault("metadata")  # of rank 0, when all have written
        return super().finish(*args, **words)


class Model(torch.nn.Module):
    """The gradients of its loss are whole numbers, the same on all ranks: their averages over two and three are exact."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(96, 64), torch.nn.Linear(64, 33))

    def forward(self, step):
        torch.manual_seed(step)
        params = list(self.net.parameters())
        grads = [6.0 * torch.randint(-10, 11, param.shape) for param in params]
        placed = [distribute_tensor(grad, param.device_mesh, param.placements, src_data_rank=None) if isinstance(param, DTensor)
                  else grad for param, grad in zip(params, grads)]
        shares = [(param * grad).sum() for param, grad in zip(params, placed)]
        return sum([share.full_tensor() if isinstance(share, DTensor) else share for share in shares])


def on_meshes(model):
    """Rows on one mesh, columns on another, a vector on a slice, and a plain one."""
    flat, square = init_device_mesh("cpu", (RANKS,)), init_device_mesh("cpu", (1, RANKS), mesh_dim_names=("dp", "tp"))
    first, second = model.net
    for layer, name, mesh, placements in ((first, "weight", flat, [Shard(0)]), (second, "weight", square, [Replicate(), Shard(1)]),
                                          (first, "bias", square["tp"], [Shard(0)])):
        value = distribute_tensor(getattr(layer, name).detach(), mesh, placements, src_data_rank=None)
        setattr(layer, name, torch.nn.Parameter(value))
    return model


# What becomes of the model, and the class that steps it.
WAYS = {"DistAdamW": (lambda model: model, altgrad.distributed.DistAdamW), "FSDP2": (fully_shard, altgrad.optim.AdamW),
        "meshes": (on_meshes, altgrad.optim.AdamW)}


def made(kind, change=lambda model: model):
    model = Model()
    change(model)
    return model, kind(model.parameters(), **WORDS)


def backward(model, step):
    model(step).backward()


def numbers(model):
    return [(param.full_tensor() if isinstance(param, DTensor) else param).flatten().tolist() for param in model.parameters()]


def whole(kind=altgrad.optim.AdamW):
    """The parameters after all steps of one process that nobody disturbs."""
    model, optimizer = made(kind)
    for step in range(STEPS):
        optimizer.zero_grad()
        backward(model, step)
        optimizer.step()
    return numbers(model)


def last_of(folder):
    """The number of the last step that was saved by all ranks; -1 before the first."""
    return max([int(path.parent.name) for path in folder.glob("*/.metadata")], default=-1)


def train(folder, fault, way="DistAdamW"):
    """Goes on from the last checkpoint; `fault(point, step)` is called at many points."""
    change, kind = WAYS[way]
    model, optimizer = made(kind, change)
    first, at = last_of(folder) + 1, [0]
    if first:
        state = {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer, options=FLAT)}
        dcp.load(state, checkpoint_id=folder / str(first - 1))
        set_model_state_dict(model, state["model"])
        set_optimizer_state_dict(model, optimizer, state["optim"], options=FLAT)
    next(model.parameters()).register_post_accumulate_grad_hook(lambda _: fault("backward", at[0]))
    getattr(optimizer, "local_optimizer", optimizer).register_step_post_hook(lambda *_: fault("updated", at[0]))
    for at[0] in range(first, STEPS):
        fault("begin", at[0])
        optimizer.zero_grad()
        backward(model, at[0])
        optimizer.step()
        state = {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer, options=FLAT)}
        dcp.save(state, storage_writer=Writer(folder / str(at[0]), lambda point: fault(point, at[0])))
    return numbers(model)


def rank_of(folder, store, rank, fault, answer, way):
    torch.set_num_threads(1)

    def here(point, step):
        if point == "begin":
            answer.send(step)
        if fault == (rank, point, step):
            os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.init_process_group("gloo", store=dist.FileStore(str(store), RANKS), rank=rank, world_size=RANKS,
                                timeout=datetime.timedelta(seconds=CALM))
        answer.send(train(folder, here, way))
    except BaseException as error:  # as CheckpointException is
        answer.send(f"{type(error).__name__}: {error}")
    os._exit(0)  # what is left of the group need not be waited for


def run(folder, fault=None, after=None, way="DistAdamW"):
    """{rank: its parameters, or what it says} of the ranks that live; one dies at `fault` (rank, point, step), or
    `after` (rank, seconds) of its first step. AssertionError where a rank does not end in time."""
    context, said = multiprocessing.get_context("forkserver"), {}
    context.set_forkserver_preload(["torch", "torch.distributed.checkpoint"])  # imported once
    with tempfile.TemporaryDirectory() as place:
        pipes = [context.Pipe(duplex=False) for _ in range(RANKS)]
        ranks = [context.Process(target=rank_of, args=(folder, pathlib.Path(place, "store"), rank, fault, pipes[rank][1], way))
                 for rank in range(RANKS)]
        for process in ranks:
            process.start()
        if after and pipes[after[0]][0].poll(3 * CALM):
            ranks[after[0]].join(after[1])
            ranks[after[0]].kill()
        for _, end in pipes:
            end.close()
        for rank, (answer, _) in enumerate(pipes):
            with contextlib.suppress(EOFError, OSError):  # of a rank that was killed, perhaps while it sent
                while not isinstance(said.get(rank), (str, list)):
                    assert answer.poll(3 * CALM) or [process.kill() for process in ranks] is None, "a rank waits for the other"
                    said[rank] = answer.recv()
        for process in ranks:
            process.join()
    return said


def main(count, seed):
    dice, expected, every = random.Random(seed), whole(), 0
    with tempfile.TemporaryDirectory() as place:
        for number in range(count):
            folder = pathlib.Path(place, str(number))
            folder.mkdir()
            kills, way = 0, list(WAYS)[number % len(WAYS)]
            while last_of(folder) < STEPS - 1:
                said = run(folder, after=(dice.randrange(RANKS), dice.uniform(0.0, 0.5)), way=way)
                kills += len([answer for answer in said.values() if isinstance(answer, list)]) < RANKS
                assert all(not isinstance(answer, list) or answer == expected for answer in said.values()), said
            done = run(folder, way=way)  # nothing is left to do, and the last checkpoint is read
            assert all(done[rank] == expected for rank in range(RANKS)), f"seed {seed}, run {number}, {way}: {done}"
            every += kills
            print(f"run {number}, {way}: {kills} kills, {every} so far, and the parameters of an undisturbed run", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
