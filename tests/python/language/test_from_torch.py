"""A class of torch's kind becomes one with compiled steps, which gives the same numbers."""

import copy
import pickle

import pytest
import torch
import torchclasses
import twins
from exactroots import ExactRoots

import altgrad

OF_TORCH = [
    ("Adam", {}), ("Adam", dict(amsgrad=True, weight_decay=0.1)), ("AdamW", dict(amsgrad=True, maximize=True)), ("NAdam", {}),
    ("NAdam", dict(weight_decay=0.1, decoupled_weight_decay=True)), ("RAdam", {}), ("RAdam", dict(weight_decay=0.1)),
    ("Adamax", dict(weight_decay=0.1)), ("Adadelta", {}), ("Rprop", {}), ("ASGD", dict(t0=5, weight_decay=0.1)), ("RMSprop", {}),
    ("RMSprop", dict(centered=True, momentum=0.9)), ("Adagrad", dict(lr_decay=0.1, initial_accumulator_value=0.5)), ("SGD", {}),
    ("SGD", dict(momentum=0.9, dampening=0.5)), ("SGD", dict(momentum=0.9, nesterov=True, weight_decay=0.1))]


def compare(kind, given, steps=30, shapes=((33, 17), (5,)), change=lambda optimizer, step: None, exactly=False):
    """Steps a class and its traced one side by side; returns the largest difference in movements."""
    ours, theirs = twins.make(shapes)
    first = [p.detach().clone() for p in ours]
    plain = dict(foreach=False) if kind.__module__.startswith("torch.optim") else {}
    optimizers = altgrad.optim.from_torch(kind, **given)(ours), kind(theirs, **given, **plain)
    for step in range(steps):
        for optimizer in optimizers:
            change(optimizer, step)
        with ExactRoots():
            twins.step(optimizers, [ours, theirs])
    if exactly:
        assert all(map(torch.equal, ours, theirs))
    return max(((p - q).abs().max() / (q - of).abs().max()).item() for p, q, of in zip(ours, theirs, first))


@pytest.mark.parametrize("name, given", OF_TORCH, ids=lambda value: value if isinstance(value, str) else "-".join(value) or "plain")
def test_torchs_own_classes_have_torchs_bits_but_for_its_roots(name, given):
    compare(getattr(torch.optim, name), given, exactly=True)


def test_views_and_what_torch_makes_of_other_functions():
    assert compare(torchclasses.ByViews, {}, shapes=[(33, 17), (5, 7)]) < 3e-6


@pytest.mark.parametrize("shape", [(33, 17), (1, 6), (6, 1), (9,)], ids=str)
@pytest.mark.parametrize("given", [{}, dict(weight_decay=0.1, maximize=True), dict(eps=(1e-10, 1e-2), d=2.0)], ids=str)
def test_torchs_adafactor_keeps_numbers_of_rows_and_columns(given, shape):
    assert compare(torch.optim.Adafactor, given, shapes=[shape]) < 3e-6


def test_lists_of_rows_and_columns_are_spread_as_torchs():
    assert compare(torchclasses.ByLists, {}, shapes=[(33, 17), (5, 7)]) < 3e-6


def test_what_comes_first_branches_and_counters_are_found():
    kind = torchclasses.FirstStep
    assert compare(kind, {}) < 1e-5 and compare(kind, dict(centered=True)) < 1e-5
    made = altgrad.optim.from_torch(kind)
    assert set(made.rule._signature.states({})) == {"last", "scale", "largest", "buf"} and "state %scale: f32 per unit" in made.rule.text
    assert compare(torchclasses.Lars, dict(lr=0.1)) < 1e-5


def test_what_an_optimizer_noted_of_its_groups_and_counts_for_all():
    def change(optimizer, step):
        optimizer.param_groups[0]["lr"] = 0.1 * 0.9 ** step
    kind = torchclasses.Noted
    assert compare(kind, {}, change=change) < 1e-5
    one, other = twins.make([(5, 3)])
    theirs, ours = kind(one), altgrad.optim.from_torch(kind)(other)
    twins.step([theirs], [one], count=3)
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    torch._foreach_copy_([p.data for p in other], [p.data for p in one])
    twins.step([theirs, ours], [one, other], count=3)
    torch.testing.assert_close(one, other)
    assert [*ours.state] == other


