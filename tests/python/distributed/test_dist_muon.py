"""altgrad.distributed.DistMuon: whole matrices have owners, and the bits are those of one process."""

import pytest
import ranks
import torch

import altgrad

SHAPES = (48, 96), (96, 48), (64, 64), (32, 200), (7,), (48,), ()
WORDS = dict(lr=0.02, max_grad_norm=100.0)


def made(make):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    return params, make([{"params": params[:4]}, {"params": params[4:], "use_muon": False}], **WORDS)


def grads_of(step, rank):
    torch.manual_seed(100 * step + rank)
    return [torch.randn(shape) for shape in SHAPES]


def steps(rank, group):
    params, optimizer = made(altgrad.distributed.DistMuon)
    for step in range(3):
        sum([(param * grad).sum() for param, grad in zip(params, grads_of(step, rank))]).backward()
        optimizer.step()
    return [param.tolist() for param in params], len(optimizer.local_optimizer.state), optimizer.grad_norm.item()


def narrow(rank, group):
    """Of bfloat16 that travels in float32: the sum over two backward passes."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).bfloat16()) for shape in SHAPES[:4]]
    optimizer = altgrad.distributed.DistMuon(params, lr=0.02, reduce_dtype=torch.float32, reproducible=True)
    for step in range(2):
        for part in range(2):
            sum([(param * grad.bfloat16()).sum() for param, grad in zip(params, grads_of(step, part))]).backward()
        optimizer.step()
    return [param.float().tolist() for param in params]


def test_gradients_that_come_twice_are_added_up(of_two):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).bfloat16()) for shape in SHAPES[:4]]
    for param in params:
        param.grad_dtype = torch.float32
    optimizer = altgrad.optim.Muon(params, lr=0.02, reproducible=True)
    for step in range(2):
        for param, *grads in zip(params, grads_of(step, 0), grads_of(step, 1)):
            param.grad = sum([grad.bfloat16().float() for grad in grads])
        optimizer.step()
    answers = of_two[1]
    for answer in answers:
        assert answer == [param.float().tolist() for param in params], answer


STACKS = (48, 96), (3, 32, 64), (96, 64), (24, 16, 3, 3), (70, 80), (7,), (33, 300)
LATE = 2  # has no gradient in the second step


def stacks(make):
    """(parameters, norms) under a scaler that skips a step: stacks, filters, parts of rows and another dtype."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in STACKS]
    params[-1].data = params[-1].data.bfloat16()
    optimizer = make([{"params": params[:4]}, {"params": params[4:5], "split": (30, 40)},
                      {"params": params[5:], "use_muon": False}], lr=0.02, max_grad_norm=5.0, reproducible=True)
    scaler, norms = altgrad.amp.GradScaler("cpu", init_scale=4.0), []
    for step in range(4):
        torch.manual_seed(step)
        scaler.scale(torch.ones(()))
        scale = torch.inf if step == 2 else scaler.get_scale()
        sum([(param * (torch.randn(param.shape) * scale)).sum() for place, param in enumerate(params)
             if step != 1 or place != LATE]).backward()
        scaler.step(optimizer), scaler.update()
        optimizer.zero_grad()
        norms.append(repr(optimizer.grad_norm.item()))
    return [param.float().tolist() for param in params], norms


def reproducible(rank, group):
    return stacks(altgrad.distributed.DistMuon)


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """What two ranks answer of everything."""
    return ranks.run([steps, narrow, reproducible], tmp_path_factory.mktemp("two"))


@pytest.mark.filterwarnings("ignore:.*max_grad_norm only changes")
def test_a_reproducible_clip_has_the_bits_of_one_process(of_two, tmp_path):
    expected = stacks(altgrad.optim.Muon)
    for answer in [*of_two[2], *ranks.run([reproducible], tmp_path, 4)[0]]:
        assert not isinstance(answer, str), answer
        assert answer[1] == expected[1] and answer[0] == expected[0], (answer[1], expected[1])


def test_as_one_process_with_the_same_averages(of_two):
    params, optimizer = made(altgrad.optim.Muon)
    for step in range(3):
        for param, *grads in zip(params, grads_of(step, 0), grads_of(step, 1)):
            param.grad = grads[0] / 2 + grads[1] / 2
        optimizer.step()
    answers = of_two[0]
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer[0] == [param.tolist() for param in params]
        assert abs(answer[2] / optimizer.grad_norm.item() - 1) < 1e-6
    assert sum(answer[1] for answer in answers) == len(SHAPES) and min(answer[1] for answer in answers) > 0
