"""Parameters that are placed differently on one mesh: the same collectives on every rank, and each number kept once."""

import pytest
import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

import altgrad

SHAPES = (8, 6), (12, 4), (6,), (4, 4)
DRAWS = dict(storage="master=bf16+i16 m=bf16,stochastic", seed=3, max_grad_norm="percentile:50")
CASES = {
    "percentile": ("AdamW", dict(max_grad_norm="percentile:50")),
    "agc": ("AdamW", dict(max_grad_norm="agc:0.01")),
    "norm": ("AdamW", dict(max_grad_norm=0.5, statistics=True)),
    "lamb": ("LAMB", dict(max_grad_norm=0.5)),
    "statistics": ("SGD", dict(momentum=0.9, statistics=True)),
    "scaled": ("AdamW", dict(max_grad_norm="percentile:50", statistics=True)),
    "draws": ("AdamW", DRAWS),
}
WHOLE, ROWS, SECOND = [Replicate(), Replicate()], [Shard(0), Replicate()], [Replicate(), Shard(0)]
HOWS = {
    2: {"sharded and plain": [[Shard(0)], None], "sharded and replicated": [[Shard(0)], [Replicate()]]},
    4: {"FSDP2 and tensor parallel": [[Shard(0), Shard(1)], [Shard(0), Shard(0)], ROWS, [Shard(0), Shard(1)]],
        "hybrid": [SECOND, SECOND, SECOND, SECOND], "hybrid and others": [SECOND, ROWS, None, WHOLE],
        "all": [[Shard(0), Shard(0)], SECOND, ROWS, WHOLE]},
}


def train(case, place):
    """(parameters, what each step says, what is kept beside them) after six steps."""
    torch.manual_seed(0)
    name, words = CASES[case]
    dtype, scaled = torch.bfloat16 if case == "draws" else torch.float32, case == "scaled"
    params = [torch.nn.Parameter(place(torch.randn(shape).to(dtype), index)) for index, shape in enumerate(SHAPES)]
    optimizer, said = getattr(altgrad.optim, name)(params, lr=0.1, **words), []
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2, enabled=scaled)
    for step in range(6):
        for index, (param, shape) in enumerate(zip(params, SHAPES)):
            grad = torch.randn(shape).to(dtype) * (1 + step)
            if scaled and step == 3 and index == 1:
                grad.view(-1)[-1] = torch.nan
            param.grad = place(grad, index)
        scaler.scale(torch.ones(())), scaler.step(optimizer), scaler.update()
        said += [scaler.get_scale(), *([] if optimizer.grad_norm is None else [optimizer.grad_norm.item()])]
    kept = [value for value in optimizer.state_dict()["param_groups"][0].values() if isinstance(value, torch.Tensor)]
    if "statistics" in words:
        kept += optimizer.statistics().summary().values()
    return [(p.full_tensor() if isinstance(p, DTensor) else p).detach().float() for p in params], torch.tensor(said), kept


def on_mesh(rank, group):
    mesh, found = init_device_mesh("cpu", (2, 2) if group.size() == 4 else (group.size(),)), {}
    for how, kinds in HOWS[group.size()].items():
        def place(tensor, index):
            kind = kinds[index % len(kinds)]
            return distribute_tensor(tensor, mesh, kind, src_data_rank=None) if kind else tensor
        for case in CASES:
            if case != "draws" or Shard(1) not in kinds[0]:  # which storage with draws refuses
                found[how, case] = train(case, place)
    return {key: [[of.tolist() for of in part] for part in value] for key, value in found.items()}


@pytest.mark.parametrize("count", [2, 4])
def test_as_one_process(count, tmp_path):
    answers, = ranks.run([on_mesh], tmp_path, count)
    expected = {case: [[of for of in part] for part in train(case, lambda tensor, index: tensor)] for case in CASES}
    for answer in answers:
        assert not isinstance(answer, str), answer
        for (how, case), parts in answer.items():
            for got, own, mine in zip(parts, answers[0][how, case], expected[case]):
                assert repr(got) == repr(own), (how, case)  # on every rank
                torch.testing.assert_close([torch.tensor(of).double() for of in got], [of.double() for of in mine],
                                           rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda said: f"{how}, {case}: {said}")
