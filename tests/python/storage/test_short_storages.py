"""A tensor whose storage was made too short for it is refused; no byte beyond the storage is read or written."""

import pytest
import torch
import twins

import altgrad


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("size", [0, 8])
@pytest.mark.parametrize("which", ["param", "grad", "exp_avg", "step"])
def test_it_is_refused_and_the_others_stay(which, size, strided):
    flat = torch.randn(64)
    views = [flat.as_strided((4, 4), (8, 1) if strided else (4, 1), offset)
             for offset in ((0, 4) if strided else (16, 32))]
    params = [torch.nn.Parameter(view.detach()) for view in views] + [
        torch.nn.Parameter(torch.randn(5))]
    twins.give_grads(params)
    params[1].grad = torch.randn(64).as_strided((4, 4), views[0].stride(), 16)
    optimizer = altgrad.optim.AdamW(params, lr=0.1)
    optimizer.step()
    short = {"param": params[1], "grad": params[1].grad, **optimizer.state[params[1]]}[which]
    before, held = params[2].detach().clone(), short.untyped_storage().nbytes()
    short.untyped_storage().resize_(min(size, held - 1))
    with pytest.raises(RuntimeError, match=r"a tensor of sizes .* ends at byte \d+ of a storage"):
        optimizer.step()
    assert torch.equal(before, params[2]) and optimizer.state[params[2]]["step"] == 1
    short.untyped_storage().resize_(held)
    short.detach().fill_(1.0)
    optimizer.step()


@pytest.mark.parametrize("which", ["param", "grad", "exp_avg", "step"])
@pytest.mark.parametrize("why", ["float64", "differentiable"])
def test_what_torch_steps_is_refused_too(why, which):
    params = [torch.nn.Parameter(torch.randn(1 << 12, dtype=torch.float64 if why == "float64" else torch.float32))
              for _ in range(2)]
    optimizer = altgrad.optim.AdamW([dict(params=params, differentiable=why != "float64")], lr=0.1)
    for param in params:
        param.grad = torch.ones_like(param)
    with torch.set_grad_enabled(False):
        optimizer.step()
    short = {"param": params[1], "grad": params[1].grad, **optimizer.state[params[1]]}[which]
    before = params[0].detach().clone()
    short.untyped_storage().resize_(2)
    with pytest.raises(RuntimeError, match=r"ends at byte \d+ of a storage of 2 bytes"):
        optimizer.step()
    assert torch.equal(before, params[0]) and optimizer.state[params[0]]["step"] == 1


@pytest.mark.parametrize("dtype, norm", [(torch.float64, 2.0), (torch.float32, 3.0), (torch.complex64, 2.0)])
@pytest.mark.parametrize("call", [
    lambda ps, norm: altgrad.ops.clip_grad_norm_(ps, 1.0, norm),
    lambda ps, norm: altgrad.ops.compute_global_grad_norm([p.grad for p in ps], norm),
    lambda ps, norm: altgrad.ops.clip_grad_value_(ps, 1.0) if norm != 3.0 else altgrad.ops.clip_grad_norm_(ps, 1.0, norm),
    lambda ps, norm: altgrad.ops.fused_grad_unscale_clip([p.grad for p in ps], 1.0, 2.0, norm_type=norm, inplace=True),
    lambda ps, norm: altgrad.ops.fused_grad_unscale_clip([p.grad for p in ps], 1.0, 2.0, norm_type=norm)])
def test_what_torch_clips_is_refused_too(call, dtype, norm):
    params = [torch.nn.Parameter(torch.ones(100, dtype=dtype)) for _ in range(2)]
    for param in params:
        param.grad = torch.full_like(param, 5.0)
    params[1].grad.untyped_storage().resize_(64)
    with pytest.raises(RuntimeError, match=r"ends at byte \d+ of a storage of 64 bytes"):
        call(params, norm)
    assert (params[0].grad == 5.0).all()


def test_a_state_that_would_be_put_in_another_order_is_refused_too():
    param = torch.nn.Parameter(torch.randn(9, 7))
    twins.give_grads([param])
    optimizer = altgrad.optim.AdamW([param])
    optimizer.step()
    param.data = param.detach().t().contiguous().t()
    optimizer.state[param]["exp_avg"].untyped_storage().resize_(8)
    with pytest.raises(RuntimeError, match=r"ends at byte 252 of a storage of 8 bytes"):
        optimizer.step()
