"""Entries over DTensors: the bits of one process where nothing is summed, and the sum of all ranks where something is."""

import ranks
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from altgrad.optim import AdamWScheduleFree, FromRule, SophiaG

SHAPES = (8, 512), (16, 4, 256), (6000,), (7,)
SAM = """rule sam(param w, grad g, state old, lr = 0.1)
  w = old - lr * g
entry climb(rho = 0.05)
  old = w
  w = w + rho / (1 + norm(g)) * g
"""


def whole(value):
    value = value.detach()
    return value.full_tensor() if isinstance(value, DTensor) else value


def train(place, storage):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(place(torch.randn(shape), index)) for index, shape in enumerate(SHAPES)]
    free = AdamWScheduleFree(params, lr=0.1, storage=storage)
    sophia = SophiaG(params, lr=0.1, storage=storage.replace("z=", "hessian="))
    sam = FromRule(SAM, storage.replace("z=", "old="))(params)
    for optimizer in (free, sophia, sam):
        for step in range(3):
            for index, (param, shape) in enumerate(zip(params, SHAPES)):
                param.grad = None if step == 1 and index == 1 else place(torch.randn(shape), index)
            if optimizer is sophia:
                optimizer.update_hessian()
            if optimizer is sam:
                optimizer.climb()
            optimizer.step()
        if optimizer is free:
            optimizer.eval()
        if optimizer is not sam:
            exact = [whole(param).flatten().tolist() for param in params]
    return exact, [whole(param).flatten().tolist() for param in params]


def both(rank, group):
    mesh = init_device_mesh("cpu", (group.size(),))
    on = [lambda tensor, kind=kind: distribute_tensor(tensor, mesh, [kind], src_data_rank=None) for kind in (Shard(0), Replicate())]
    places = {"sharded": lambda tensor, index: on[0](tensor), "mixed": lambda tensor, index: on[index % 2](tensor)}
    return {how: [train(place, storage) for storage in ("", "z=bf16")] for how, place in places.items()}


def test_as_one_process(tmp_path):
    answers, = ranks.run([both], tmp_path, 2)
    expected = [train(lambda tensor, index: tensor, storage) for storage in ("", "z=bf16")]
    for answer in answers:
        assert not isinstance(answer, str), answer
        for how, got in answer.items():
            for (exact, summed), (wanted, total) in zip(got, expected):
                assert exact == wanted, how
                for a, b in zip(summed, total):
                    torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-5)
