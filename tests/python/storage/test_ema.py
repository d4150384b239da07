"""ema=: an average of the weights as one more state of the same sweep, against torch's lerp and AveragedModel."""

import copy
import pickle

import pytest
import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

import altgrad

KINDS = {
    "AdamW": {}, "Lion": {}, "SGD": dict(momentum=0.9), "AdamW8bit": {}, "LAMB": {}, "ManifoldAdamW": {},
    "Muon": {}, "Prodigy": {}, "AdamW4bit": {}, "MARS": dict(mars_type="mars-shampoo"), "Scion": dict(momentum=0.1), "SOAP": {},
    "Dion": dict(power_iters=2),
}


def run(name, steps=4, make=None, **words):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(64, 96)), torch.nn.Parameter(torch.randn(33))]
    groups = [{"params": params[:1]}, {"params": params[1:], **({"use_muon": False} if name == "Muon" else {})}]
    optimizer = (make or getattr(altgrad.optim, name))(groups, lr=0.01, **KINDS[name], **words)
    wanted = [param.detach().clone() for param in params]
    for step in range(steps):
        torch.manual_seed(step)
        for param in params:
            param.grad = torch.randn(param.shape)
        optimizer.step()
        get_ema_multi_avg_fn(0.9)(wanted, [param.detach() for param in params], None)
    return params, optimizer, wanted


@pytest.mark.parametrize("name", KINDS)
def test_the_bits_of_torchs_average_and_the_steps_of_none(name):
    params, optimizer, wanted = run(name, ema=0.9)
    for param, average in zip(params, wanted):
        assert optimizer.state[param]["ema"].equal(average)
    others, plain, _ = run(name)
    assert all(param.equal(other) for param, other in zip(params, others))
    assert all("ema" not in held for held in plain.state.values())


@pytest.mark.parametrize("storage", ["states=f32", "states=bf16", "states=bnb8:256"])
def test_a_storage_of_all_states_leaves_the_average_in_float32(storage):
    params, optimizer, wanted = run("Lion", ema=0.9, storage=storage)
    assert all(optimizer.state[param]["ema"].equal(average) for param, average in zip(params, wanted))


def test_groups_with_rules_of_several_texts_have_averages_all():
    params = [torch.nn.Parameter(torch.ones(6, 4)) for _ in range(3)]
    words = [dict(mars_type="mars-shampoo"), {}, dict(mars_type="mars-lion")], [dict(power_iters=2), {}, dict(algorithm="adamw", power_iters=3)]
    for kind, groups in zip((altgrad.optim.MARS, altgrad.optim.Dion), words):
        optimizer = kind([dict(params=[param], **given) for param, given in zip(params, groups)], ema=0.5)
        before = [param.detach().clone() for param in params]
        for param in params:
            param.grad = torch.randn(6, 4)
        optimizer.step()
        for param, old in zip(params, before):
            torch.testing.assert_close(optimizer.state[param]["ema"], old.lerp(param.detach(), 0.5))
    for make in (lambda: altgrad.optim.GridOptim(params, ema=0.5), lambda: altgrad.optim.AdamW(params, ema=0.5, storage="rungs=ocp.e4m3fn")):
        with pytest.raises(ValueError, match="ema averages no parameters on a grid: leave ema= out"):
            make()


def test_weights_are_exchanged_and_come_back():
    params, optimizer, wanted = run("AdamW", ema=0.9)
    before = [param.detach().clone() for param in params]
    with optimizer.ema_weights():
        assert all(param.equal(average) for param, average in zip(params, wanted))
        with pytest.raises(RuntimeError, match="within ema_weights"):
            optimizer.step()
        with pytest.raises(RuntimeError, match="averages already"), optimizer.ema_weights():
            pass
    assert all(param.equal(other) for param, other in zip(params, before))
    assert all(optimizer.state[param]["ema"].equal(average) for param, average in zip(params, wanted))
    with pytest.raises(RuntimeError, match="made without ema"), run("AdamW")[1].ema_weights():
        pass


@pytest.mark.parametrize("master", ["master=f32", "master=bf16+i16"])
def test_beside_a_master_it_is_of_the_master(master):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(64, 96).bfloat16())
    whole = torch.nn.Parameter(param.detach().float())
    optimizer = altgrad.optim.AdamW([param], lr=1e-4, storage=master, ema=0.5)
    other = altgrad.optim.AdamW([whole], lr=1e-4, ema=0.5)
    for step in range(5):
        if step == 3:
            with optimizer.ema_weights():
                assert param.equal(optimizer.state[param]["ema"].bfloat16())
        param.grad = torch.randn(param.shape).bfloat16()
        whole.grad = param.grad.float()
        optimizer.step(), other.step()
    assert optimizer.state[param]["ema"].equal(other.state[whole]["ema"])


def test_files_and_copies_have_it_and_older_files_begin_it():
    params, optimizer, _ = run("AdamW8bit", ema=0.9)
    again, first = run("AdamW8bit", steps=0, ema=0.9)[:2]
    with torch.no_grad():
        for param, other in zip(again, params):
            param.copy_(other)
    first.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    pairs = [(again, first), copy.deepcopy((params, optimizer)), pickle.loads(pickle.dumps((params, optimizer)))]
    for others, of in [(params, optimizer), *pairs]:
        for step, param in enumerate(others):
            torch.manual_seed(step)
            param.grad = torch.randn(param.shape)
        of.step()
    for others, of in pairs:
        for param, other in zip(params, others):
            assert param.equal(other) and optimizer.state[param]["ema"].equal(of.state[other]["ema"])
    older = run("AdamW8bit")[1].state_dict()
    fresh, begun = run("AdamW8bit", steps=0, ema=0.9)[:2]
    begun.load_state_dict(older)
    before = [param.detach().clone() for param in fresh]
    for param in fresh:
        param.grad = torch.randn(param.shape)
    begun.step()
    for param, old in zip(fresh, before):
        assert begun.state[param]["ema"].equal(torch.lerp(old, param.detach(), 1 - 0.9))


def test_a_group_has_its_decay_and_a_storage_its_format():
    params = [torch.nn.Parameter(torch.ones(100)) for _ in range(2)]
    optimizer = altgrad.optim.SGD([{"params": params[:1]}, {"params": params[1:], "ema": 0.5}], lr=1.0, ema=0.9, storage="ema=bf16")
    for param in params:
        param.grad = torch.ones(100)
    optimizer.step()
    assert [optimizer.state[param]["ema"].dtype for param in params] == [torch.bfloat16] * 2
    assert [optimizer.state[param]["ema"][0].item() for param in params] == pytest.approx([0.9, 0.5], abs=0.004)
    for words in (dict(ema=1.0), dict(ema="much"), dict(ema=0.9, storage="ema=bnb8:256")):
        with pytest.raises(ValueError, match="ema"):
            altgrad.optim.AdamW(params, **words)
