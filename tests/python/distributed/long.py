"""Runs of two ranks over many steps: what grows, and which tensors took a slow way; tools/soak.sh steps COUNT."""

import gc
import pathlib
import resource
import sys
import tempfile

import torch
from torch.distributed.fsdp import fully_shard

import altgrad

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import ranks  # noqa: E402

WARM = 20  # steps until everything is made
CLIP = dict(lr=1e-3, max_grad_norm=1.0)


def fsdp2(kind, **words):
    def make(model):
        for layer in (*model, model):
            fully_shard(layer)
        return kind(model.parameters(), **CLIP, **words)
    return make


def muon(model):
    params = list(model.parameters())
    rest = {"params": [param for param in params if param.dim() < 2], "use_muon": False}
    return altgrad.distributed.DistMuon([{"params": [param for param in params if param.dim() == 2]}, rest], **CLIP)


CASES = {
    "FSDP2, AdamW": fsdp2(altgrad.optim.AdamW),
    "FSDP2, LAMB, bf16 states": fsdp2(altgrad.optim.LAMB, storage="states=bf16"),
    "DistAdamW": lambda model: altgrad.distributed.DistAdamW(model.parameters(), bucket_bytes=20000, **CLIP),
    "Sharded(AdamW8bit)": lambda model: altgrad.distributed.Sharded(altgrad.optim.AdamW8bit, model.parameters(), **CLIP),
    "DistMuon": muon,
}


def train(make, count):
    """(objects that the collector sees more of at the end, KiB that the process has grown by, slow ways)."""
    torch.manual_seed(0)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(96, 64), linear(64, 33), linear(33, 1))
    optimizer, before = make(model), None
    for step in range(WARM + count):
        if step == WARM:
            gc.collect()
            before = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        optimizer.zero_grad()
        model(torch.ones(4, 96)).square().mean().backward()
        optimizer.step()
    gc.collect()
    now = len(gc.get_objects()), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return now[0] - before[0], now[1] - before[1], getattr(optimizer, "local_optimizer", optimizer).fallback_counts


class Rank:
    """What a rank does; it can be pickled."""

    def __init__(self, count):
        self.count = count

    def __call__(self, rank, group):
        return {name: train(make, self.count) for name, make in CASES.items()}


def main(count):
    ranks.WAIT = 24 * 3600
    with tempfile.TemporaryDirectory() as folder:
        (answers,) = ranks.run([Rank(count)], pathlib.Path(folder))
    bad = 0
    for rank, answer in enumerate(answers):
        if isinstance(answer, str):
            sys.exit(answer)
        for name, (objects, kib, slow) in answer.items():
            print(f"rank {rank}: {name}: {count} steps, {objects:+d} objects, {kib:+d} KiB, slow ways: {slow or 'none'}")
            bad += objects > 20 or kib > 8192 or bool(slow)
    sys.exit(bad != 0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10000)
