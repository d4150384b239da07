#!/usr/bin/env python3
"""A MODEL of many GPUs, no measurement: step time and memory of a rank for 8 to 4,096 of them, by what tools/bench_ranks.py counted.

    tools/model_ranks.py                                 7e9 parameters, by the counts in tools/bench_ranks.json
    tools/model_ranks.py --parameters 70e9 --wire 2      others, with 2 bytes for each number that travels
    tools/model_ranks.py --counts FILE                   by other counts: tools/bench_ranks.py --json FILE

What a way sends and keeps for each parameter is what was counted on two processes; what is shared out there is divided
by the number of GPUs here. Collectives go in rings over all links, at the rate of the fast ones or of all slow ones of a
node together, and with a latency for each hop in a node and between nodes; the update moves 28 bytes for each parameter
of the rank at the memory's rate. "step ms" has all collectives behind backward that can be; "exposed" has none there.
"""

import argparse
import json
import pathlib

GPUS = 8, 16, 64, 256, 1024, 4096
FULL = 8.0   # bytes of two float32 moments, and of a parameter with its gradient, of a way that shares out nothing
MOVED = 28.0  # bytes that AdamW reads and writes for a parameter
# Of which collectives a step waits in any case: what comes after the update.
AFTER = {"ZeroRedundancyOptimizer": ("broadcast",), "DistAdamW": ("all-gather",)}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parameters", type=float, default=7e9, help="of the model (default 7e9)")
    parser.add_argument("--wire", type=float, default=4.0, help="bytes of a number that travels or is kept for one (default 4)")
    parser.add_argument("--node", type=int, default=8, help="GPUs that share the fast links (default 8)")
    parser.add_argument("--fast", type=float, default=450.0, help="GB/s of a GPU to its node, each way (default 450)")
    parser.add_argument("--slow", type=float, default=50.0, help="GB/s of a GPU to other nodes, each way (default 50)")
    parser.add_argument("--latency", type=float, default=5.0, help="microseconds of one hop (default 5)")
    parser.add_argument("--memory", type=float, default=3000.0, help="GB/s of a GPU's memory (default 3000)")
    parser.add_argument("--bucket", type=float, default=100e6, help="bytes of one collective (default 100e6)")
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


def seconds(row, counted, given, gpus):
    """{collective: seconds} of a step."""
    rate = 1e9 * (given.fast if gpus <= given.node else min(given.fast, given.node * given.slow))
    ring = min(gpus, given.node) - 1 + max(0, gpus // given.node - 1)
    found, ranks = {}, counted["ranks"]
    for name, count in row["sent"].items():
        # A ring's share of the whole, here and there; an all-reduce goes round twice.
        sent = count / counted["elements"] / ((ranks - 1) / ranks) * (gpus - 1) / gpus
        total = sent * given.parameters * given.wire / 4.0
        hops = ring * max(1.0, total / given.bucket)
        found[name] = total / rate + hops * 1e-6 * given.latency
    return found


def table(counted, given):
    yield "A model, not a measurement."
    yield (f"{given.parameters:,.0f} parameters, {given.wire:g} bytes for each number; {given.fast:g} GB/s in a node of "
           f"{given.node}, {given.slow:g} GB/s between nodes, {given.latency:g} us a hop, {given.memory:g} GB/s of memory")
    yield f"{'GPUs':>6}  {'':<26}{'step ms':>9}{'exposed ms':>12}{'states GB':>11}{'rest GB':>9}"
    for gpus in GPUS:
        for way, row in counted["ways"].items():
            states, rest, mine = sizes(row, counted, gpus)
            update = 1e3 * mine * given.parameters * MOVED / (given.memory * 1e9)
            times = seconds(row, counted, given, gpus)
            after = 1e3 * sum([times.get(name, 0.0) for name in AFTER.get(way, ())])
            scale = given.parameters / 1e9
            yield (f"{gpus:>6}  {way:<26}{update + after:9.1f}{update + 1e3 * sum(times.values()):12.1f}"
                   f"{states * scale:11.1f}{rest * scale * given.wire / 4.0:9.1f}")


def main():
    given = arguments()
    print(*table(json.loads(given.counts.read_text()), given), sep="\n")


if __name__ == "__main__":
    main()
