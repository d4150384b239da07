"""The class that a rule makes looks and behaves as torch's do."""

import copy
import inspect

import pytest
import rules
import torch
import twins


def test_its_signature_and_documentation_are_the_functions():
    made = rules.adamw.optimizer()
    shown = inspect.signature(made).parameters
    assert made.__name__ == "Adamw" and list(shown)[:5] == ["params", "lr", "betas", "eps", "weight_decay"] and "max_grad_norm" in shown
    assert [shown[name].default for name in ("lr", "betas", "eps")] == [1e-3, (0.9, 0.999), 1e-8] and "amsgrad" not in shown
    assert made.__doc__.startswith("Adam with decoupled weight decay.\n")
    shared = made.__doc__[made.__doc__.index("help(altgrad.optim.Optimizer)"):made.__doc__.index("Args:")]
    assert "    lr: How far a step goes." in made.__doc__
    assert all(f"\n    {name}: " in made.__doc__ or name in shared for name in shown)
    assert rules.adamw.optimizer() is made and rules.adamw.optimizer("exp_avg=bf16") is not made


def test_its_groups_and_states_are_torchs():
    a, b = twins.make([(5, 3), (7,)])
    groups = lambda params: [dict(params=params[:1]), dict(params=params[1:], betas=(0.5, 0.9), lr=0.1)]
    ours, theirs = rules.adamw.optimizer()(groups(a)), torch.optim.AdamW(groups(b))
    schedulers = [torch.optim.lr_scheduler.StepLR(one, 3, 0.1) for one in (ours, theirs)]
    for _ in range(10):
        twins.step([ours, theirs], [a, b])
        for scheduler in schedulers:
            scheduler.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
        for key, value in theirs.state[q].items():
            torch.testing.assert_close(ours.state[p][key].reshape(value.shape), value)
    assert ours.defaults["betas"] == (0.9, 0.999) and ours.param_groups[1]["betas"] == (0.5, 0.9)
    fresh, = twins.make([(5, 3), (7,)], count=1)
    for p, q in zip(fresh, a):
        p.data.copy_(q)
    again = rules.adamw.optimizer()(groups(fresh))
    again.load_state_dict(copy.deepcopy(ours.state_dict()))
    twins.step([ours, again], [a, fresh], 3)
    assert all(map(torch.equal, a, fresh))


def test_a_number_of_a_pair_may_change_and_a_list_is_a_pair():
    a, b = twins.make([(5, 3)])
    ours, theirs = rules.adamw.optimizer()(a, betas=[0.5, 0.7]), torch.optim.AdamW(b, betas=(0.5, 0.7))
    twins.step([ours, theirs], [a, b], 2)
    ours.param_groups[0]["betas"] = theirs.param_groups[0]["betas"] = (0.1, 0.8)
    twins.step([ours, theirs], [a, b], 2)
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("given, error, words", [
    (dict(amsgrad=True), TypeError, r"amsgrad of rule @adamw is chosen when the class is made: adamw.optimizer\(options={'amsgrad': True}\)"),
    (dict(storage="exp_avg=bf16"), TypeError, r"storage of rule @adamw is chosen when the class is made: adamw.optimizer\(storage=…\)"),
    (dict(momentum=0.9), TypeError, "rule @adamw has no hyper-parameter momentum; it takes lr, betas, eps, weight_decay"),
    (dict(betas=0.9), TypeError, r"betas is 0.9, not a tuple of 2 numbers such as \(0.9, 0.999\)"),
    (dict(betas=(0.9, float("nan"))), ValueError, "Invalid betas value: nan"), (dict(lr=-1.0), ValueError, "Invalid learning rate: -1.0")])
def test_what_the_constructor_refuses(given, error, words):
    params, = twins.make([(3,)], count=1)
    with pytest.raises(error, match=words):
        rules.adamw.optimizer()(params, **given)


def test_what_the_maker_refuses():
    with pytest.raises(ValueError, match="rule @adamw has no option 'nesterov' that is True; there are amsgrad, maximize"):
        rules.adamw.optimizer(options="nesterov")
    with pytest.raises(ValueError, match="'m=bf16'|'m'"):
        rules.adamw.optimizer("m=bf16")
    vector = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(ValueError, match="parameter 0 of group 0 of shape"):
        rules.muon.optimizer()([vector])
    with pytest.raises(rules.ag.RuleError, match="a rule is not called with tensors: adamw.optimizer"):
        rules.adamw(vector, vector)
    with pytest.raises(rules.ag.RuleError, match="matrices in a parameter are said where it is"):
        rules.ag.rule(of="matrices", split="heads")


def test_a_rule_of_matrices_without_products_takes_no_vectors():
    @rules.ag.rule(of="matrices")
    def f(p: rules.ag.Param, g: rules.ag.Grad, *, lr=0.1):
        return p - lr * g
    weight, vector = torch.nn.Parameter(torch.ones(3, 4)), torch.nn.Parameter(torch.ones(3))
    optimizer = f.optimizer()([weight])
    with pytest.raises(ValueError, match=r"parameter 0 of group 1 of shape \(3,\) is no matrix"):
        optimizer.add_param_group(dict(params=[vector]))
    assert len(optimizer.param_groups) == 1
