"""What altgrad.distributed.memory says beforehand is what ranks have afterwards."""

import pytest
import ranks
import torch

import altgrad

SHAPES = (300, 200), (7,), (5000,), (64, 64, 4)
CASES = {
    "AdamW": dict(),
    "AdamW8bit": dict(),
    "AdamW4bit": dict(),
    "Lion": dict(storage="master=f32 m=bf16", reduce_dtype=torch.float32),
}


def params_of(name, device="cpu"):
    dtype = torch.bfloat16 if name == "Lion" else torch.float32
    return [torch.nn.Parameter(torch.ones(shape, dtype=dtype, device=device)) for shape in SHAPES]


def measured(rank, group):
    """(bytes of parameters, averaged gradients, most of buckets at a time, states) of each case."""
    found = []
    for name, words in CASES.items():
        params = params_of(name)
        optimizer = altgrad.distributed.Sharded(getattr(altgrad.optim, name), params, bucket_bytes=60000, lr=0.01, **words)
        most, send, sums, tell = [0], optimizer._send, [], optimizer._tell_groups

        def counted():
            send()
            held = [bucket._pending[2] for bucket in optimizer._buckets if bucket._pending]
            most[0] = max(most[0], sum([grads.nbytes for grads in held]))

        def arrived():
            sums.append(sum([bucket.sum.nbytes for bucket in optimizer._buckets]))
            tell()
        optimizer._send, optimizer._tell_groups = counted, arrived
        sum([param.float().sum() for param in params]).backward()
        optimizer.step()
        states = sum([value.nbytes for held in optimizer.local_optimizer.state.values() for value in held.values() if value.dim()])
        found.append((sum([bucket.flat.nbytes for bucket in optimizer._buckets]), *sums, most[0], states))
    return found


def test_what_is_said_is_what_is_needed(tmp_path):
    answers, = ranks.run([measured], tmp_path, 3)
    assert not any(isinstance(answer, str) for answer in answers), answers
    for place, (name, words) in enumerate(CASES.items()):
        said = altgrad.distributed.memory(getattr(altgrad.optim, name), params_of(name, "meta"), 3, bucket_bytes=60000,
                                          lr=0.01, **words)
        params, sums, buckets, states = map(max, zip(*[answer[place] for answer in answers]))
        assert (said.parameters, said.gradients) == (params, sums), name
        assert 0 < buckets <= said.buckets and abs(said.states / states - 1) < 0.01, (name, said, states)
        assert f"{said.total / 1e6:,.1f} MB on each rank" in str(said)


@pytest.mark.parametrize("kind", ["AdamW", torch.optim.AdamW, None])
def test_what_is_no_class_of_ours_is_refused(kind):
    with pytest.raises(TypeError, match="kind is .*; it takes a class of altgrad.optim"):
        altgrad.distributed.memory(kind, params_of("AdamW"), ranks=2)


@pytest.mark.parametrize("name, ranks, words", [("AdamW", 0, "ranks is 0; it takes at least one"),
                                                ("Muon", 2, "Muon updates whole matrices")])
def test_what_has_no_memory_beforehand_is_refused_by_its_own_sentence(name, ranks, words):
    with pytest.raises(ValueError, match=words):
        altgrad.distributed.memory(getattr(altgrad.optim, name), params_of("AdamW"), ranks=ranks)
