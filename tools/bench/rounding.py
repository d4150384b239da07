"""AdamW with narrow storage beside plain one, and torchao's and bitsandbytes' where they are installed: bf16 rounded by draws,
states of 8 bits with a scale for each block, in FP8 and in code books, and a float32 master in two halves beside one in whole."""

import importlib
import statistics

from . import candidates, measure

WORKLOADS = {"16M": ([16 << 20], 1, False), "300 mixed": candidates.WORKLOADS["300 mixed"]}


class Stochastic(candidates.Package):
    def make(self, choice):
        import altgrad
        return altgrad.optim.AdamW(self.params, lr=1e-4, storage="param=bf16,stochastic", seed=1)


class Fp8(candidates.Package):
    def make(self, choice):
        import altgrad
        return altgrad.optim.AdamWFp8(self.params, lr=1e-4)


class Books(candidates.Package):
    def make(self, choice):
        import altgrad
        return altgrad.optim.AdamW8bit(self.params, lr=1e-4)


class Master(candidates.Package):
    storage = "states=f32 master=f32"

    def make(self, choice):
        import altgrad
        return altgrad.optim.AdamW(self.params, lr=1e-4, storage=self.storage)


class Remainder(Master):
    storage = "states=f32 master=bf16+i16"


class Torchao(candidates.Torch):
    def make(self, choice):
        from torchao.optim import _AdamW
        return _AdamW(self.params, lr=1e-4, bf16_stochastic_round=True)


class Torchao8bit(candidates.Torch):
    def make(self, choice):
        from torchao.optim import AdamW8bit
        return AdamW8bit(self.params, lr=1e-4)


class TorchaoFp8(candidates.Torch):
    def make(self, choice):
        from torchao.optim import AdamWFp8
        return AdamWFp8(self.params, lr=1e-4)


class BitsAndBytes8bit(candidates.Torch):
    def make(self, choice):
        from bitsandbytes.optim import AdamW8bit
        return AdamW8bit(self.params, lr=1e-4)


# What is narrow: (dtype of parameters, what is beside it, that one, ours, those of other libraries).
CASES = {"stochastic": ("bf16", "nearest", candidates.Package, Stochastic, {"torchao": Torchao}),
         "FP8 states": ("f32", "f32 states", candidates.Package, Fp8, {"torchao": TorchaoFp8}),
         "8-bit states": ("f32", "f32 states", candidates.Package, Books,
                          {"torchao": Torchao8bit, "bitsandbytes": BitsAndBytes8bit}),
         "halves": ("bf16", "f32 master", Master, Remainder, {})}


def makers(beside, plain, ours, theirs):
    found = {beside: (plain, 1), "ours": (ours, 1)}
    for library, kind in theirs.items():
        try:
            importlib.import_module(library + ".optim")
            found[library] = (kind, 4)
        except ImportError:
            pass
    return found


def run(name, workload, rounds, clock, show):
    """Medians of milliseconds, and the medians of the ratios in each round, for each of CASES."""
    rows = {}
    for case, (dtype, beside, plain, ours, theirs) in CASES.items():
        times = measure.run_case(makers(beside, plain, ours, theirs), workload, dtype, "plain", rounds, clock, show)
        row = {own: statistics.median([t for t in series if t]) for own, series in times.items()}
        row["of_plain"] = measure.ratio(times, beside, "ours")
        words = f"{row[beside]:9.3f}{row['ours']:9.3f}{row['of_plain']['median']:8.2f} x {beside}"
        for peer in [peer for peer in theirs if peer in row]:
            row["of_" + peer] = measure.ratio(times, "ours", peer)
            words += f"{row[peer]:9.3f}{row['of_' + peer]['median']:8.2f} x {peer}"
        print(f"  {name + ' ' + case:<36}{words}", flush=True)
        rows[case] = row
    return rows
