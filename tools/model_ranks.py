#!/usr/bin/env python3
"""A MODEL of many GPUs, no measurement: step time and memory of a rank for 8 to 4,096 of them, by what tools/bench_ranks.py counted.

    tools/model_ranks.py                                 7e9 parameters, by the counts in tools/bench_ranks.json
    tools/model_ranks.py --parameters 70e9 --wire 2      others, with 2 bytes for each number that travels
    tools/model_ranks.py --counts FILE                   by other counts: tools/bench_ranks.py --json FILE

What a way sends and keeps for each parameter is what was counted on two processes; what is shared out there is divided
by the number of GPUs here. Three ways are derived and were not counted: "HSDP" shards in a node as FSDP2 and adds up
across nodes, "DistAdamW, shards in a node" sends what is after the update in a node alone, as it does on a mesh of
replicas x shards, and "DistMuon" reduces each tensor to its owner and broadcasts it. Large collectives go in rings over all links, at
the rate of the fast ones or of all slow ones of a node together, with a latency for each hop in a node and between
nodes. The clip is one all-reduce of a number: "ring us" and "tree us" are what it waits in either, and the shorter one
counts. Each collective and each of the two sweeps of a step is a launch. The update moves 28 bytes for each parameter of
the rank at the memory's rate.

"exposed ms" is what forward and backward do not hide: what of the collectives in them takes longer than their products,
and all that comes after. "serial ms" hides nothing. Every way is under the same assumptions in each column.
"""

import argparse
import json
import math
import pathlib

GPUS = 8, 16, 64, 256, 1024, 4096
FULL = 8.0   # bytes of two float32 moments, and of a parameter with its gradient, of a way that shares out nothing
MOVED = 28.0  # bytes that AdamW reads and writes for a parameter
SWEEPS = 2  # launches of a step with a clip
# Of which collectives a step waits in any case: what comes after the update.
AFTER = {"ZeroRedundancyOptimizer": ("broadcast",), "DistAdamW": ("all-gather",), "DistMuon": ("broadcast",),
         "DistAdamW, shards in a node": ("all-gather",)}
