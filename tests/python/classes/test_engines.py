"""What frameworks do with an optimizer: DCP's first step, one optimizer per parameter, compile."""

import pytest
import torch
import torch.distributed.checkpoint.state_dict as checkpoint
import twins

import altgrad

NAMES = ["Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Lion", "LAMB", "ADOPT", "AdEMAMix"]


@pytest.mark.parametrize("name", NAMES)
def test_distributed_checkpoint_makes_state_by_a_step_of_zero(name):
    """DCP steps a fresh optimizer with lr 0 and zero gradients: parameters keep their values."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    before = [p.detach().clone() for p in model.parameters()]
    optimizer = getattr(altgrad.optim, name)(model.parameters(), lr=0.1)
    saved = checkpoint.get_optimizer_state_dict(model, optimizer)
    assert all(map(torch.equal, before, model.parameters()))
    assert optimizer.param_groups[0]["lr"] == 0.1
    assert len(saved["state"]) == (0 if name == "SGD" else 4)
    checkpoint.set_optimizer_state_dict(model, optimizer, optim_state_dict=saved)
    twins.give_grads(list(model.parameters()))
    optimizer.step()


def test_one_optimizer_per_parameter_inside_backward():
    """torchtitan's way: a step as soon as a gradient is there, in the autograd thread."""
    torch.manual_seed(1)
    a, b = (torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2)) for _ in "ab")
    b.load_state_dict(a.state_dict())
    several = {param: altgrad.optim.AdamW([param], lr=0.1) for param in a.parameters()}

    def step_at_once(param):
        several[param].step()
        several[param].zero_grad()

    for param in several:
        param.register_post_accumulate_grad_hook(step_at_once)
    whole = torch.optim.AdamW(b.parameters(), lr=0.1)
    for _ in range(3):
        x = torch.randn(5, 4)
        a(x).sum().backward()
        b(x).sum().backward()
        whole.step()
        whole.zero_grad()
    for p, q in zip(a.parameters(), b.parameters()):
        torch.testing.assert_close(p, q)


def test_step_inside_a_compiled_function():
    a, b = twins.make([(8,), (5, 3)])
    optimizers = [altgrad.optim.AdamW(ps, lr=0.1) for ps in (a, b)]

    def train(params, optimizer):
        optimizer.zero_grad()
        loss = sum((p ** 2).sum() for p in params)
        loss.backward()
        optimizer.step()
        return loss

    compiled = torch.compile(train, backend="eager")
    for _ in range(3):
        assert torch.equal(compiled(a, optimizers[0]), train(b, optimizers[1]))
    assert all(map(torch.equal, a, b))


def test_a_step_count_that_two_parameters_share():
    a, = twins.make([(8,), (5,)], count=1)
    optimizer = altgrad.optim.AdamW(a)
    twins.give_grads(a)
    optimizer.step()
    optimizer.state[a[0]]["step"] = optimizer.state[a[1]]["step"]
    optimizer.step()
    assert [optimizer.state[p]["step"].item() for p in a] == [2.0, 2.0]
