"""process_group=: one norm and one flag over two processes, against torch on the union of their shards."""

import copy
import pickle
from functools import partial

import pytest
import ranks
import torch
import torch.distributed as dist
import twins

import altgrad

STEPS = 4
# Every kind of rank beside another: sets in another order, other sets, torch's part, nothing.
SHARDS = {
    "one kind": ([torch.float32, torch.float32], [torch.float32]),
    "the same kinds": ([torch.float32, torch.bfloat16], [torch.float32, torch.bfloat16]),
    "other kinds": ([torch.float16, torch.float32], [torch.bfloat16]),
    "torch's part on one": ([torch.float64, torch.float32], [torch.float32]),
    "torch's part alone": ([torch.float32], [torch.float64, torch.complex64]),
    "one without gradients": ([torch.float32, torch.float32], [None]),
}


def shards(kinds, seed):
    """[parameters of a rank], with gradients but for the kind None."""
    torch.manual_seed(seed)
    lists = []
    for several in kinds:
        lists.append([])
        for place, dtype in enumerate(several):
            param = torch.nn.Parameter(torch.randn(7 + 4100 * place, dtype=dtype or torch.float32))
            lists[-1].append(param)
    return lists


def give_grads(lists, kinds, seed):
    torch.manual_seed(seed)
    for params, several in zip(lists, kinds):
        for p, dtype in zip(params, several):
            p.grad = None if dtype is None else torch.randn_like(p)


def train(rank, group, name, label, flags):
    """The rank's own parameters and every step's norm."""
    kinds = SHARDS[label]
    params = shards(kinds, 0)
    make = getattr(altgrad.optim, name)
    optimizer = make(params[rank], lr=0.1, max_grad_norm=0.5, process_group=group,
                     fused_amp=flags is not None)
    norms = []
    for step in range(STEPS):
        give_grads(params, kinds, 10 + step)
        if flags is not None:
            optimizer.found_inf = torch.tensor(float(flags[rank][step] == "1"))
        optimizer.step()
        norms.append(optimizer.grad_norm.item())
    return [p.detach().tolist() for p in params[rank]], norms


def scaled(rank, group):
    """A rank's infinite gradient stops the step of both."""
    param = torch.nn.Parameter(torch.ones(5))
    optimizer = altgrad.optim.SGD([param], lr=1.0, fused_amp=True, process_group=group)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    steps = []
    for spoiled in (None, 1, 0, None):
        optimizer.zero_grad()
        scaler.scale(param.sum()).backward()
        if spoiled == rank:
            param.grad[0] = float("inf")
        scaler.step(optimizer)
        scaler.update(8.0)
        steps.append(param[0].item())
    return steps


def fully_sharded(rank, group, original):
    """FSDP's model with torch's clip of it, and with ours."""
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    pair = []
    for ours in (True, False):
        torch.manual_seed(0)
        model = FSDP(torch.nn.Sequential(torch.nn.Linear(9, 5), torch.nn.Linear(5, 3)),
                     use_orig_params=original, device_id=torch.device("cpu"))
        if ours:
            with pytest.raises(RuntimeError, match="is a shard"):
                altgrad.optim.AdamW(model.parameters(), max_grad_norm=0.1)
        optimizer = altgrad.optim.AdamW(
            model.parameters(), lr=0.1, max_grad_norm=0.1, process_group=group
        ) if ours else torch.optim.AdamW(model.parameters(), lr=0.1)
        for step in range(3):
            torch.manual_seed(10 * step + rank)
            optimizer.zero_grad()
            model(torch.randn(4, 9)).pow(2).sum().backward()
            norm = None if ours else model.clip_grad_norm_(0.1)
            optimizer.step()
        pair.append(([p.detach().clone() for p in model.parameters()],
                     optimizer.grad_norm if ours else norm))
    torch.testing.assert_close(*pair)
    return "equal"


def loss_scaled(rank, group, label, unscale):
    """The scales of altgrad's GradScaler where one rank's gradient is infinite by turns."""
    params = shards(SHARDS[label], 0)[rank]
    optimizer = altgrad.optim.SGD(params, lr=0.1, max_grad_norm=0.5, process_group=group)
    scaler, scales = altgrad.amp.GradScaler("cpu", 8.0, growth_interval=1), []
    scaler.scale(torch.ones(1))
    for step in range(STEPS):
        give_grads([params], [SHARDS[label][rank]], 10 + step)
        if params[0].grad is not None and step == 1 + rank:
            params[0].grad.view(-1)[0] = float("inf")
        if unscale:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales


CASES = [*((label, "SGD", None) for label in SHARDS), ("one kind", "AdamW", None),
         ("one kind", "LAMB", None), ("torch's part on one", "SGD", ("0100", "0010"))]
