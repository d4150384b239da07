"""With model=, parameters travel while the next forward goes on: the bits of waiting for all, and nothing is read too early."""

import pytest
import ranks
import torch

import altgrad

KINDS = {"AdamW": altgrad.optim.AdamW, "Muon": altgrad.optim.Muon}


def train(rank, kind, overlaps):
    """(parameters, how many buckets were on their way behind a step and in each module's forward) after three steps."""
    torch.manual_seed(0)
    model, seen = torch.nn.Sequential(*[torch.nn.Linear(48, 48, bias=False) for _ in range(4)]), []
    optimizer = altgrad.distributed.Sharded(kind, model.parameters(), lr=0.01, bucket_bytes=10_000,
                                            model=model if overlaps else None)
    for module in model:  # behind the hooks of the optimizer
        module.register_forward_pre_hook(lambda *_: seen.append(len(optimizer._coming._works)))
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        model(torch.randn(5, 48)).square().sum().backward()
        optimizer.step()
        seen.append(len(optimizer._coming._works))
    if overlaps:
        assert optimizer._coming._works
    kept = model.state_dict()
    assert not optimizer._coming._works
    return [value.tolist() for value in kept.values()], seen


def on_ranks(rank, group):
    return {name: [train(rank, kind, overlaps) for overlaps in (False, True)] for name, kind in KINDS.items()}


@pytest.mark.parametrize("count", [2, 3])
def test_the_bits_of_waiting_for_all(count, tmp_path):
    answers, = ranks.run([on_ranks], tmp_path, count)
    for answer in answers:
        assert not isinstance(answer, str), answer
        for name, ((params, none), (others, seen)) in answer.items():
            assert params == others == answers[0][name][0][0], name
            assert not any(none)
            # No forward before the first step waits; behind a step all four travel, and each module waits for its own.
            assert seen == [0, 0, 0, 0, 4, 3, 2, 1, 0, 4, 3, 2, 1, 0, 4], (name, seen)
