"""Partial sums of chunks: those of slices, side by side in the order of elements, fold to the bits of the whole."""

import pytest
import torch

from altgrad._binding.device_context import DeviceContext
from altgrad._binding.workspace import Workspace
from altgrad._bundle import compile_sets
from altgrad._library import Error
from altgrad._plan import Plan
from altgrad._rule import find_rule, set_line

CHUNK, SIZES = 4096, (700_001, 5_000, 33)
FOLD, TOTAL = 1, 2  # kinds of phases


def planned(bundle, context, slices):
    """A plan of (tag, first element, elements) of SIZES, and its workspace of zeros."""
    plan = Plan(bundle, context.name)
    plan.bind_tensors([(numel, 0, 0, tag, (0, 0), 1, first, SIZES[tag]) for tag, first, numel in slices], 1)
    space = Workspace(plan, context)
    space.tensor.zero_()
    return plan, space


def chunks_in(plan, space):
    """The partials in a workspace, [words, chunks], as they lie there."""
    offset, words, chunks = plan.partials()
    return space.every()[offset // 4:][:words * chunks].view(words, chunks)


def swept(bundle, context, grads, slices, stop):
    """The plan and the workspace after the sweep over these slices of gradients, which is all that is read."""
    plan, space = planned(bundle, context, slices)
    mine = [grads[tag][first:first + numel] for tag, first, numel in slices]
    part, cell = bundle.sets[0], torch.zeros(2, dtype=torch.float64)
    for stream in (part.param, part.grad, *part.states):
        plan.bind_stream(stream.name, [grad.data_ptr() for grad in mine])
    for scalar in (*part.hypers, *bundle.singles):
        plan.bind_scalar(scalar.name, [cell.data_ptr()])
    for scalar in (part.step, *part.statistics):
        plan.bind_scalar(scalar.name, [cell.data_ptr()] * len(mine))
    plan.run(*space.memory, 0, stop, context.stream())
    return plan, space


@pytest.mark.parametrize("statistics", [False, True])
def test_partials_of_slices_side_by_side_fold_to_the_bits_of_the_whole(statistics):
    context = DeviceContext(torch.device("cpu"))
    bundle = compile_sets([set_line(find_rule("adamw"), (), dict(param="f32", grad="f32", states="param", step="f32"))],
                          [find_rule("adamw")], clip="norm", exchange=True, statistics=statistics, on_host=context.on_host)
    kinds = bundle.kinds
    first = next(at for at, kind in enumerate(kinds) if kind in (FOLD, TOTAL))
    stop = next(at for at in range(first, len(kinds)) if kinds[at] not in (FOLD, TOTAL))
    torch.manual_seed(3)
    grads = [torch.randn(size) * 10.0 ** torch.randint(-3, 3, (size,)) for size in SIZES]
    cuts = [(100 * CHUNK, CHUNK, 33), (SIZES[0], SIZES[1], 33)]
    halves = [swept(bundle, context, grads, [(0, 0, cuts[0][0]), (1, 0, CHUNK)], stop),
              swept(bundle, context, grads, [(0, cuts[0][0], SIZES[0] - cuts[0][0]), (1, CHUNK, SIZES[1] - CHUNK), (2, 0, 33)], stop)]
    whole = swept(bundle, context, grads, [(tag, 0, size) for tag, size in enumerate(SIZES)], stop)
    one, other = [chunks_in(*half) for half in halves]
    plan, space = planned(bundle, context, [(tag, 0, size) for tag, size in enumerate(SIZES)])
    chunks_in(plan, space)[:] = torch.cat([one[:, :100], other[:, :-2], one[:, 100:], other[:, -2:]], 1)
    assert torch.equal(chunks_in(plan, space), chunks_in(*whole))
    plan.run(*space.memory, first, stop, context.stream())
    words = plan.partials()[0] // 4
    assert words and torch.equal(space.every()[:words], whole[1].every()[:words])
    shares = [half[1].words(bundle.exchanges[0].words)[0][1] for half in halves]
    assert sum(shares) != whole[1].words(bundle.exchanges[0].words)[0][1]  # added in another order
    with pytest.raises(Error, match="not bound: .*"):
        plan.run(*space.memory, 0, stop, context.stream())
