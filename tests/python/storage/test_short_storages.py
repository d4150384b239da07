"""A tensor whose storage was made too short for it is refused; no byte beyond the storage is read or written."""

import pytest
import torch
import twins

import altgrad


@pytest.mark.parametrize("strided", [False, True])
@pytest.mark.parametrize("size", [0, 8])
@pytest.mark.parametrize("which", ["param", "grad", "exp_avg", "step"])
def test_it_is_refused_and_the_others_stay(which, size, strided, binder):
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
