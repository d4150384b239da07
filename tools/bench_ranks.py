#!/usr/bin/env python3
"""Measures steps of several ways to train on RANKS processes of this machine (gloo), and counts what they send.

    tools/bench_ranks.py                         the table: milliseconds of a step, bytes sent, memory of a rank
    tools/bench_ranks.py --json FILE             the same in a file, for tools/model_ranks.py
    tools/bench_ranks.py --elements 1000000      a larger model

A way is DDP with torch's fused AdamW, ZeroRedundancyOptimizer, FSDP2 with torch's fused AdamW, FSDP2 with altgrad's, and
altgrad.distributed.DistAdamW. "step" is the time from the end of backward to the end of the step. "sent" is what a rank
sends in forward, backward and step if collectives go in a ring; what they are given is counted at torch's operators.
"states" and "rest" are the bytes of states, and of parameters and gradients, that a rank keeps before a step.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "tests" / "python")]

import ranks  # noqa: E402
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import altgrad  # noqa: E402

WORDS = dict(lr=1e-3, weight_decay=0.1)
# Of a collective of `c10d`: (name, the argument that has the whole, the share of the whole that a rank of N sends in a ring).
RINGS = {"allreduce_": ("all-reduce", 0, lambda n: 2 * (n - 1) / n), "reduce_": ("reduce", 0, lambda n: (n - 1) / n),
         "_reduce_scatter_base_": ("reduce-scatter", 1, lambda n: (n - 1) / n),
         "_allgather_base_": ("all-gather", 0, lambda n: (n - 1) / n), "allgather_": ("all-gather", 0, lambda n: (n - 1) / n),
         "broadcast_": ("broadcast", 0, lambda n: (n - 1) / n)}


def model_of(width, layers=4):
    torch.manual_seed(0)
    return torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(layers)])


def sharded(model):
    for layer in (*model, model):
        fully_shard(layer)
    return model


def ddp(model):
    wrapped = DistributedDataParallel(model)
    return wrapped, torch.optim.AdamW(model.parameters(), fused=True, **WORDS)


def zero1(model):
    wrapped = DistributedDataParallel(model)
    return wrapped, ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, fused=True, **WORDS)


WAYS = {
    "DDP, torch fused": ddp,
    "ZeroRedundancyOptimizer": zero1,
    "FSDP2, torch fused": lambda model: (sharded(model), torch.optim.AdamW(model.parameters(), fused=True, **WORDS)),
    "FSDP2, altgrad": lambda model: (sharded(model), altgrad.optim.AdamW(model.parameters(), **WORDS)),
    "DistAdamW": lambda model: (model, altgrad.distributed.DistAdamW(model.parameters(), **WORDS)),
}


class Sent(TorchDispatchMode):
    """Counts what collectives are given: `bytes` that a rank sends, by name, and `calls`."""

    def __init__(self):
        super().__init__()
        self.bytes, self.calls = {}, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.namespace == "c10d" and function.overloadpacket.__name__ in RINGS:
            name, place, share = RINGS[function.overloadpacket.__name__]
            whole = sum([tensor.nbytes for tensor in tree_leaves(args[place])])
            self.bytes[name] = self.bytes.get(name, 0) + whole * share(dist.get_world_size())
            self.calls += 1
        return function(*args, **(kwargs or {}))


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def kept_by(way, model, optimizer):
    """Bytes of parameters and gradients between backward and step."""
    if way == "DistAdamW":
        for bucket in optimizer._buckets:
            bucket.wait()
        # The last bucket is averaged when the step begins: this rank's part of it is a row.
        return sum([bucket.flat.nbytes + (bucket.grads[0] if bucket.sum is None else bucket.sum).nbytes
                    for bucket in optimizer._buckets])
    params = list(model.parameters())
    return sum([local(tensor).nbytes for tensor in [*params, *[p.grad for p in params if p.grad is not None]]])


def measured(way, width, steps):
    """What one rank says of a way."""
    warnings.simplefilter("ignore")
    plain = model_of(width)
    model, optimizer = WAYS[way](plain)
    times, batch = [], torch.ones(8, width)
    for step in range(steps + 2):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        dist.barrier()
        begin = time.perf_counter()
        optimizer.step()
        times.append(time.perf_counter() - begin)
    optimizer.zero_grad()
    with Sent() as sent:
        model(batch).square().mean().backward()
        kept = kept_by(way, plain, optimizer)
        optimizer.step()
    inner = getattr(optimizer, "optim", getattr(optimizer, "own", optimizer))
    states = sum([local(value).nbytes for held in inner.state.values() for value in held.values() if value.dim()])
    return {"ms": 1e3 * statistics.median(times[2:]), "sent": sent.bytes, "calls": sent.calls, "states": states, "rest": kept}


class Rank:
    """What a rank does; it can be pickled."""

    def __init__(self, width, steps):
        self.width, self.steps = width, steps

    def __call__(self, rank, group):
        return {way: measured(way, self.width, self.steps) for way in WAYS}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2, help="processes (default 2)")
    parser.add_argument("--elements", type=int, default=4_000_000, help="about how many parameters (default 4,000,000)")
    parser.add_argument("--steps", type=int, default=20, help="steps of which the median is taken (default 20)")
    parser.add_argument("--json", type=pathlib.Path, help="a file for what was measured")
    given = parser.parse_args()
    width = max(8, int((given.elements / 4) ** 0.5))
    with tempfile.TemporaryDirectory() as folder:
        (answers,) = ranks.run([Rank(width, given.steps)], pathlib.Path(folder), given.ranks)
    if bad := [answer for answer in answers if isinstance(answer, str)]:
        sys.exit(bad[0])
    elements = 4 * (width + 1) * width
    print(f"{given.ranks} processes, gloo, {elements:,} parameters in float32; bytes are for each parameter")
    print(f"{'':<26}{'step ms':>9}{'sent':>7}{'calls':>7}{'states':>8}{'rest':>7}")
    rows = {}
    for way in WAYS:
        of = [answer[way] for answer in answers]
        rows[way] = {**of[0], "ms": max(one["ms"] for one in of), "states": max(one["states"] for one in of)}
        per = lambda count: f"{count / elements:.2f}"
        print(f"{way:<26}{rows[way]['ms']:9.2f}{per(sum(rows[way]['sent'].values())):>7}{rows[way]['calls']:>7}"
              f"{per(rows[way]['states']):>8}{per(rows[way]['rest']):>7}   "
              + ", ".join([f"{name} {per(count)}" for name, count in rows[way]["sent"].items()]))
    if given.json:
        given.json.write_text(json.dumps({"ranks": given.ranks, "elements": elements, "ways": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
