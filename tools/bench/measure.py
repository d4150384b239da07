"""Rounds: every candidate once in each, in turn, so that a slow window of the machine meets them all."""

import gc
import statistics
import time

from . import candidates


class Sampler:
    """One candidate on one workload; sample() is milliseconds of a step."""

    def __init__(self, maker, workload, dtype, mode, clock):
        sizes, self.steps, self.moving = workload
        self.clock = clock
        self.candidate = maker(sizes, dtype, mode)

    def sample(self):
        spent = 0
        for _ in range(self.steps):
            if self.moving:
                self.candidate.renew()
            start = self.clock()
            self.candidate.step()
            spent += self.clock() - start
        return spent * 1e3 / self.steps


# On a machine that others keep busy, a thread's own time says more than the wall's; it means little with two threads,
# which wait for each other awake.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def run_case(makers, workload, dtype, mode, rounds, clock, progress):
    """name -> list of milliseconds per round, None in rounds that the candidate sat out."""
    collect = gc.isenabled()
    gc.disable()
    try:
        samplers = {}
        for name, (maker, every) in makers.items():
            samplers[name] = Sampler(maker, workload, candidates.DTYPES[dtype], mode, CLOCKS[clock]), every
            samplers[name][0].sample()  # the first step compiles, allocates states and wakes threads
        times = {name: [] for name in samplers}
        order = list(samplers)
        for round_ in range(rounds):
            progress(round_, rounds)
            turn = round_ % len(order)
            for name in order[turn:] + order[:turn]:
                sampler, every = samplers[name]
                times[name].append(sampler.sample() if round_ % every == 0 else None)
        return times
    finally:
        samplers.clear()
        gc.collect()
        if collect:
            gc.enable()


def ratio(times, name, base):
    """base's time over name's, taken inside each round: median and quartiles; None if they never met."""
    both = [b / a for a, b in zip(times[name], times[base]) if a and b]
    if not both:
        return None
    if len(both) < 2:
        return {"median": both[0], "low": both[0], "high": both[0]}
    low, median, high = statistics.quantiles(both, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def summarise(times):
    """Per candidate: median and best milliseconds, and its speed as a fraction of the floor's and of torch fused's."""
    rows = {}
    for name, series in times.items():
        met = [t for t in series if t is not None]
        rows[name] = {"ms": statistics.median(met), "best": min(met), "samples": len(met)}
        for key, base in (("of_floor", "floor"), ("of_fused", "torch fused")):
            rows[name][key] = ratio(times, name, base) if base in times else None
    return rows
