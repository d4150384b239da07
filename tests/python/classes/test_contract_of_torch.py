"""What torch's test_optim.py asks of every optimizer beside its numbers; the file is not in torch's wheel.

Each scenario runs on torch's class and on ours and has to give the same: hooks, groups, files, copies, closures.
"""

import copy
import pickle

import pytest
import torch
import twins
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

import altgrad

pytestmark = [pytest.mark.filterwarnings("ignore:.*updates it, and every other parameter"),
              pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")]

KWARGS = {"AdamW": dict(amsgrad=True), "Adam": {}, "SGD": dict(momentum=0.9), "Adagrad": {}, "RMSprop": dict(momentum=0.9),
          "NAdam": {}, "ASGD": {}, "Rprop": {}}


@pytest.fixture(params=KWARGS)
def both(request):
    """Calls a scenario with a function that makes an optimizer, torch's and ours; both have to say the same."""
    def run(scenario):
        said = []
        for module in (torch.optim, altgrad.optim):
            torch.manual_seed(0)
            said.append(scenario(lambda params, **more: getattr(module, request.param)(params, **KWARGS[request.param], **more)))
        assert said[0] == said[1]
        return said[0]
    return run


def stepped(make, dtype=torch.float32, **more):
    """(parameters, optimizer) after two steps."""
    params, = twins.make([(3, 2), (5,)], dtype, count=1)
    optimizer = make(params, **more)
    twins.step([optimizer], [params], 2)
    return params, optimizer


class Numbers:
    """Of tensors, as they are now; equal to others within the rounding of their dtype."""

    def __init__(self, tensors):
        self.tensors = [tensor.detach().clone() for tensor in tensors]

    def __eq__(self, other):
        torch.testing.assert_close(self.tensors, other.tensors)
        return True


def test_the_order_of_hooks(both):
    def scenario(make):
        params, optimizer = stepped(make)
        seen = []
        note = lambda name: lambda *_: seen.append(name)
        shared = [register_optimizer_step_pre_hook(note("pre of all")), register_optimizer_step_post_hook(note("post of all"))]
        optimizer.register_step_pre_hook(note("pre"))
        optimizer.register_step_post_hook(note("post"))
        optimizer.register_step_post_hook(note("post 2"))
        try:
            optimizer.step(lambda: seen.append("closure"))
        finally:
            for hook in shared:
                hook.remove()
        return seen
    assert both(scenario)[0] == "pre of all"


def test_hooks_of_files(both):
    def scenario(make):
        params, optimizer = stepped(make)
        seen = []
        note = lambda name: lambda *_: seen.append(name)
        optimizer.register_state_dict_pre_hook(note("saving"))
        optimizer.register_state_dict_pre_hook(note("saving first"), prepend=True)
        optimizer.register_state_dict_post_hook(lambda of, state: {**state, "mine": 7})
        removed = optimizer.register_load_state_dict_pre_hook(note("never"))
        removed.remove()
        optimizer.register_load_state_dict_pre_hook(lambda of, state: {**state, "param_groups": [
            {**group, "lr": 0.5} for group in state["param_groups"]]})
        optimizer.register_load_state_dict_post_hook(note("loaded"))
        optimizer.register_load_state_dict_post_hook(note("loaded first"), prepend=True)
        saved = optimizer.state_dict()
        optimizer.load_state_dict(saved)
        return seen, saved["mine"], optimizer.param_groups[0]["lr"]
    assert both(scenario)[2] == 0.5


@pytest.mark.parametrize("way", [lambda o: o.load_state_dict(copy.deepcopy(o.state_dict())), lambda o: None])
@pytest.mark.parametrize("clone", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_a_copy_has_all_public_attributes_and_goes_on(both, clone, way):
    def scenario(make):
        params, optimizer = stepped(make)
        public = lambda of: sorted(key for key in vars(of) if not key.startswith("_"))
        theirs = public(optimizer)
        other = clone(optimizer)
        way(other)
        assert public(other) == theirs
        mine = other.param_groups[0]["params"]
        twins.step([optimizer, other], [params, mine])
        assert all(map(torch.equal, params, mine))
        return Numbers(mine)
    both(scenario)


def test_a_file_is_loaded_with_weights_only_and_not_changed(both):
    def scenario(make):
        params, optimizer = stepped(make)
        saved = twins.through_a_file(optimizer.state_dict())
        before = copy.deepcopy(saved)
        others, = twins.make([(3, 2), (5,)], count=1)
        other = make(others)
        other.load_state_dict(saved)
        assert repr(saved) == repr(before) == repr(other.state_dict())
        return sorted(saved["state"][0]), sorted(saved["param_groups"][0])
    both(scenario)


def test_a_file_of_another_dtype_and_a_count_that_is_no_tensor(both):
    def scenario(make):
        _, optimizer = stepped(make)
        saved = optimizer.state_dict()
        for held in saved["state"].values():
            if "step" in held:
                held["step"] = held["step"].item()
        narrow, = twins.make([(3, 2), (5,)], torch.bfloat16, count=1)
        other = make(narrow)
        other.load_state_dict(saved)
        twins.step([other], [narrow])
        return [float(held["step"]) for held in other.state.values() if "step" in held]
    both(scenario)


def test_names_come_and_go_with_a_file(both):
    def scenario(make):
        said = []
        for named, wanted in ((True, True), (False, True), (True, False)):
            model, other = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
            of = lambda model, by: list(model.named_parameters() if by else model.parameters())
            optimizer, fresh = make(of(model, named)), make(of(other, wanted))
            fresh.load_state_dict(optimizer.state_dict())
            said.append(fresh.state_dict()["param_groups"][0].get("param_names"))
        return said
    assert both(scenario)[0] == ["weight", "bias"]


def test_a_group_that_is_none_is_refused(both):
    def scenario(make):
        params, optimizer = stepped(make)
        said = []
        for group in (dict(params=params[0]), dict(params={torch.nn.Parameter(torch.ones(1))}), dict(params=[1.0]), "x",
                      dict(params=[params[0] * 2]), dict(params=[torch.ones(2)], lr=0.1), dict(params=[])):
            try:
                optimizer.add_param_group(group)
                said.append(len(optimizer.param_groups))
            except Exception as error:
                said.append((type(error).__name__, str(error).replace(f"{id(params[0])}", "")))
        return said
    both(scenario)


@pytest.mark.parametrize("given", [lambda make: make([]), lambda make: make(torch.ones(2)), lambda make: make([dict(params=[])]),
                                   lambda make: make(iter([torch.ones(2, requires_grad=True)])),
                                   lambda make: make([("a", torch.ones(2)), torch.ones(2)]),
                                   lambda make: make([torch.ones(2)], lr=-1.0)])
def test_what_the_constructor_says(both, given):
    def scenario(make):
        try:
            return repr(given(make)).splitlines()[:2]
        except Exception as error:
            return type(error).__name__, str(error)
    both(scenario)


@pytest.mark.parametrize("empty", [False, True])
def test_a_step_without_gradients_changes_nothing(both, empty):
    def scenario(make):
        params, optimizer = stepped(make)
        if empty:
            params = [torch.nn.Parameter(torch.ones(0, 3)), torch.nn.Parameter(torch.ones(2))]
            optimizer = make(params)
            params[0].grad = torch.ones(0, 3)
        else:
            optimizer.zero_grad()
        before, states = [param.detach().clone() for param in params], repr(optimizer.state_dict()["state"])
        value = optimizer.step(lambda: 3)
        assert all(map(torch.equal, params, before)) and (empty or repr(optimizer.state_dict()["state"]) == states)
        return value, len(optimizer.state)
    assert both(scenario)[0] == 3


@pytest.mark.parametrize("order", [lambda t: t, lambda t: t.T])
def test_complex_matrices_step_as_their_real_and_imaginary_parts(both, order):
    def scenario(make):
        values = torch.randn(4, 3, 2)
        params = [torch.nn.Parameter(order(torch.view_as_complex(values.clone()))), torch.nn.Parameter(values.clone())]
        optimizer = make(params)
        for _ in range(3):
            grad = torch.randn(4, 3, 2)
            params[0].grad, params[1].grad = order(torch.view_as_complex(grad)), grad.clone()
            optimizer.step()
        torch.testing.assert_close(torch.view_as_real(order(params[0]).contiguous()), params[1].data)
        return Numbers([order(params[0]).contiguous(), params[1]])
    both(scenario)


@pytest.mark.parametrize("lr", [torch.tensor(0.1), torch.tensor([0.1])])
@pytest.mark.parametrize("flags", [{}, dict(foreach=True), dict(foreach=False), dict(fused=True), dict(differentiable=True)])
def test_a_rate_in_a_tensor_under_every_implementation(both, lr, flags):
    def scenario(make):
        try:
            params, optimizer = stepped(make, lr=lr.clone(), **flags)
            scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
            scheduler.step()
            twins.step([optimizer], [params])
        except Exception as error:
            return type(error).__name__
        return Numbers(params), isinstance(optimizer.param_groups[0]["lr"], torch.Tensor)
    both(scenario)
