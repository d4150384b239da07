"""altgrad.ops beside torch's optimizer: gradients of several meshes have one norm and one verdict."""

import pytest
import ranks
import torch
from meshes import SHAPES, place, places
from torch.distributed.tensor import DTensor

import altgrad

ALL = len(SHAPES) - 2  # those that every rank has


def make(homes, step):
    """This rank's parameters, with gradients of all of which it has its parts."""
    torch.manual_seed(step)
    params = [torch.nn.Parameter(place(torch.zeros(shape), home)) for shape, home in zip(SHAPES, homes) if home is not None]
    grads = [place(grad, home) for grad, home in zip(map(torch.randn, SHAPES), homes) if home is not None]
    for param, grad in zip(params, grads):
        param.grad = grad
    return params


def whole(tensors):
    return [(tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).tolist() for tensor in tensors]


def functions(homes):
    """What each function of gradients says, and the gradients after it."""
    found = []
    for kind in (2.0, 1.0, float("inf"), 3.0):
        params = make(homes, 0)
        norm = altgrad.ops.clip_grad_norm_(params, 0.5, kind)
        torch.optim.SGD(params, lr=0.1, foreach=False).step()
        found.append((norm.item(), whole(params[:ALL])))
    params = make(homes, 1)
    norms, factors = altgrad.ops.clip_grad_norm_(params, 0.5, per_tensor=True, return_coefficient=True)
    found.append((norms[:ALL].tolist(), whole([param.grad for param in params[:ALL]]), factors[:ALL].tolist()))
    for inplace in (False, True):
        for spoil in (False, True):
            grads = [param.grad for param in make(homes, 2)]
            if spoil and homes[-1] is not None:  # on some ranks alone
                (grads[-1].to_local() if isinstance(grads[-1], DTensor) else grads[-1]).view(-1)[:1] = torch.inf
            clipped, norm, flag = altgrad.ops.unscale(grads, 4.0, 0.5, inplace=inplace)
            found.append((norm.item() if not spoil else 0.0, flag.item(), whole(clipped[:ALL])))
    found.append(altgrad.ops.grad_norm([param.grad for param in make(homes, 3)]).item())
    return found


def on_meshes(rank, group):
    return functions(places(group.size(), rank))


def of_stages(rank, group):
    """Each rank has other parameters, as of a pipeline: the group adds them up, also where one has none."""
    params = [torch.nn.Parameter(torch.zeros(3)) for _ in range(rank > 0)]
    for param in params:
        param.grad = torch.full((3,), 2.0)
    return [altgrad.ops.clip_grad_norm_(params, 1.0, process_group=group).item(),
            *[param.grad.tolist() for param in params]]


@pytest.mark.parametrize("count", [2, 4])
def test_as_one_process(count, tmp_path):
    answers, stages = ranks.run([on_meshes, of_stages], tmp_path, count)
    expected = functions([()] * len(SHAPES))
    for answer in answers:
        assert not isinstance(answer, str), answer
        for got, alone in zip(answer, expected):
            for a, b in zip(_flat(got), _flat(alone)):
                assert a == pytest.approx(b, rel=1e-5, abs=1e-6)
    norm = (4.0 * 3 * (count - 1)) ** 0.5
    for rank, stage in enumerate(stages):
        assert stage[0] == pytest.approx(norm) and len(stage) == 1 + (rank > 0), stage
        assert all(grad == pytest.approx([2.0 / norm] * 3, rel=1e-4) for grad in stage[1:])


def _flat(found):
    return [number for part in found for number in _flat(part)] if isinstance(found, (list, tuple)) else [found]
