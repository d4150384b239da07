"""norm_in_backward=True: the bits of the step that reads gradients twice, and when it has to."""

import contextlib
import copy
import gc
import os
import pickle
import threading
import warnings
import weakref

import pytest
import ranks
import torch
import twins
from summed import Pair, ready
from torch.nn.parallel import DistributedDataParallel

import altgrad

pytestmark = [pytest.mark.usefixtures("every_size"), pytest.mark.skipif(
    "ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="test_on_a_device.py: GPUs sum in the step")]


@pytest.fixture
def every_size(monkeypatch):
    monkeypatch.setattr(altgrad._binding.early_norm, "hook_bytes", lambda: 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["AdamW", "SGD", "LAMB", "Lion"])
def test_bits_are_those_of_the_step_that_reads_twice(name, dtype):
    pair = ready(name=name, dtype=dtype)
    for _ in range(3):
        pair.backward()
        assert pair.step() == (4, 0)


def test_only_what_is_accumulated_last_counts():
    pair = ready()
    for of in (None, None, 2):
        pair.backward(of)
    assert pair.step() == (4, 0)
    weight = torch.randn(8)
    for params in pair.params:
        loss = (params[0] ** 3 * weight).sum() + sum([p.sum() for p in params[1:]])
        loss.backward(retain_graph=True)
        loss.backward()
    assert pair.step() == (4, 0)


def test_frozen_parameters_and_gradients_that_come_and_go():
    pair = ready()
    for of in (1, 1, None, None, 4):
        pair.backward(of=of)
        pair.step()
    pair.change(lambda params: params[0].requires_grad_(False))
    for _ in range(3):
        for params in pair.params:
            sum([p.sum() for p in params[1:]]).backward()
        counted = pair.step()
    assert counted == (3, 0)
    pair.change(lambda params: params[0].requires_grad_(True))
    pair.backward(), pair.step(), pair.backward()
    assert pair.step() == (4, 0)


CHANGES = {
    "without a trace": lambda params: params[2].grad.data.mul_(0.5),
    "through numpy": lambda params: params[2].grad.numpy().__imul__(3.0),
    "in place": lambda params: params[2].grad.mul_(2.0),
    "of one element": lambda params: params[2].grad[7].fill_(3.0),
    "through a view": lambda params: params[2].grad.view(-1)[1:].neg_(),
    "by foreach": lambda params: torch._foreach_mul_([params[2].grad], 0.25),
    "another tensor": lambda params: setattr(params[2], "grad", params[2].grad * 2),
    "another memory": lambda params: setattr(params[2].grad, "data", params[2].grad + 1.0),
    "strides": lambda params: setattr(params[2], "grad", torch.ones(8194)[::2]),
    "a negative view": lambda params: setattr(params[2], "grad", torch.imag(
        torch.ones(4097, dtype=torch.complex64).mul_(1j).conj())),
}


@pytest.mark.parametrize("how", CHANGES)
def test_a_gradient_changed_after_its_sum_is_summed_again(how):
    pair = ready()
    pair.backward()
    pair.change(CHANGES[how])
    with pytest.warns(UserWarning, match="1 gradients were changed after backward"):
        assert pair.step() == (3, 1)
    pair.backward()
    pair.change(CHANGES[how])
    assert pair.step()[1] == 1  # and says so once
    pair.backward()
    assert pair.step() == (4, 0)


def test_a_gradient_that_begins_with_zeros_is_looked_at_elsewhere():
    pair = ready(statistics=True)
    for params in pair.params:
        (params[4].view(-1)[5000:].sum() + sum([p.sum() for p in params[:4]])).backward()
    pair.change(lambda params: params[4].grad.data.mul_(0.5))
    with pytest.warns(UserWarning, match="1 gradients were changed after backward"):
        assert pair.step() == (3, 1)


def clamp(param):
    param.grad.clamp_(-0.1, 0.1)


def test_a_later_hook_that_changes_gradients_is_noticed():
    pair = ready()
    for params in pair.params:
        params[4].register_post_accumulate_grad_hook(clamp)
    pair.backward()
    with pytest.warns(UserWarning, match="1 gradients were changed"):
        assert pair.step() == (3, 1)
    pair.backward()
    assert pair.step() == (3, 1)


@pytest.mark.filterwarnings("ignore:.*changed after backward")
def test_gradients_set_by_hand_at_the_same_address():
    pair = ready()
    for _ in range(20):
        pair.backward()
        pair.zero()
        values = [torch.randn(p.shape) for p in pair.params[0]]
        for params in pair.params:
            for p, value in zip(params, values):
                p.grad = value.clone()
        assert pair.step()[0] == 0
    for params in pair.params:
        for p, value in zip(params, values):
            p.grad = value.clone()
    assert pair.step() == (0, 0)


def test_two_steps_after_one_backward_and_none_after_a_backward():
    pair = ready()
    pair.backward()
    for optimizer in (pair.one, pair.two):
        optimizer.step()
    assert pair.one._built.tables[0].summed_rows() == (4, 0)
    assert pair.step() == (0, 0)
    pair.backward()
    pair.one.zero_grad(set_to_none=False)
    pair.two.zero_grad(set_to_none=False)
    pair.backward()
    assert pair.step() == (4, 0)


def test_parameters_given_other_memory_after_the_sum():
    pair = ready()
    pair.backward()
    pair.change(lambda params: [setattr(p, "data", p.data.clone()) for p in params])
    assert pair.step() == (0, 0)
    pair.backward()
    assert pair.step() == (4, 0)


def test_loaded_states_and_added_groups():
    pair = ready()
    pair.backward()
    for optimizer in (pair.one, pair.two):
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert not pair.params[0][0]._post_accumulate_grad_hooks
    assert pair.step() == (0, 0)
    pair.backward()
    more = torch.randn(7)
    for params, optimizer in zip(pair.params, (pair.one, pair.two)):
        params.append(torch.nn.Parameter(more.clone()))
        optimizer.add_param_group({"params": params[-1:], "lr": 0.5})
        params[-1].sum().backward()
    assert pair.step() == (0, 0)
    pair.backward()
    assert pair.step() == (5, 0)
    assert [len(p._post_accumulate_grad_hooks) for p in pair.params[0]] == [1] * 6


@pytest.mark.parametrize("how", [copy.deepcopy, lambda pair: pickle.loads(pickle.dumps(pair))])
def test_copies_have_hooks_of_their_own(how):
    pair = ready()
    pair.backward()
    other = how(pair)
    assert other.one.norm_in_backward and not other.params[0][2]._post_accumulate_grad_hooks
    other.backward()
    assert other.step() == (0, 0) and pair.step() == (4, 0)
    for one in (pair, other):
        one.backward()
        assert one.step() == (4, 0)


def test_hooks_go_with_their_optimizer():
    pair = ready()
    params, gone = pair.params[0], weakref.ref(pair.one)
    assert len(params[0]._post_accumulate_grad_hooks) == 1
    gc.disable()
    try:
        pair.one = None
        assert gone() is None and not params[0]._post_accumulate_grad_hooks
    finally:
        gc.enable()
    pair.backward(sides=(0,))


def test_two_optimizers_of_the_same_parameters():
    pair = ready()
    third, = twins.make([(3,)], count=1)
    others = [altgrad.optim.SGD(params + third, lr=0.1, max_grad_norm=0.1,
                                norm_in_backward=params is pair.params[0])
              for params in pair.params]
    for turn in range(3):
        pair.backward()
        third[0].grad = torch.ones(3) * turn
        for other in others:
            other.step()
        assert pair.step() == (4, 0)
        assert others[0]._built.tables[0].summed_rows() == ((4, 0) if turn else (0, 0))


@pytest.mark.parametrize("bad", [False, True])
def test_under_our_scaler_with_scales_that_change(bad):
    pair = Pair()
    scalers = [altgrad.amp.GradScaler("cpu", init_scale=3.0, growth_interval=3) for _ in range(2)]
    counted = []
    for turn in range(8):
        spoiled = bad and turn == 5
        pair.backward(scale=scalers[0].scale(torch.ones(())) * (float("inf") if spoiled else 1))
        for optimizer, scaler in zip((pair.one, pair.two), scalers):
            scaler.scale(torch.ones(()))
            scaler.step(optimizer)
            scaler.update()
        assert torch.equal(pair.one.skipped_steps, pair.two.skipped_steps)
        counted.append(pair.one._built.tables[0].summed_rows())
        assert torch.equal(pair.one.grad_norm, pair.two.grad_norm) or spoiled
        assert all(map(torch.equal, *pair.params))
        pair.zero()
    # The scale grows after three steps, and after three more or the skipped one it changes.
    assert [turn for turn, of in enumerate(counted) if of == (4, 0)] == [1, 2, 4, 5, 7]
    assert pair.one.skipped_steps == bad


def test_under_torchs_scaler():
    pair = Pair(fused_amp=True)
    scalers = [torch.amp.GradScaler("cpu", init_scale=2.0 ** 10, growth_interval=2)
               for _ in range(2)]
    for turn in range(6):
        pair.backward(scale=scalers[0].scale(torch.ones(())))
        for optimizer, scaler in zip((pair.one, pair.two), scalers):
            scaler.scale(torch.ones(()))
            scaler.step(optimizer)
            scaler.update()
        assert all(map(torch.equal, *pair.params))
        assert torch.equal(pair.one.grad_norm, pair.two.grad_norm)
        counted = pair.one._built.tables[0].summed_rows()
        assert counted == ((0, 0) if not turn else (4, 0) if turn % 2 else (0, 0))
        pair.zero()


@pytest.mark.parametrize("scaler", [torch.amp.GradScaler, altgrad.amp.GradScaler])
@pytest.mark.filterwarnings("ignore:.*changed after backward")
def test_gradients_that_a_scaler_unscales_are_summed_again(scaler):
    pair = Pair()
    scalers = [scaler("cpu", init_scale=3.0) for _ in range(2)]
    for turn in range(4):
        pair.backward(scale=scalers[0].scale(torch.ones(())))
        for optimizer, of in zip((pair.one, pair.two), scalers):
            of.scale(torch.ones(()))
            of.unscale_(optimizer)
            of.step(optimizer)
            of.update()
        assert all(map(torch.equal, *pair.params)) and torch.equal(pair.one.grad_norm, pair.two.grad_norm)
        assert pair.one._built.tables[0].summed_rows() == ((0, 4) if turn else (0, 0))
        pair.zero()


@pytest.mark.filterwarnings("ignore:.*updates it, and every other parameter")
def test_mixed_types_statistics_and_torchs_part():
    params = twins.make([(4097,), (33,)])
    for dtype in (torch.bfloat16, torch.float64):
        for of, more in zip(params, twins.make([(70, 70)], dtype)):
            of += more
    one, two = [altgrad.optim.AdamW(of, lr=0.1, max_grad_norm=0.5, statistics=True,
                                    norm_in_backward=of is params[0]) for of in params]
    for turn in range(4):
        for of in params:
            torch.manual_seed(turn)
            sum([(p * torch.randn(p.shape)).sum() for p in of]).backward()
        one.step(), two.step()
        assert all(map(torch.equal, *params)) and torch.equal(one.grad_norm, two.grad_norm)
        assert torch.equal(one.statistics().grad_norm[:3], two.statistics().grad_norm[:3])
        # torch's class makes states in the first step, which asks for another table.
        assert one._built.tables[0].summed_rows() == ((3, 0) if turn > 1 else (0, 0))
        one.zero_grad(), two.zero_grad()


def test_parameters_with_gaps_and_a_closure():
    base = [torch.randn(40, 50) for _ in range(1)]
    params = [[torch.nn.Parameter(base[0].clone()[:, ::2]), torch.nn.Parameter(base[0].clone().t()),
               torch.nn.Parameter(base[0].clone()[:, 3:])] for _ in range(2)]
    one, two = [altgrad.optim.SGD(of, lr=0.1, max_grad_norm=0.5, momentum=0.9,
                                  norm_in_backward=of is params[0]) for of in params]
    for turn in range(3):
        for of, optimizer in zip(params, (one, two)):
            def closure():
                optimizer.zero_grad()
                loss = sum([(p ** 2 * (turn + 1)).sum() for p in of])
                loss.backward()
                return loss
            optimizer.step(closure)
        assert all(map(torch.equal, *params)) and torch.equal(one.grad_norm, two.grad_norm)
    assert one._built.tables[0].summed_rows()[1] == 0


def test_what_cannot_be_summed_in_backward_is_said_once():
    params, = twins.make([(8,), (33,)], count=1)
    optimizer = altgrad.optim.LAMB(params, lr=0.1, max_grad_norm=0.5, statistics=True,
                                   norm_in_backward=True)
    scaler = altgrad.amp.GradScaler("cpu")
    for of in (params, params[1:]):
        optimizer.zero_grad()
        scaler.scale(sum([p.sum() for p in of])).backward()
        with (pytest.warns(UserWarning, match="reads more than gradients") if of is params
              else contextlib.nullcontext()):
            scaler.step(optimizer)
        scaler.update()
    plain = altgrad.optim.AdamW(params, norm_in_backward=True)  # nothing to sum
    plain.step()
    assert not params[0]._post_accumulate_grad_hooks
    plain.max_grad_norm = 1.0
    twins.give_grads(params)
    plain.step()
    assert len(params[0]._post_accumulate_grad_hooks) == 1
    plain.norm_in_backward = False
    plain.step()
    assert not params[0]._post_accumulate_grad_hooks


def test_gradients_that_are_not_worth_a_hook_are_summed_in_the_step(monkeypatch):
    monkeypatch.setattr(altgrad._binding.early_norm, "hook_bytes", lambda: 1 << 16)
    pair = ready(shapes=[(16_383,), (16_384,), (5,), (200, 200)])
    pair.backward()
    assert pair.step() == (2, 0)
    assert not pair.params[0][0]._post_accumulate_grad_hooks


def test_backward_in_several_threads_at_once():
    pair = ready(shapes=[(50_000,)] * 16)
    for _ in range(5):
        weights = [torch.randn(p.shape) for p in pair.params[0]]

        def work(of):
            for params in pair.params:
                for p, w in list(zip(params, weights))[of::4]:
                    (p * w).sum().backward()
        threads = [threading.Thread(target=work, args=(of,)) for of in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counted = pair.step()
        assert counted[1] == 0 and counted[0] <= 16


def _train(views, rank):
    altgrad._binding.early_norm.hook_bytes = lambda: 0
    torch.manual_seed(0)
    models = [torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Linear(30, 2)) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    optimizers = [altgrad.optim.AdamW(model.parameters(), lr=0.1, max_grad_norm=0.5,
                                      norm_in_backward=model is models[0]) for model in models]
    wrapped = [DistributedDataParallel(model, gradient_as_bucket_view=views) for model in models]
    said = []
    for turn in range(3):
        torch.manual_seed(10 * turn + rank)
        data = torch.randn(16, 20)
        for model, optimizer in zip(wrapped, optimizers):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                optimizer.zero_grad(set_to_none=not views)
                model(data).square().sum().backward()
                optimizer.step()
            said += [str(w.message) for w in caught if "norm_in_backward" in str(w.message)]
    same = all(map(torch.equal, *[list(model.parameters()) for model in models]))
    return same, optimizers[0]._built.tables[0].summed_rows(), said


def with_copies(rank, group):
    return _train(False, rank)


def with_views(rank, group):
    return _train(True, rank)


def test_data_parallel_ranks_sum_in_the_step(tmp_path):
    for answers in ranks.run([with_copies, with_views], tmp_path):
        for same, counted, said in answers:
            assert same and counted == (0, 0) and len(said) == 1 and "other ranks" in said[0]