# Ways that were not counted: {name: (the counted way whose memory they have, collectives in a node, across nodes)}; a
# collective is (name, bytes of a parameter's 4 that a rank sends if it has all of it).
DERIVED = {
    "HSDP": ("FSDP2, altgrad", (("all-gather", 8.0), ("reduce-scatter", 4.0)), (("all-reduce", 8.0),)),
    "DistAdamW, shards in a node": ("DistAdamW", (("reduce-scatter", 4.0), ("all-gather", 4.0)), (("all-reduce", 8.0),)),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default, what in (
            ("parameters", 7e9, "of the model"), ("wire", 4.0, "bytes of a number that travels or is kept for one"),
            ("master", 0.0, "bytes of a parameter's master, which is shared out as states are"),
            ("activations", 0.0, "GB of activations on a rank"), ("tokens", 8192.0, "of a rank in a step"),
            ("flops", 400.0, "TFLOP/s of forward and backward, 6 for each parameter and token"),
            ("tensors", 300.0, "parameters that DistMuon sends one by one"), ("fast", 450.0, "GB/s of a GPU to its node, each way"),
            ("slow", 50.0, "GB/s of a GPU to other nodes, each way"), ("latency", 2.0, "microseconds of a hop in a node"),
            ("far", 8.0, "microseconds of a hop between nodes"), ("launch", 4.0, "microseconds of a launch"),
            ("memory", 3000.0, "GB/s of a GPU's memory"), ("bucket", 100e6, "bytes of one collective")):
        parser.add_argument(f"--{name}", type=float, default=default, help=f"{what} (default {default:g})")
    parser.add_argument("--node", type=int, default=8, help="GPUs that share the fast links (default 8)")
    parser.add_argument("--counts", type=pathlib.Path, default=pathlib.Path(__file__).with_name("bench_ranks.json"),
                        help="what tools/bench_ranks.py --json wrote (default tools/bench_ranks.json)")
    return parser.parse_args()


def shared(kept, ranks):
    """The share of FULL bytes that is divided among ranks, of what `ranks` of them keep each."""
    return (1.0 - min(kept, FULL) / FULL) / (1.0 - 1.0 / ranks)


def sizes(row, counted, gpus):
    """(states, rest) in bytes of float32 for each parameter on one of `gpus`; what one rank steps of all, as a share."""
    whole, ranks = counted["elements"], counted["ranks"]
    shares = [shared(row[key] / whole, ranks) for key in ("states", "rest")]
    states, rest = [FULL * (1.0 - share + share / gpus) for share in shares]
    return states, rest, states / FULL


def hops(given, gpus, tree):
    """Microseconds of latency of one way round, or up and down, over `gpus`."""
    near, far = min(gpus, given.node), max(1, gpus // given.node)
    count = (lambda ranks: 2 * math.ceil(math.log2(ranks))) if tree else (lambda ranks: ranks - 1)
    return given.latency * count(near) + given.far * count(far)


def seconds(given, gpus, total, rate, calls=None):
    """Of collectives that send `total` bytes from a rank."""
    calls = max(1.0, total / given.bucket) if calls is None else calls
    return total / (1e9 * rate) + calls * 1e-6 * (hops(given, gpus, False) + given.launch)


def counted_times(row, counted, given, gpus):
    """{collective: seconds} of a step that was counted."""
    rate = given.fast if gpus <= given.node else min(given.fast, given.node * given.slow)
    ranks, found = counted["ranks"], {}
    for name, count in row["sent"].items():
        # A ring's share of the whole, here and there; an all-reduce goes round twice.
        sent = count / counted["elements"] / ((ranks - 1) / ranks) * (gpus - 1) / gpus
        found[name] = seconds(given, gpus, sent * given.parameters * given.wire / 4.0, rate)
    return found


def derived_times(name, given, gpus):
    bytes_of = lambda sent, ranks: sent * given.parameters * given.wire / 4.0 * (ranks - 1) / ranks
    near, far = min(gpus, given.node), max(1, gpus // given.node)
    if name == "DistMuon":
        rate = given.fast if far == 1 else min(given.fast, given.node * given.slow)
        return {way: seconds(given, gpus, bytes_of(4.0, gpus), rate, given.tensors) for way in ("reduce", "broadcast")}
    _, inside, across = DERIVED[name]
    found = {way: seconds(given, near, bytes_of(sent, near), given.fast) for way, sent in inside}
    if far > 1:  # of a node's shards, each over its own link
        found |= {way: seconds(given, far * given.node, bytes_of(sent, far) / near, given.slow) for way, sent in across}
    return found


def rows_of(counted, given, gpus):
    """(way, its counts, the ranks that share its memory, {collective: seconds}) of each way."""
    for way, row in counted["ways"].items():
        yield way, row, gpus, counted_times(row, counted, given, gpus)
    for way, (like, *_) in DERIVED.items():
        yield way, counted["ways"][like], min(gpus, given.node), derived_times(way, given, gpus)
    yield "DistMuon", {**counted["ways"]["DistAdamW"], "rest": 8 * counted["elements"]}, gpus, derived_times("DistMuon", given, gpus)


def table(counted, given):
    yield "A model, not a measurement."
    yield (f"{given.parameters:,.0f} parameters, {given.wire:g} bytes for each number; {given.fast:g} GB/s in a node of "
           f"{given.node}, {given.slow:g} GB/s between nodes, hops of {given.latency:g} and {given.far:g} us, {given.memory:g} GB/s of memory")
    yield (f"{'GPUs':>6}  {'':<28}{'ring us':>9}{'tree us':>9}{'exposed ms':>12}{'serial ms':>11}{'states GB':>11}{'rest GB':>9}"
           f"{'total GB':>10}")
    products = 6.0 * given.parameters * given.tokens / (given.flops * 1e12)
    for gpus in GPUS:
        clips = [2 * hops(given, gpus, False), hops(given, gpus, True)]
        for way, row, among, times in rows_of(counted, given, gpus):
            states, rest, mine = sizes(row, counted, among)
            masters = given.master * mine
            update = mine * given.parameters * MOVED / (given.memory * 1e9) + 1e-6 * (SWEEPS * given.launch + min(clips))
            after = sum([times.get(name, 0.0) for name in AFTER.get(way, ())]) + update
            during = sum(times.values()) + update - after
            scale = given.parameters / 1e9
            gigabytes = [(states + masters) * scale, rest * scale * given.wire / 4.0]
            yield (f"{gpus:>6}  {way:<28}{clips[0]:9.0f}{clips[1]:9.0f}{1e3 * (after + max(0.0, during - products)):12.1f}"
                   f"{1e3 * (after + during):11.1f}{gigabytes[0]:11.1f}{gigabytes[1]:9.1f}{sum(gigabytes) + given.activations:10.1f}")


def main():
    given = arguments()
    print(*table(json.loads(given.counts.read_text()), given), sep="\n")


if __name__ == "__main__":
    main()
