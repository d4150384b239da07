"""Owners of matrices keep the parameters that they step: these travel to them only where somebody has written them."""

import pytest
import ranks
import torch
import torch.distributed as dist
from meshes import place
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import altgrad

SHAPES = (48, 96), (64, 40), (33, 64)


def write_a_part(params, rank):
    """One rank's alone, as each rank writes its own part."""
    local = params[0].to_local() if isinstance(params[0], DTensor) else params[0]
    if rank is None:
        params[0][:24] *= 2.0  # what rank 0 of two has
    elif rank == 0:
        local *= 2.0


EDITS = {
    "nothing": lambda params, rank: None,
    "a part": write_a_part,
    "the whole": lambda params, rank: params[1].mul_(0.5),
    "data": lambda params, rank: params[2].data.add_(1.0),
    "a file": lambda params, rank: params[1].copy_(params[1].clone() * 3.0),
}


def train(make, home, rank, edit):
    """(parameters, elements that the all-to-alls of each step sent)"""
    torch.manual_seed(0)
    params, sent = [torch.nn.Parameter(place(torch.randn(shape), home)) for shape in SHAPES], []
    optimizer, send = make(params, lr=0.02), dist.all_to_all_single

    def counted(into, given, *rest, **words):
        sent[-1] += given.numel()
        return send(into, given, *rest, **words)
    dist.all_to_all_single = counted
    try:
        for step in range(4):
            sent.append(0)
            for param, shape in zip(params, SHAPES):
                param.grad = place(torch.randn(shape), home)
            optimizer.step()
            if step == 1:
                with torch.no_grad():
                    EDITS[edit](params, rank)
    finally:
        dist.all_to_all_single = send
    return [(param.full_tensor() if home else param).tolist() for param in params], sent


def on_ranks(rank, group):
    mesh = init_device_mesh("cpu", (2,))
    return [train(make, (mesh, [Shard(0)]), rank, edit) for edit in EDITS for make in (altgrad.distributed.DistMuon, altgrad.optim.Muon)]


def test_they_travel_when_written(tmp_path):
    answers, = ranks.run([on_ranks], tmp_path, 2)
    for answer in answers:
        assert not isinstance(answer, str), answer
        for place_of, (params, sent) in enumerate(answer):
            edit = list(EDITS)[place_of // 2]
            assert params == train(altgrad.optim.Muon, (), None, edit)[0], edit
    elements = sum([rows * columns for rows, columns in SHAPES])
    for place_of, edit in enumerate(EDITS):
        total = [sum(both) for both in zip(*[answer[2 * place_of][1] for answer in answers])]
        assert total == [3 * elements, 2 * elements, (2 if edit == "nothing" else 3) * elements, 2 * elements], edit
