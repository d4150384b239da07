"""altgrad.distributed.Sharded: each rank steps its part of the averaged gradients, with the bits of one process."""

import copy
import functools
import pickle

import pytest
import ranks
import torch
import torch.distributed as dist

import altgrad

SHAPES = (100, 90), (7,), (3, 50, 64), (5000,), (12, 12)
CASES = {
    "AdamW": dict(lr=0.01, weight_decay=0.1),
    "AdamW8bit": dict(lr=0.01),
    "AdamW4bit": dict(lr=0.01),
    "Lion": dict(lr=0.01, storage="param=bf16,stochastic m=bf16,stochastic", seed=5),
}
SUMS = {"AdamW": dict(lr=0.01, max_grad_norm=0.1), "LAMB": dict(lr=0.01)}


def params_of(words, frozen=False):
    torch.manual_seed(0)
    dtype = torch.bfloat16 if "bf16" in words.get("storage", "") else torch.float32
    params = [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in SHAPES]
    params[1].requires_grad_(not frozen)
    return params


def grads_of(params, step, rank):
    torch.manual_seed(100 * step + rank)
    return [torch.randn(param.shape).to(param.dtype) for param in params]


def backward(params, grads, used):
    sum([(param * grad).float().sum() for index, (param, grad) in enumerate(zip(params, grads))
         if index in used and param.requires_grad]).backward()


def used_in(step, rank):
    """Parameter 4 has a gradient on the first rank alone, and on none in the last step."""
    return [0, 1, 2, 3] + [4] * (rank == 0 and step < 2)


def sharded(name, words, count):
    params = params_of(words, frozen=True)
    optimizer = altgrad.distributed.Sharded(getattr(altgrad.optim, name), params, bucket_bytes=40000, **words)
    norms = []
    for step in range(3):
        backward(params, grads_of(params, step, dist.get_rank()), used_in(step, dist.get_rank()))
        assert all(param.grad is None for param in params)
        optimizer.step()
        norms.append(optimizer.grad_norm)
    return [param.detach().float().tolist() for param in params], [n.item() for n in norms if n is not None]


def alone(name, words, count):
    params, norms = params_of(words), []
    optimizer = getattr(altgrad.optim, name)(params, **words)
    for step in range(3):
        every = [grads_of(params, step, rank) for rank in range(count)]
        for index, param in enumerate(params):
            parts = [grads[index] / count for rank, grads in enumerate(every) if index in used_in(step, rank)]
            param.grad = sum(parts) if parts and index != 1 else None
        optimizer.step()
        norms.append(optimizer.grad_norm)
    return [param.detach().float().tolist() for param in params], [n.item() for n in norms if n is not None]


def steps(rank, group):
    return ([sharded(name, words, group.size()) for name, words in CASES.items()],
            [sharded(name, words, group.size()) for name, words in SUMS.items()])


def accumulated(rank, group):
    """A sum over two backward passes, of which the first stays at home, and one over two that travel."""
    found = []
    for apart in (True, False):
        params = params_of({})
        optimizer = altgrad.distributed.DistAdamW(params, lr=0.01, reduce_dtype=torch.float32, overlap=apart, bucket_bytes=40000,
                                                  order="given" if apart else "reversed")
        assert optimizer._buckets[0].params[0] is params[0 if apart else -1]  # which is sent first
        for part in range(2):
            grads = grads_of(params, part, rank)
            if apart and part == 0:
                with optimizer.no_sync():
                    backward(params, grads, range(5))
            else:
                backward(params, grads, range(5))
        optimizer.step()
        found.append([param.detach().tolist() for param in params])
    return found


