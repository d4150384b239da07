"""A class with narrow states takes the words of `storage` in place of its own, and keeps the rest."""

import pytest
import torch

import altgrad

NARROW = ["AdamW8bit", "AdamW4bit", "AdamWFp8", "Lion8bit", "LionFp8", "Adam8bit", "Adam4bit", "AdamFp8"]


def stepped(name, storage, dtype=torch.float32, **more):
    param = torch.nn.Parameter(torch.randn(4096).to(dtype))
    optimizer = getattr(altgrad.optim, name)([param], storage=storage, **more)
    param.grad = torch.randn(4096).to(dtype)
    optimizer.step()
    return optimizer.state[param], optimizer


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("word, key", [("param=bf16,stochastic", None), ("master=f32", "master"), ("copy=ocp.e4m3fn", "copy")])
def test_words_of_other_streams_leave_the_states_narrow(name, word, key):
    state, optimizer = stepped(name, word if key != "master" else f"param=bf16 {word}",
                               torch.bfloat16 if key != "copy" else torch.float32)
    plain, _ = stepped(name, "")
    assert {k: v.dtype for k, v in plain.items()}.items() <= {k: v.dtype for k, v in state.items()}.items()
    assert key is None or key in state
    assert str(getattr(altgrad.optim, name)._words) in str(optimizer._words)


def test_the_users_word_wins():
    state, _ = stepped("AdamWFp8", "m=f32")
    assert state["exp_avg"].dtype == torch.float32 and state["exp_avg_sq"].dtype == torch.float8_e5m2
    state, _ = stepped("AdamW8bit", {"v": "f32"}, amsgrad=True)
    assert state["exp_avg_sq"].dtype == torch.float32 and state["max_exp_avg_sq"].dtype == torch.uint8
    state, _ = stepped("AdamW8bit", altgrad.optim.Storage(states="f32"))
    assert state["exp_avg"].dtype == state["exp_avg_sq"].dtype == torch.float32


@pytest.mark.parametrize("end", ["8bit", "4bit", "Fp8"])
def test_adam_is_adamw_without_decay(end):
    """Both rules are the same where nothing decays."""
    torch.manual_seed(3)
    start, grads = torch.randn(5000), torch.randn(3, 5000)
    ends = []
    for name in ("Adam", "AdamW"):
        param = torch.nn.Parameter(start.clone())
        optimizer = getattr(altgrad.optim, name + end)([param], lr=0.01, weight_decay=0.0)
        for grad in grads:
            param.grad = grad.clone()
            optimizer.step()
        ends.append((param.detach(), optimizer.state[param]))
    assert torch.equal(ends[0][0], ends[1][0])
    assert all(torch.equal(ends[0][1][key].view(torch.uint8) if value.itemsize == 1 else ends[0][1][key],
                           value.view(torch.uint8) if value.itemsize == 1 else value) for key, value in ends[1][1].items())