@pytest.mark.filterwarnings("ignore:This overload of")
def test_old_orders_of_arguments_views_and_lists_are_torchs():
    assert compare(torchclasses.OldOrder, {}) < 1e-5


def test_a_number_may_change_and_what_the_code_decides_by_makes_another_rule():
    def change(optimizer, step):
        group = optimizer.param_groups[0]
        group["lr"] = 0.1 * 0.9 ** step
        group.update({8: dict(centered=True), 12: dict(warm=20), 16: dict(steps=3, power=0.25)}.get(step, {}))
    assert compare(torchclasses.FirstStep, {}, change=change, steps=20) < 1e-5
    compare(torch.optim.Adam, {}, exactly=True, change=lambda of, step: of.param_groups[0].update(
        lr=0.01 / (1 + step), weight_decay=0.1 * (step > 7), betas=(0.8, 0.99), maximize=step > 12))
    with pytest.raises(ValueError, match="has 'exp_avg', 'exp_avg_sq', 'step' and no 'max_exp_avg_sq'"):
        compare(torch.optim.Adam, {}, change=lambda of, step: of.param_groups[0].update(amsgrad=step > 3))


def test_groups_have_rules_of_their_own_and_a_scheduler_sets_their_rates():
    a, b = twins.make([(5, 3), (7,)])
    groups = lambda params: [dict(params=params[:1], momentum=0.9), dict(params=params[1:], nesterov=True, momentum=0.5, lr=0.1)]
    ours = altgrad.optim.from_torch(torch.optim.SGD, lr=0.01)(groups(a))
    theirs = torch.optim.SGD(groups(b), lr=0.01, foreach=False)
    schedulers = [torch.optim.lr_scheduler.OneCycleLR(one, [0.1, 0.2], total_steps=20) for one in (ours, theirs)]
    for _ in range(10):
        twins.step([ours, theirs], [a, b])
        for scheduler in schedulers:
            scheduler.step()
    assert all(map(torch.equal, a, b))


def test_it_is_a_class_of_altgrads_with_storage_clip_files_and_pickles():
    made = altgrad.optim.from_torch(torch.optim.NAdam, storage="exp_avg=bf16", lr=0.01)
    assert pickle.loads(pickle.dumps(made)) is made and made.__name__ == "NAdam"
    params, twin = twins.make([(5, 3), (7,)])
    one = made(params, max_grad_norm=1.0, betas=(0.8, 0.9))
    twins.step([one], [params], 3)
    assert one.state[params[0]]["exp_avg"].dtype == torch.bfloat16 and one.grad_norm > 0 and one.param_groups[0]["lr"] == 0.01
    for p, q in zip(twin, params):
        p.data.copy_(q)
    again = made(twin, max_grad_norm=1.0)
    again.load_state_dict(copy.deepcopy(one.state_dict()))
    last = pickle.loads(pickle.dumps(one))
    twins.step([one, again, last], [params, twin, last.param_groups[0]["params"]], 3)
    for others in (twin, last.param_groups[0]["params"]):
        assert all(map(torch.equal, params, others))
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        made(twin, lr=-1.0)


@pytest.mark.parametrize("kind, given", [(torch.optim.Adamax, {}), (torch.optim.NAdam, {}), (torch.optim.SGD, dict(momentum=0.9)),
                                         (torchclasses.FirstStep, {}), (torch.optim.Adafactor, {}), (torchclasses.ByLists, {})], ids=lambda value: getattr(value, "__name__", ""))
def test_a_file_of_the_original_goes_on_here(kind, given):
    ours, theirs = twins.make([(5, 3), {torch.optim.Adafactor: (7, 1), torchclasses.ByLists: (7, 2)}.get(kind, (7,))])
    other = kind(theirs, **given)
    with ExactRoots():
        twins.step([other], [theirs], 3)
        for p, q in zip(ours, theirs):
            p.data.copy_(q)
        one = altgrad.optim.from_torch(kind, **given)(ours)
        one.load_state_dict(copy.deepcopy(other.state_dict()))
        twins.step([one, other], [ours, theirs], 3)
    for p, q in zip(ours, theirs):
        torch.testing.assert_close(p, q, rtol=1e-6, atol=1e-6)