def refused(rank, group):
    said = []
    other = [torch.nn.Parameter(torch.ones(4 + rank)), torch.nn.Parameter(torch.ones(3))]
    muon = [torch.nn.Parameter(torch.ones(64, 128))]
    for kind, params, words in ((altgrad.optim.AdamW, other, {}), (altgrad.optim.Muon, muon, dict(use_muon=bool)),
                                (altgrad.optim.AdamW, muon, dict(order="forward")),
                                (altgrad.optim.AdamW, [{"params": muon, "lr": 0.1 * (rank + 1)}], {})):
        try:
            optimizer = altgrad.distributed.Sharded(kind, params, **words)
            params[0].sum().backward()
            optimizer.step()
            said.append(None)
        except (TypeError, ValueError) as error:
            said.append(str(error))
    return said


def test_as_one_process_with_the_same_averages(tmp_path):
    answers, sums, said = ranks.run([steps, accumulated, refused], tmp_path)
    expected = [alone(name, words, 2) for name, words in CASES.items()]
    added = [alone(name, words, 2) for name, words in SUMS.items()]
    for answer in answers:
        assert not isinstance(answer, str), answer
        for name, one, other in zip(CASES, answer[0], expected):
            assert one == other, name
        for name, one, other in zip(SUMS, answer[1], added):
            assert one[1] == pytest.approx(other[1], rel=1e-6), name
            for a, b in zip(one[0], other[0]):
                torch.testing.assert_close(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-6)
    for answer in sums:
        assert not isinstance(answer, str), answer
        for a, b in zip(*answer):
            torch.testing.assert_close(torch.tensor(a), torch.tensor(b))
    for answer in said:
        assert "rank 1 has other parameters" in answer[0] and "use_muon is a function" in answer[1], answer
        assert "order is 'forward', none of 'reversed', 'given'" in answer[2], answer
        assert "rank 1 differs in lr of group 0 from rank 0" in answer[3], answer


def test_without_a_process_group_there_is_a_sentence():
    with pytest.raises(RuntimeError, match="needs a process group: call torch.distributed.init_process_group"):
        altgrad.distributed.DistAdamW([torch.nn.Parameter(torch.ones(3))])


def thawed(rank, group):
    """A parameter that is in no bucket would stay as it is, or differ between ranks."""
    params = [torch.nn.Parameter(torch.ones(8, 8)) for _ in range(2)]
    params[1].requires_grad_(False)
    optimizer = altgrad.distributed.DistAdamW(params, lr=0.1)
    params[1].requires_grad_(True)
    sum([param.sum() for param in params]).backward()
    with pytest.raises(RuntimeError, match="requires a gradient now, and was frozen when the optimizer was made"):
        optimizer.step()
    return bool((params[0] == 1).all())


def test_a_parameter_that_thaws_is_refused_on_every_rank(tmp_path):
    assert ranks.run([thawed], tmp_path) == [(True, True)]


def raised(rank, group):
    """Two steps; between them perhaps a backward that raises when some buckets are on their way."""
    found = []
    for bad in (True, False):
        params = params_of({})
        optimizer = altgrad.distributed.DistAdamW(params, lr=0.01, bucket_bytes=40000)
        for step in range(2):
            if bad and step:
                handle = params[0].register_hook(lambda grad: 1 // 0)
                with pytest.raises(ZeroDivisionError):
                    backward(params, grads_of(params, 5, rank), range(5))
                handle.remove()
                optimizer.zero_grad()
            backward(params, grads_of(params, step, rank), range(5))
            optimizer.step()
        found.append([param.tolist() for param in params])
    return found[0] == found[1]


def test_of_a_backward_that_raised_nothing_is_left(tmp_path):
    assert ranks.run([raised], tmp_path) == [(True, True)]


def freed(make):
    """Two steps; before the second the groups lose their bound."""
    params = params_of({})
    optimizer = make(params, lr=0.01, max_grad_norm=0.1)
    for step in range(2):
        if step:
            for of in optimizer.param_groups:
                del of["max_grad_norm"]
        backward(params, grads_of(params, step, 0), range(5))
        optimizer.step()
        optimizer.zero_grad()
    return [param.tolist() for param in params], optimizer.grad_norm


def freed_of_its_bound(rank, group):
    return freed(functools.partial(altgrad.distributed.DistAdamW, reproducible=True)) == freed(altgrad.optim.AdamW)


def test_an_option_that_is_taken_out_of_a_group_has_no_effect(tmp_path):
    assert ranks.run([freed_of_its_bound], tmp_path) == [(True, True)]


def remade(rank, group):
    """An optimizer that is no longer there, or in whose place another one is, takes no gradients."""
    found = []
    for kind in (altgrad.distributed.DistAdamW, torch.optim.AdamW, altgrad.distributed.DistAdamW):
        params = params_of({})
        old = altgrad.distributed.DistAdamW(params)
        if len(found) < 2:
            del old
        optimizer = kind(params, lr=0.01, weight_decay=0.01)
        backward(params, grads_of(params, 0, 0), range(5))
        optimizer.step()
        found.append([param.tolist() for param in params])
    with pytest.raises(RuntimeError, match="the memory of a parameter of shape .* was replaced"):
        old.step()
    for a, b in zip(found[0], found[1]):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b))
    return found[0] == found[2]


