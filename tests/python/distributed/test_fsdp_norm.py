"""norm_in_backward under fully_shard: the bits of the step that reads gradients twice, whatever changes them."""

import os

import pytest
import ranks
import torch
import torch.distributed as dist
from torch.distributed.fsdp import CPUOffloadPolicy, fully_shard

import altgrad
from altgrad._binding import fsdp_norm

WORDS = dict(lr=0.01, max_grad_norm=0.5)


def made(**words):
    torch.manual_seed(0)
    linear = torch.nn.Linear
    model = torch.nn.Sequential(linear(1024, 1024), linear(1024, 520, bias=False), linear(520, 1030))
    for layer in [*model, model]:
        fully_shard(layer, offload_policy=CPUOffloadPolicy(pin_memory=False))
    return model, altgrad.optim.AdamW(model.parameters(), **WORDS, **words)


def some(param):
    """Less than a chunk of the part of a gradient that lies here, the end of it."""
    return param.grad.to_local().detach().view(-1)[-100:]


def backward(model, optimizer, loss_scale=1.0):
    (model(torch.randn(4, 1024)).square().mean() * loss_scale).backward()


def twice(model, optimizer):
    backward(model, optimizer), backward(model, optimizer)


def unscaled(model, optimizer):
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    scaler.scale(torch.ones(()))
    backward(model, optimizer, 64.0)
    scaler.unscale_(optimizer)


def multiplied(model, optimizer):
    backward(model, optimizer)
    for param in model.parameters():
        param.grad.mul_(0.5)


def part_multiplied(model, optimizer):
    backward(model, optimizer)
    some(model[0].weight).mul_(3.0)


def part_reduced(model, optimizer):
    backward(model, optimizer)
    dist.all_reduce(some(model[1].weight))


def reduced_in_backward(model, optimizer):
    """By the hook of an input that comes after all."""
    words = torch.randn(4, 1024, requires_grad=True)
    words.register_hook(lambda grad: dist.all_reduce(some(model[2].weight), group=OTHER[0]))
    model(words).square().mean().backward()


def replaced(model, optimizer):
    backward(model, optimizer)
    model[2].weight.grad = model[2].weight.grad * 2.0


def no_sync(model, optimizer):
    model.set_requires_gradient_sync(False)
    backward(model, optimizer)
    model.set_requires_gradient_sync(True)
    backward(model, optimizer)


def one_layer(model, optimizer):
    backward(model, optimizer)
    model[2](torch.randn(3, 520)).sum().backward()


def by_our_scaler(model, optimizer):
    """The step gets the scale; in every second step it is another one than that of the sums."""
    scaler = SCALERS.setdefault(optimizer, altgrad.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2))
    scaler.scale(torch.ones(()))
    backward(model, optimizer, scaler.get_scale())
    scaler.step(optimizer), scaler.update()


def hooked(model, optimizer):
    handle = model[0].weight.register_post_accumulate_grad_hook(lambda param: param.grad.to_local().data[0, :5].zero_())
    backward(model, optimizer)
    handle.remove()


OTHER, SCALERS = [], {}
# Where a part of each layer's gradient is its bias, a gradient that is added to raises the version of its neighbour.
USED = {backward: (3, 0), twice: (1, 2), unscaled: (0, 0), multiplied: (0, 0), part_multiplied: (2, 1), replaced: (2, 0),
        part_reduced: (0, 0), reduced_in_backward: (0, 0), no_sync: (3, 0), one_layer: (0, 1), hooked: (2, 0)}


def trained(cases, rank):
    """([rows whose sums were used and rows read again], whether all bits are those of the same steps without hooks)."""
    pairs, used, equal = [made(norm_in_backward=True), made()], [], []
    for turn, case in enumerate(cases):
        for model, optimizer in pairs:
            torch.manual_seed(10 * turn + rank)
            optimizer.zero_grad()
            case(model, optimizer)
            if case != by_our_scaler:
                optimizer.step()
        used.append(pairs[0][1]._built.tables[0].summed_rows())
        equal.append(torch.equal(pairs[0][1].grad_norm, pairs[1][1].grad_norm) and all(
            torch.equal(one.to_local(), two.to_local()) for one, two in zip(*[model.parameters() for model, _ in pairs])))
    return used, equal


def in_every_way(rank, group):
    OTHER.append(dist.new_group())
    return trained([backward, *USED, *[by_our_scaler] * 4, backward], rank)


def as_copies_arrive(rank, group):
    """A device's copies to the host arrive later than hooks are called, or not before the end of backward."""
    answers = []
    for arrived in ([False, True], [False] * 9):
        fsdp_norm._arrival = lambda mesh: iter(arrived).__next__
        answers.append(trained([backward] * 3, rank))
    return answers


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="GPUs sum in the step")
@pytest.mark.filterwarnings("ignore:.*norm_in_backward")
def test_sums_of_reduced_gradients_are_used_where_nothing_changed_them(tmp_path):
    every, arriving = ranks.run([in_every_way, as_copies_arrive], tmp_path)
    for answer, copies in zip(every, arriving):
        assert not isinstance(answer, str) and not isinstance(copies, str), (answer, copies)
        used, equal = answer
        assert all(equal), equal
        assert used[0] == (0, 0) and used[1:len(USED) + 1] == list(USED.values()), used
        # The first step of another program, and of another scale than that of the sums, reads all.
        assert used[len(USED) + 1:] == [(0, 0), (3, 0), (0, 0), (3, 0), (0, 0)], used
        assert [of for of, _ in copies] == [[(0, 0), (3, 0), (3, 0)], [(0, 0)] * 3] and all(map(all, [e for _, e in copies]))
