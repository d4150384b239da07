"""DistMuon on GPUs, of the test driver: a product that is wrong on one rank skips the step of all ranks, and is counted."""

import os
from dataclasses import dataclass

import gemms
import pytest
import ranks
import torch

import altgrad

pytestmark = pytest.mark.skipif(os.environ.get("ALTGRAD_STANDS_FOR_CUDA") != "cpu", reason="the CPU raises an error")
# (words, the shape of what AdamW updates, whether there is a scaler). Of three ranks the last one has no matrix, or
# with () nothing at all.
WAYS = [({}, (5,), False), ({}, (), False), ({}, (5,), True), (dict(max_grad_norm=1.0), (5,), True),
        (dict(reproducible=True, max_grad_norm=1.0), (5,), False)]


class Wrong(gemms.Products):
    """torch's products, of which each has a NaN for its first element."""

    def call(self, gemm, context):
        status = super().call(gemm, context)
        gemms.spoil(gemm)
        return status


def trained(rank, words, vector, scaled):
    """[whether the second step changed nothing, the parameters at the end, how many steps were skipped, the scale]."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in ((24, 40), (40, 24), *[vector] * bool(vector))]
    groups = [{"params": params[:2]}, *[{"params": params[2:], "use_muon": False}] * bool(vector)]
    optimizer = altgrad.distributed.DistMuon(groups, lr=0.02, ns_steps=2, **words)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0, enabled=scaled)
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        before = [param.detach().clone() for param in params]
        scaler.scale(sum([(param * torch.randn(param.shape)).sum() for param in params])).backward()
        if step == 1 and rank == 0:
            with Wrong():
                scaler.step(optimizer)
        else:
            scaler.step(optimizer)
        scaler.update()
        still = [torch.equal(*pair) for pair in zip(params, before)]
        assert all(still) if step == 1 else not any(still), (step, still)
    return [param.tolist() for param in params], int(optimizer.local_optimizer.skipped_steps), scaler.get_scale()


@dataclass
class Way:
    words: dict
    vector: tuple
    scaled: bool

    def __call__(self, rank, group):
        return trained(rank, self.words, self.vector, self.scaled)


def test_all_ranks_skip_the_step(tmp_path):
    for (words, vector, scaled), answers in zip(WAYS, ranks.run([Way(*of) for of in WAYS], tmp_path, count=3)):
        params, _, scale = answers[0]
        for rank, answer in enumerate(answers):
            assert answer[0] == params and answer[2] == scale == (4.0 if scaled else 1.0), answer
            assert answer[1] == 1 or (rank == 2 and not vector), (rank, words, answer[1])
