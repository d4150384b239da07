"""AdamW in bf16 with stochastic rounding, beside the same rounded to nearest, and torchao's where that is installed."""

import statistics

from . import candidates, measure

WORKLOADS = {"16M": ([16 << 20], 1, False), "300 mixed": candidates.WORKLOADS["300 mixed"]}


class Stochastic(candidates.Package):
    def make(self, choice):
        import altgrad
        return altgrad.optim.AdamW(self.params, lr=1e-4, storage="param=bf16,stochastic", seed=1)


class Torchao(candidates.Torch):
    def make(self, choice):
        from torchao.optim import _AdamW
        return _AdamW(self.params, lr=1e-4, bf16_stochastic_round=True)


def makers():
    found = {"nearest": (candidates.Package, 1), "stochastic": (Stochastic, 1)}
    try:
        import torchao.optim  # noqa: F401
        found["torchao"] = (Torchao, 4)
    except ImportError:
        pass
    return found


def run(name, workload, rounds, clock, show):
    """Medians of milliseconds, and the medians of the ratios in each round."""
    times = measure.run_case(makers(), workload, "bf16", "plain", rounds, clock, show)
    row = {own: statistics.median([t for t in series if t]) for own, series in times.items()}
    row["of_nearest"] = measure.ratio(times, "nearest", "stochastic")
    words = f"{row['nearest']:9.3f}{row['stochastic']:9.3f}{row['of_nearest']['median']:8.2f} x nearest"
    if "torchao" in row:
        row["of_torchao"] = measure.ratio(times, "stochastic", "torchao")
        words += f"{row['torchao']:9.3f}{row['of_torchao']['median']:8.2f} x torchao"
    print(f"  {name:<36}{words}", flush=True)
    return row
