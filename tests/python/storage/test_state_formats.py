"""States in formats that torch has no dtype for: their codes lie in integers, and files keep them."""

import copy

import numpy as np
import pytest
import torch

import altgrad

E4M3 = [(m + 8 * (e > 0)) * 2.0 ** (max(e, 1) - 10) for e in range(16) for m in range(8)]  # 0 to 480


def stepped(storage, count=1, size=1000):
    torch.manual_seed(3)
    param = torch.nn.Parameter(torch.randn(size))
    optimizer = altgrad.optim.FromRule("adamw", storage=storage)([param], lr=0.1, beta1=0.5)
    for _ in range(count):
        param.grad = torch.randn(size)
        optimizer.step()
    return param, optimizer


def test_a_moment_is_the_nearest_code():
    param, optimizer = stepped("m=altgrad.e4m3 v=altgrad.e6m9")
    held = optimizer.state[param]
    assert held["m"].dtype == torch.uint8 and held["v"].dtype == torch.int16
    codes, numbers = held["m"].numpy().astype(int), 0.5 * param.grad.double().numpy()
    nearest = np.abs(np.abs(numbers)[:, None] - np.array(E4M3)).argmin(axis=1)
    assert (codes == nearest + 128 * (numbers < 0)).all()


@pytest.mark.parametrize("storage, dtype", [
    ("m=ocp.e2m1", torch.uint8), ("m=int8", torch.int8), ("m=int16", torch.int16), ("v=uint8", torch.uint8),
    ("m=altgrad.e0m7", torch.uint8), ("m=altgrad.e3m12", torch.int16), ("v=ocp.e8m0", torch.uint8)])
def test_every_kind_of_format_steps(storage, dtype):
    param, optimizer = stepped(storage, 3)
    assert optimizer.state[param][storage[0]].dtype == dtype
    assert param.isfinite().all() or "v" in storage  # v may round to 0


def test_files_keep_codes():
    storage = "m=altgrad.e4m3 v=altgrad.e6m9"
    param, optimizer = stepped(storage, 3)
    twin = torch.nn.Parameter(param.detach().clone())
    other = altgrad.optim.FromRule("adamw", storage=storage)([twin], lr=0.1, beta1=0.5)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    param.grad, twin.grad = torch.ones(1000), torch.ones(1000)
    optimizer.step(), other.step()
    assert torch.equal(param, twin)
    assert all(torch.equal(optimizer.state[param][key], other.state[twin][key]) for key in "mv")


def test_codes_of_another_format_are_refused():
    param, optimizer = stepped("m=altgrad.e4m3")
    optimizer.state[param]["m"] = optimizer.state[param]["m"].to(torch.int16)
    with pytest.raises(TypeError, match="state 'm' is torch.int16, but storage says m=altgrad.e4m3"):
        optimizer.step()


def test_a_copy_has_a_dtype_of_torchs():
    with pytest.raises(ValueError, match="copy=altgrad.e4m3, for which torch has no dtype"):
        altgrad.optim.FromRule("adamw", storage="copy=altgrad.e4m3")


def test_unknown_formats_are_refused_with_those_there_are():
    with pytest.raises(altgrad.Error, match="unknown format 'e4m3'; did you mean 'ocp.e4m3fn'"):
        altgrad.optim.FromRule("adamw", storage="m=e4m3")


def test_a_second_name_of_a_format_is_the_same_memory():
    param = torch.nn.Parameter(torch.randn(70, 70))
    optimizer = altgrad.optim.AdamW([param], storage="m=altgrad.e5m2:128 v=altgrad.e5m10")
    for _ in range(2):
        param.grad = torch.randn_like(param)
        optimizer.step()
        optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state[param]["exp_avg"].dtype == torch.float8_e5m2
    assert optimizer.state[param]["exp_avg_sq"].dtype == torch.float16