def test_an_earlier_optimizer_takes_no_gradients(tmp_path):
    assert ranks.run([remade], tmp_path) == [(True, True)]


def emptied(rank, group):
    """Of parameters, the last of which has no elements."""
    params = [torch.nn.Parameter(torch.ones(64, 64)), torch.nn.Parameter(torch.ones(0, 4))]
    optimizer = altgrad.distributed.DistAdamW(params, lr=0.1)
    sum([param.sum() for param in params]).backward()
    optimizer.step()
    return bool((params[0] < 1).all())


def sparse(rank, group):
    optimizer = altgrad.distributed.DistAdamW(torch.nn.Embedding(9, 4, sparse=True).parameters())
    param, = optimizer.param_groups[0]["params"]
    with pytest.raises(RuntimeError, match=r"not support sparse gradients, and a parameter of shape .9, 4. has one"):
        torch.nn.functional.embedding(torch.tensor([1]), param, sparse=True).sum().backward()
    return True


def moved(rank, group):
    """What only one rank steps is refused by the others, too: else they would wait for it."""
    param = torch.nn.Parameter(torch.ones(64, 64))
    optimizer = altgrad.distributed.DistMuon([param], lr=0.1)
    param.data = param.data.double()
    with pytest.raises(RuntimeError, match="the memory of a parameter of shape .64, 64. was replaced"):
        optimizer.step()
    return True


def test_what_is_odd_about_a_parameter_is_taken_or_refused_on_every_rank(tmp_path):
    assert ranks.run([emptied, sparse, moved], tmp_path) == [(True, True)] * 3


def said(call):
    try:
        return str(call())
    except (TypeError, ValueError) as error:
        return str(error)


def arguments(rank, group):
    params = lambda: [torch.nn.Parameter(torch.ones(8, 8))]
    optimizer, sharded = altgrad.distributed.DistAdamW(params()), altgrad.distributed.Sharded
    return [said(call) for call in (
        lambda: sharded(torch.optim.AdamW, params()), lambda: sharded(altgrad.optim.FromRule, params()),
        lambda: sharded(altgrad.optim.AdamW, params(), process_group=3), lambda: copy.deepcopy(optimizer),
        lambda: sharded(altgrad.optim.AdamW, params(), process_group=dist.GroupMember.NON_GROUP_MEMBER),
        lambda: pickle.dumps(optimizer))]


def test_what_it_does_not_take_is_refused_in_words(tmp_path):
    ((answer,),) = ranks.run([arguments], tmp_path, 1)
    words = ["kind is <class 'torch.optim.adamw.AdamW'>; it takes a class of altgrad.optim", "kind is <function FromRule",
             "process_group is a torch.distributed.ProcessGroup or None, not int", "DistAdamW is neither copied nor pickled",
             "process_group: this rank is not in the group",
             "make another one for a copy of the model, and give it state_dict()"]
    assert len(answer) == len(words) and all(word in text for word, text in zip(words, answer)), answer
