"""States that a storage line does not speak of are float32 beside a master, whose updates a bfloat16 average loses."""

import pytest
import torch
import twins

import altgrad


@pytest.mark.parametrize("storage, dtype", [("", torch.bfloat16), ("master=f32", torch.float32),
                                            ("master=bf16+i16", torch.float32),
                                            ("master=f32 states=param", torch.bfloat16),
                                            ("master=f32 v=bf16", torch.float32)])
def test_what_a_moment_begins_in(storage, dtype):
    params, = twins.make([(64, 64)], dtype=torch.bfloat16, count=1)
    optimizer = altgrad.optim.AdamW(params, storage=storage)
    twins.give_grads(params)
    optimizer.step()
    assert optimizer.state[params[0]]["exp_avg"].dtype is dtype
    assert optimizer.state[params[0]]["exp_avg_sq"].dtype is (torch.bfloat16 if "v=bf16" in storage else dtype)


def test_a_file_with_narrower_moments_goes_on_with_them():
    params, = twins.make([(64, 64)], dtype=torch.bfloat16, count=1)
    before = altgrad.optim.AdamW(params, storage="master=f32 states=bf16")
    twins.give_grads(params)
    before.step()
    after = altgrad.optim.AdamW(params, storage="master=f32 states=bf16")
    after.load_state_dict(before.state_dict())
    after.step()
    assert after.state[params[0]]["exp_avg"].dtype is torch.bfloat16


@pytest.mark.parametrize("before, after, dtype", [
    ("", "master=f32", torch.float32), ("", "master=bf16+i16", torch.float32), ("", "states=f32", torch.float32),
    ("states=ocp.e5m2", "states=bf16", torch.bfloat16), ("states=f32", "", torch.float32)])
def test_narrower_moments_of_a_file_become_as_wide_as_the_storage_says(before, after, dtype):
    params, = twins.make([(64, 64)], dtype=torch.bfloat16, count=1)
    first = altgrad.optim.AdamW(params, storage=before)
    twins.step([first], [params])
    held = {key: first.state[params[0]][key].double() for key in ("exp_avg", "exp_avg_sq")}
    second = altgrad.optim.AdamW(params, storage=after)
    second.load_state_dict(twins.through_a_file(first.state_dict()))
    twins.step([second], [params])
    grad, state = params[0].grad.double(), second.state[params[0]]
    for key, beta, now in (("exp_avg", 0.9, grad), ("exp_avg_sq", 0.999, grad * grad)):
        assert state[key].dtype is dtype
        torch.testing.assert_close(state[key].double(), beta * held[key] + (1 - beta) * now, atol=1e-7,
                                   rtol=1e-6 if dtype is torch.float32 else 2.0**-8)


def test_a_second_moment_falls_after_the_move_to_a_master():
    """In bfloat16 it would stand still: 0.001 of it is less than half a place."""
    params, = twins.make([(8,)], dtype=torch.bfloat16, count=1)
    first = altgrad.optim.AdamW(params)
    twins.step([first], [params])
    second = altgrad.optim.AdamW(params, storage="master=f32")
    second.load_state_dict(first.state_dict())
    moment = second.state[params[0]]["exp_avg_sq"].double()
    params[0].grad.zero_()
    for _ in range(2000):
        second.step()
    torch.testing.assert_close(second.state[params[0]]["exp_avg_sq"].double(), moment * 0.999**2000, rtol=1e-3, atol=0.0)
