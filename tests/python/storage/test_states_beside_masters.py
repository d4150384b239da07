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