# torch's unscale_ refuses float16 and complex gradients.
LOSSES = [*((label, False) for label in SHARDS), ("one kind", True), ("the same kinds", True),
          ("one without gradients", True)]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    """Both ranks' answers to everything here: two processes are started once."""
    asked = {case: partial(train, name=case[1], label=case[0], flags=case[2]) for case in CASES}
    asked["scaled"] = scaled
    asked.update({("loss", *case): partial(loss_scaled, label=case[0], unscale=case[1])
                  for case in LOSSES})
    asked.update({original: partial(fully_sharded, original=original) for original in (True, False)})
    return dict(zip(asked, ranks.run(list(asked.values()), tmp_path_factory.mktemp("ranks"))))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[1]}, {case[0]}")
def test_the_norm_of_the_union(answers, case):
    label, name, flags = case
    (first, norms), (second, others) = answers[case]
    assert norms == others
    params = shards(SHARDS[label], 0)
    every = [p for several in params for p in several]
    theirs = getattr(altgrad.optim if name == "LAMB" else torch.optim, name)(every, lr=0.1)
    for step in range(STEPS):
        give_grads(params, SHARDS[label], 10 + step)
        grads = [p.grad for p in every if p.grad is not None]
        norm = sum((g.abs().double() ** 2).sum() for g in grads).sqrt()
        assert norms[step] == pytest.approx(norm.item(), rel=1e-6)
        for g in grads:
            g.mul_(0.5 / norm)
        if not flags or "1" not in (flags[0][step], flags[1][step]):
            theirs.step()
    for value, p in zip(first + second, every):
        torch.testing.assert_close(torch.tensor(value, dtype=p.dtype), p.detach())


def test_one_flag_over_the_ranks(answers):
    assert answers["scaled"] == ([0.0, 0.0, 0.0, -1.0],) * 2


@pytest.mark.parametrize("label, unscale", LOSSES)
def test_one_loss_scale_over_the_ranks(answers, label, unscale):
    bad = [8.0] if label == "one without gradients" else [8.0, 4.0]
    wanted = [16.0, *bad, *[bad[-1] * 2**i for i in range(1, STEPS - len(bad))]]
    assert answers["loss", label, unscale] == (wanted,) * 2


@pytest.mark.parametrize("original", [True, False])
def test_fully_sharded_models(answers, original):
    assert answers[original] == ("equal",) * 2


@pytest.fixture
def alone(tmp_path):
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0,
                            world_size=1)
    yield dist.group.WORLD
    dist.destroy_process_group()


def test_one_rank_changes_no_bit(alone):
    lists = twins.make([(8,), (4097,), (5, 3)])
    for params in lists:
        params[1].data = params[1].data.bfloat16()
    optimizers = [altgrad.optim.AdamW(ps, max_grad_norm=0.5, process_group=group)
                  for ps, group in zip(lists, (None, alone))]
    for _ in range(3):
        twins.give_grads(*lists)
        for optimizer in optimizers:
            optimizer.step()
        assert optimizers[0].grad_norm == optimizers[1].grad_norm
        assert all(map(torch.equal, *lists))


def test_a_copy_has_no_group_and_says_so(alone):
    params, = twins.make([(8,)], count=1)
    optimizer = altgrad.optim.SGD(params, max_grad_norm=0.5, process_group=alone)
    twins.give_grads(params)
    optimizer.step()
    assert "process_group" not in optimizer.state_dict()["param_groups"][0]
    for again in (copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))):
        with pytest.warns(UserWarning, match="SGD: a process_group is neither copied nor pickled"):
            other = again(optimizer)
        assert other.process_group is None
        own = other.param_groups[0]["params"]
        own[0].grad = torch.ones(8)
        with pytest.raises(RuntimeError, match="does not keep the process_group.* set optimizer.process_group"):
            other.step()
        other.process_group = alone
        other.step()
        other.process_group = None
        other.step()


def test_what_is_no_group():
    params, = twins.make([(8,)], count=1)
    with pytest.raises(TypeError, match="process_group is a torch.distributed.ProcessGroup or None"):
        altgrad.optim.SGD(params, process_group="gloo")
    with pytest.raises(ValueError, match="this rank is not in the group"):
        altgrad.optim.Lion(params, process_group=dist.GroupMember.NON_GROUP_MEMBER)
    optimizer = altgrad.optim.SGD(params)
    with pytest.raises(TypeError, match="process_group is a"):
        optimizer.process_group = 3


@pytest.mark.parametrize("mark", ["_fsdp_flattened", "_is_flat_param"])
def test_shards_are_refused_where_they_can_be_seen(alone, mark):
    def make(**kwargs):
        params, = twins.make([(8,), (3,)], count=1)
        twins.give_grads(params)
        setattr(params[1], mark, True)
        return altgrad.optim.AdamW(params, **kwargs)

    words = "parameter 1 of group 0 is a shard.*process_group="
    with pytest.raises(RuntimeError, match=words):
        make(max_grad_norm=1.0)
    optimizer = make()
    optimizer.step()
    optimizer.max_grad_norm = 1.0
    with pytest.raises(RuntimeError, match=words):
        optimizer.step()
    optimizer.process_group = alone
    optimizer.step()
    optimizer.process_group = None
    with pytest.raises(RuntimeError, match=words):
        optimizer.step()
