"""Names of a rule that would meet with others in one key are refused in words."""

import pytest
import torch

import altgrad

RULE = """
altgrad.rule @own(param %w: f32, grad %g: f32, state %{state}: f32,
                  hyper %{hyper}: f64 = 0.5, step %t: i64, option %flip: i1 = false) {{
  %count = sitofp %t : i64 to f64
  %scaled = divf %{hyper}, %count : f64
  %rate = truncf %scaled : f64 to f32
  %minus = negf %rate : f32
  %signed = select %flip, %minus, %rate : f32
  %sum = addf %{state}, %g : f32
  %dw = mulf %signed, %sum : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state(%sum)
}}
"""


def make(state="m", hyper="lr", **kwargs):
    return altgrad.optim.FromRule(RULE.format(state=state, hyper=hyper), **kwargs)


@pytest.mark.parametrize("state, storage", [("step", ""), ("master", "master=f32"),
                                            ("copy", "copy=ocp.e4m3fn")])
def test_a_state_that_meets_another_key(state, storage):
    with pytest.raises((ValueError, altgrad.Error), match=f"{state}"):
        make(state=state, storage=storage)


@pytest.mark.parametrize("hyper", [
    "params", "self", "max_grad_norm", "fused_amp", "param_names", "differentiable", "lambda"])
def test_a_hyper_parameter_that_meets_an_argument(hyper):
    with pytest.raises(ValueError, match=f"@own has a hyper-parameter '{hyper}'"):
        make(hyper=hyper)


@pytest.mark.parametrize("options, sign", [
    ({"flip": False}, -1), ({"flip": True}, 1), (["flip", "flip"], 1), ("flip", 1), ((), -1)])
def test_options_as_a_mapping(options, sign):
    param = torch.nn.Parameter(torch.zeros(1))
    param.grad = torch.ones(1)
    make(options=options)([param]).step()
    assert param.item() == 0.5 * sign


@pytest.mark.parametrize("storage", ["m=bf16\n--clip", "m=bf16\0", "m=bf16 --emit=ptx", 'm="bf16"',
                                     "m=bf16,param=bf16"])
def test_storage_is_words_and_nothing_else(storage):
    with pytest.raises(ValueError, match="is not name=format"):
        make(storage=storage)


@pytest.mark.parametrize("option", ["flip}\n--clip", "flip\0", "", "flip,flip"])
def test_an_option_is_one_name(option):
    with pytest.raises(ValueError, match="cannot be the name of an option"):
        make(options=[option])


def test_none_is_no_number():
    param = torch.nn.Parameter(torch.zeros(1))
    param.grad = torch.ones(1)
    with pytest.raises(TypeError, match="lr is None"):
        make()([param], lr=None).step()
    optimizer = altgrad.optim.AdamW([param])
    optimizer.param_groups[0]["lr"] = None
    with pytest.raises(TypeError, match="lr is None"):
        optimizer.step()
    assert param.item() == 0 and not optimizer.state
    altgrad.optim.AdEMAMix([param], alpha_warmup=None).step()


@pytest.mark.parametrize("name", ["AdamW", "Lion", "SGD"])
def test_none_as_lr_is_refused_as_torch_does(name):
    with pytest.raises(TypeError):
        getattr(altgrad.optim, name)([torch.nn.Parameter(torch.zeros(1))], lr=None)
