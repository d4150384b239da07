"""Tensors without memory of their own (fake, functional, wrappers): refused by their kind, before anybody asks where they lie."""

import pytest
import torch
import twins
from torch._subclasses.fake_tensor import FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.testing._internal.two_tensor import TwoTensor

import altgrad

MODES = [FakeTensorMode, FunctionalTensorMode]


def in_mode(mode):
    def make(shape):
        with mode():
            return torch.zeros(shape)
    return make


KINDS = {"FakeTensor": in_mode(FakeTensorMode), "FunctionalTensor": in_mode(FunctionalTensorMode),
         "functional": lambda shape: torch._to_functional_tensor(torch.zeros(shape)),
         "TwoTensor": lambda shape: TwoTensor(torch.zeros(shape), torch.zeros(shape))}


def given():
    params, = twins.make([(3, 4), (5,)], count=1)
    twins.give_grads(params)
    return params


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_frozen_parameters_with_gradients_are_refused_by_their_kind(kind, fallback):
    params = given()
    others = [KINDS[kind]((3,)) for _ in range(2)]
    for other in others:
        other.grad = KINDS[kind]((3,))
    before = [param.clone() for param in params]
    optimizer = altgrad.optim.AdamW([*params, *others], fallback=fallback)
    with pytest.raises(TypeError, match=f"does not support {kind} parameters.*parameter 2 of group 0"):
        optimizer.step()
    assert all(map(torch.equal, params, before)) and not optimizer.state


@pytest.mark.parametrize("fallback", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_frozen_parameters_without_gradients_are_nobodys_business(kind, fallback):
    params = given()
    others = [KINDS[kind]((3,)) for _ in range(2)]
    before = params[0].clone()
    altgrad.optim.AdamW([*others, *params], fallback=fallback).step()
    assert not torch.equal(params[0], before)


@pytest.mark.parametrize("key", ["exp_avg", "step"])
@pytest.mark.parametrize("kind", KINDS)
def test_states_are_refused_by_their_kind(kind, key):
    params = given()
    optimizer = altgrad.optim.AdamW(params)
    optimizer.step()
    before = [param.clone() for param in params]
    for param in params:
        optimizer.state[param][key] = KINDS[kind](param.shape if key == "exp_avg" else ())
    with pytest.raises(TypeError, match=f"parameter 0 of group 0: (state 'exp_avg'|a step count) is a {kind} tensor"):
        optimizer.step()
    assert all(map(torch.equal, params, before))


@pytest.mark.parametrize("name, key, storage", [
    ("NorMuon", "second_momentum_buffer", None), ("AdamW8bit", "exp_avg_scale", None),
    ("AdamW", "master", "param=bf16 master=f32")])
@pytest.mark.parametrize("kind", KINDS)
def test_so_are_those_of_rows_scales_and_masters(kind, name, key, storage):
    dtype = torch.bfloat16 if storage else torch.float32
    params, = twins.make([(64, 128)], dtype=dtype, count=1)
    optimizer = getattr(altgrad.optim, name)(params, storage=storage) if storage else getattr(altgrad.optim, name)(params)
    twins.step([optimizer], [params])
    before = params[0].clone()
    optimizer.state[params[0]][key] = KINDS[kind](optimizer.state[params[0]][key].shape)
    with pytest.raises(TypeError, match=f"state '{key}' is a {kind} tensor"):
        optimizer.step()
    assert torch.equal(params[0], before)


@pytest.mark.parametrize("steps", [0, 1])
@pytest.mark.parametrize("mode", MODES)
def test_a_step_in_a_mode_without_memory_is_refused_and_leaves_nothing(mode, steps):
    params = given()
    optimizer = altgrad.optim.AdamW(params)
    for _ in range(steps):
        optimizer.step()
    before = [param.clone() for param in params]
    with mode(), pytest.raises(RuntimeError, match=f"under {mode.__name__} what it makes has no memory"):
        optimizer.step()
    assert all(map(torch.equal, params, before)) and len(optimizer.state) == 2 * steps
    optimizer.step()
    assert not torch.equal(params[0], before[0])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_refused_by_their_kind(kind):
    params = given()
    optimizer = altgrad.optim.AdamW(params)
    optimizer.step()
    params[0].grad = KINDS[kind](params[0].shape)
    with pytest.raises(TypeError, match=f"does not support {kind} gradients.*parameter 0 of group 0"):
        optimizer.step()


def test_a_fake_tensor_outside_of_its_mode_is_quantized_in_form():
    x = in_mode(FakeTensorMode)((3, 4))
    for made in (altgrad.quantize(x, "ocp.e4m3fn"), altgrad.quantize(x, "ocp.e4m3fn", 0.5)):
        assert type(made) is type(x) and made.shape == (3, 4) and made.dtype == torch.float32
    assert altgrad.quant.quantize_codes(x, "ocp.e4m3fn").dtype == torch.float8_e4m3fn
