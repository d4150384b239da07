"""FSDP2 around tensor parallel layers with sequence-parallel norms, on a mesh of 2 by 2, against one process."""

import pytest
import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

import altgrad

CASES = [("SGD", dict(momentum=0.9, max_grad_norm=0.1, norm_in_backward=True)), ("SGD", dict(max_grad_norm="agc:0.01")),
         ("SGD", dict(max_grad_norm="percentile:50", statistics=True)), ("LAMB", dict(statistics=True)), ("LAMB", dict(max_grad_norm=0.1))]


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(16), torch.nn.Linear(16, 64), torch.nn.Linear(64, 16)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


def train(name, words, mesh=None):
    """(parameters, norms and statistics) after four steps."""
    torch.manual_seed(0)
    model, rows = Layer(), slice(0, 4)
    if mesh:
        rows = slice(2 * mesh["dp"].get_local_rank(), 2 * mesh["dp"].get_local_rank() + 2)
        parallelize_module(model, mesh["tp"], {
            "norm": SequenceParallel(), "up": ColwiseParallel(input_layouts=Shard(1)), "down": RowwiseParallel(output_layouts=Shard(1),
                                                                                                           use_local_output=False)})
        fully_shard(model, mesh=mesh["dp"])
    optimizer, said = getattr(altgrad.optim, name)(model.parameters(), lr=0.01, **words), []
    for step in range(4):
        torch.manual_seed(step)
        x = torch.randn(4, 8, 16)[rows]
        y = model(distribute_tensor(x, mesh["tp"], [Shard(1)], src_data_rank=None) if mesh else x)
        optimizer.zero_grad()
        (y.full_tensor() if mesh else y).square().mean().backward()
        optimizer.step()
        said += [] if optimizer.grad_norm is None else [optimizer.grad_norm.item()]
    said += [value.item() for value in optimizer.statistics().summary().values()] if "statistics" in words else []
    return [(p.full_tensor() if isinstance(p, DTensor) else p).detach().flatten().tolist() for p in model.parameters()], said


def on_mesh(rank, group):
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    return [train(name, words, mesh) for name, words in CASES]


@pytest.mark.filterwarnings("ignore")
def test_as_one_process(tmp_path):
    answers, = ranks.run([on_mesh], tmp_path, 4)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer == answers[0] or repr(answer) == repr(answers[0])
        for (name, words), (params, said) in zip(CASES, answer):
            expected = train(name, words)
            assert said == pytest.approx(expected[1], rel=1e-3, abs=1e-5, nan_ok=True), (name, words)
            for a, b in zip(params, expected[0]):
                assert a == pytest.approx(b, rel=1e-3, abs=1e-4), (name, words)
