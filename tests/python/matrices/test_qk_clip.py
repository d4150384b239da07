"""altgrad.matrices.qk_clip_ beside attention itself: the logits of the smaller weights are at most tau."""

import altgrad
import pytest
import ranks
import torch


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def logits(x, query, key, heads):
    """The largest logit of each head, for keys that several heads may share."""
    q = (x @ query.T).unflatten(-1, (heads, -1)).transpose(0, 1)
    k = (x @ key.T).unflatten(-1, (-1, q.shape[-1])).transpose(0, 1)
    k = k.repeat_interleave(heads // len(k), 0)
    return (q @ k.mT / q.shape[-1] ** 0.5).amax((1, 2))


@pytest.mark.parametrize("alpha", [0.5, 0.0, 1.0])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_logits_are_at_most_tau_afterwards(alpha, key_heads):
    x, query, key = drawn(10, 12), 3 * drawn(4 * 8, 12, seed=1), drawn(key_heads * 8, 12, seed=2)
    query[8:16] *= 0.01  # a head that is far below tau
    before, tau = logits(x, query, key, 4), 20.0
    ours, its = query.clone(), key.clone()
    gamma = altgrad.matrices.qk_clip_(ours, its, before, tau, alpha)
    least = (tau / before).clamp(max=1).view(key_heads, -1).amin(1).repeat_interleave(4 // key_heads)
    torch.testing.assert_close(gamma, least)
    after = logits(x, ours, its, 4)
    torch.testing.assert_close(after, before * gamma)
    assert after.max() <= tau * (1 + 1e-5) and (before > tau).any() and (key_heads < 4 or gamma[1] == 1)
    if key_heads == 4:
        assert torch.equal(ours[8:16], query[8:16]) and torch.equal(its[8:16], key[8:16])


def test_latent_attention_by_views():
    """W_q of content and W_k take sqrt(gamma), the rotary W_q gamma, values and the shared rotary key nothing."""
    heads, content, turned, value = 3, 4, 2, 5
    query, key_value = drawn(heads * (content + turned), 7), drawn(heads * (content + value), 7)
    q, kv = query.clone().view(heads, -1, 7), key_value.clone().view(heads, -1, 7)
    gamma = altgrad.matrices.qk_clip_(q[:, :content], kv[:, :content], torch.tensor([200.0, 100.0, 400.0]), rotary=q[:, content:])
    assert gamma.tolist() == [0.5, 1.0, 0.25]
    for h, factor in enumerate([0.5, 1.0, 0.25]):
        before, its = query.view(heads, -1, 7)[h], key_value.view(heads, -1, 7)[h]
        torch.testing.assert_close(q[h], torch.cat([before[:content] * factor ** 0.5, before[content:] * factor]))
        torch.testing.assert_close(kv[h], torch.cat([its[:content] * factor ** 0.5, its[content:]]))


def test_biases_and_bfloat16_are_rounded_once():
    weight, bias, key = drawn(6, 5).bfloat16(), drawn(6).bfloat16(), drawn(6, 5)
    ours = weight.clone(), bias.clone()
    gamma = altgrad.matrices.qk_clip_(ours, [key.clone()], torch.tensor([300.0, 1.0]))
    factor = (gamma ** 0.5).repeat_interleave(3)
    assert torch.equal(ours[0], (weight.float() * factor[:, None]).bfloat16())
    assert torch.equal(ours[1], (bias.float() * factor).bfloat16())


def test_logits_that_are_not_finite_change_nothing():
    query, key = drawn(4, 3), drawn(4, 3)
    before = query.clone()
    gamma = altgrad.matrices.qk_clip_(query, key, torch.tensor([torch.inf, torch.nan]))
    assert gamma.tolist() == [1.0, 1.0] and torch.equal(query, before)


def sharded(rank, group):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor
    mesh = init_device_mesh("cpu", (2,))
    query, key = distribute_tensor(drawn(9, 4), mesh, [Shard(0)]), distribute_tensor(drawn(9, 4), mesh, [Shard(1)])
    altgrad.matrices.qk_clip_(query, key, torch.tensor([200.0, 50.0, 400.0]))
    return query.full_tensor().tolist(), key.full_tensor().tolist()


def test_parts_of_a_weight_take_the_factors_of_their_heads(tmp_path):
    """Nine rows on two ranks: a head is cut."""
    query, key = drawn(9, 4), drawn(9, 4)
    altgrad.matrices.qk_clip_(query, key, torch.tensor([200.0, 50.0, 400.0]))
    answers, = ranks.run([sharded], tmp_path)
    assert answers == ((query.tolist(), key.tolist()),) * 2, answers


def test_a_master_copy_follows():
    query, key = (torch.nn.Parameter(drawn(8, 4, seed=seed).bfloat16()) for seed in (0, 1))
    optimizer = altgrad.optim.AdamW([query, key], lr=0.0, storage="master=f32")
    query.grad, key.grad = torch.ones_like(query), torch.ones_like(key)
    optimizer.step()
    altgrad.matrices.qk_clip_(query, key, torch.tensor([400.0, 10.0]))
    clipped = query.detach().clone()
    optimizer.step()
    assert torch.equal(query, clipped) and torch.equal(optimizer.state[query]["master"].bfloat16(), clipped)


@pytest.mark.parametrize("query, key, given, error, words", [
    ((6, 3), (6, 3), {"tau": 0.0}, ValueError, "tau is 0.0 and alpha 0.5; tau is above 0"),
    ((7, 3), (7, 3), {}, ValueError, "query has 7 rows, which are not 2 heads of the same size"),
    ((6, 3), (4, 3), {}, ValueError, r"a query head has 3 rows, and the keys of shape \[\(4, 3\)\] are no heads"),
    ((6, 3), (9, 3), {}, ValueError, "are no heads of which 2 is a multiple"),
    ((6, 3), (6, 3), {"max_logits": torch.ones(())}, ValueError, "max_logits is no tensor with one number for each head"),
    ((), (6, 3), {}, TypeError, "query is no tensor of floating-point numbers"),
], ids=["tau", "rows", "keys", "groups", "logits", "scalar"])
def test_what_is_refused(query, key, given, error, words):
    with pytest.raises(error, match=words):
        altgrad.matrices.qk_clip_(torch.ones(query), torch.ones(key), **{"max_logits": torch.ones(2), **given})
