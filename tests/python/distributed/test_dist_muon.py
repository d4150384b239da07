"""altgrad.distributed.DistMuon: whole matrices have owners, and the bits are those of one process."""

import pytest
import ranks
import torch

import altgrad

SHAPES = (48, 96), (96, 48), (64, 64), (32, 200), (7,), (48,)
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
    return [param.tolist() for param in params], len(optimizer.own.state), optimizer.grad_norm.item()


def narrow(rank, group):
    """Of bfloat16 that travels in float32: the sum over two backward passes."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).bfloat16()) for shape in SHAPES[:4]]
    optimizer = altgrad.distributed.DistMuon(params, lr=0.02, wire=torch.float32, reproducible=True)
    for step in range(2):
        for part in range(2):
            sum([(param * grad.bfloat16()).sum() for param, grad in zip(params, grads_of(step, part))]).backward()
        optimizer.step()
    return [param.float().tolist() for param in params]


def test_gradients_that_come_twice_are_added_up(tmp_path):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape).bfloat16()) for shape in SHAPES[:4]]
    for param in params:
        param.grad_dtype = torch.float32
    optimizer = altgrad.optim.Muon(params, lr=0.02, reproducible=True)
    for step in range(2):
        for param, *grads in zip(params, grads_of(step, 0), grads_of(step, 1)):
            param.grad = sum([grad.bfloat16().float() for grad in grads])
        optimizer.step()
    answers, = ranks.run([narrow], tmp_path)
    for answer in answers:
        assert answer == [param.float().tolist() for param in params], answer


def test_as_one_process_with_the_same_averages(tmp_path):
    params, optimizer = made(altgrad.optim.Muon)
    for step in range(3):
        for param, *grads in zip(params, grads_of(step, 0), grads_of(step, 1)):
            param.grad = grads[0] / 2 + grads[1] / 2
        optimizer.step()
    answers, = ranks.run([steps], tmp_path)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer[0] == [param.tolist() for param in params]
        assert abs(answer[2] / optimizer.grad_norm.item() - 1) < 1e-6
    assert sum(answer[1] for answer in answers) == len(SHAPES) and min(answer[1] for answer in answers) > 0
