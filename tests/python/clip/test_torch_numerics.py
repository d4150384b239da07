"""numerics="torch": the bits of unscale_ and clip_grad_norm_ before a step that neither unscales nor clips."""

import itertools

import pytest
import torch
import twins

import altgrad

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(7,), (16, 16), (3, 4097), (5, 3)]


def unscaled(params, scale):
    """GradScaler.unscale_, which refuses float16 alone; whether all were finite."""
    found = torch.zeros(1)
    inverse = torch.tensor(scale).double().reciprocal().float()
    for dtype in DTYPES:
        grads = [p.grad for p in params if p.dtype == dtype]
        if grads:
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    return not found.item()


def ulps_apart(one, other):
    return abs(one.double() - other.double()) / 2.0 ** (torch.frexp(other)[1] - 24)


def steps(name, dtypes, bound, scale, foreach, count=3, grads=None):
    values = [v.detach() for dtype in dtypes for v in twins.make(SHAPES, dtype, count=1)[0]]
    params, others = ([torch.nn.Parameter(v.clone()) for v in values] for _ in range(2))
    ours = getattr(altgrad.optim, name)(params, max_grad_norm=bound, fused_amp=True, numerics="torch")
    plain = getattr(altgrad.optim, name)(others)
    for _ in range(count):
        twins.give_grads(params, others, scale=scale)
        if grads:
            grads(params, others)
        ours.grad_scale, ours.found_inf = torch.tensor(scale), torch.tensor(0.0)
        ours.step()
        assert unscaled(others, scale)
        if bound is not None:
            total = torch.nn.utils.get_total_norm([p.grad for p in others], foreach=foreach)
            norm = ours.grad_norm.to(total.dtype)
            assert torch.equal(norm.float(), ours.grad_norm)
            yield total, norm, sum([p.grad.double().square().sum() for p in others]).sqrt()
            torch.nn.utils.clip_grads_with_norm_(others, bound, norm, foreach=foreach)
        plain.step()
        for mine, other in zip(params, others):
            assert torch.equal(mine, other)
            for key, state in plain.state[other].items():
                assert torch.equal(ours.state[mine][key], state), key


@pytest.mark.parametrize("scale", [1024.0, 3000.0, 1.0])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_step_is_torchs_in_16_bits(dtype, foreach, scale):
    """The norm, too: its sum in another order would have to round to the dtype otherwise."""
    for name, bound in itertools.product(["AdamW", "SGD"], (0.37, 5.0, 1e6)):
        for total, norm, _ in steps(name, [dtype], bound, scale, foreach):
            assert total.dtype == dtype and torch.equal(total, norm)
    list(steps("AdamW", [dtype], None, scale, foreach))


@pytest.mark.parametrize("scale", [1024.0, 3000.0, 1.0])
@pytest.mark.parametrize("foreach", [False, True])
@pytest.mark.parametrize("dtypes", [DTYPES[:1], DTYPES], ids=["float32", "mixed"])
def test_a_step_is_torchs_in_float32_given_the_norm(dtypes, foreach, scale):
    """Ours is the exact one to within two units; torch's sum is up to four away, in an order that
    its vectors and threads make. Of mixed types each tensor's norm is rounded first."""
    for name, bound in itertools.product(["AdamW", "SGD"], (0.37, 5.0, 1e6)):
        for total, norm, exact in steps(name, dtypes, bound, scale, foreach):
            assert total.dtype == torch.float32 and ulps_apart(total, norm) <= 4
            assert len(dtypes) > 1 or ulps_apart(exact, norm) <= 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_sums_are_exact_the_norm_is_torchs_too(dtype):
    def powers(*lists):
        for equals in zip(*lists):
            sign = torch.randn(equals[0].shape).sign()
            for param in equals:
                param.grad = torch.zeros_like(param)
                param.grad.view(-1)[:4] = (1024 * sign.view(-1)[:4]).to(dtype)

    for total, norm, _ in steps("AdamW", [dtype], 0.37, 1024.0, False, grads=powers):
        assert torch.equal(total, norm)


def test_the_default_rounds_once():
    """So the option says something: the same gradients, other bits."""
    params, others = twins.make(SHAPES, torch.bfloat16)
    ours = [altgrad.optim.SGD(of, lr=1.0, max_grad_norm=0.37, fused_amp=True, numerics=numerics)
            for of, numerics in ((params, "torch"), (others, None))]
    twins.give_grads(params, others, scale=3000.0)
    for optimizer in ours:
        optimizer.grad_scale, optimizer.found_inf = torch.tensor(3000.0), torch.tensor(0.0)
        optimizer.step()
    assert not all(map(torch.equal, params, others))


def test_a_scaler_of_ours_a_copy_and_what_is_refused():
    params, others = twins.make(SHAPES, torch.bfloat16)
    ours = altgrad.optim.AdamW(params, max_grad_norm=0.37, numerics="torch")
    plain = altgrad.optim.AdamW(others)
    scaler = altgrad.amp.GradScaler("cpu", init_scale=3000.0)
    twins.give_grads(params, others, scale=3000.0)
    scaler.scale(torch.zeros(()))
    scaler.step(ours)
    unscaled(others, 3000.0)
    torch.nn.utils.clip_grads_with_norm_(others, 0.37, ours.grad_norm.bfloat16())
    plain.step()
    assert all(map(torch.equal, params, others))
    with pytest.raises(ValueError, match="Invalid numerics value: apex; it has to be None or 'torch'"):
        altgrad.optim.SGD(params, numerics="apex")


def test_the_numerics_may_change_between_steps():
    weight = torch.nn.Parameter(torch.randn(300).bfloat16())
    optimizer = altgrad.optim.SGD([weight], lr=1.0, max_grad_norm=0.1)
    weight.grad = torch.randn_like(weight)
    optimizer.step()
    optimizer.numerics = "torch"
    other = torch.nn.Parameter(weight.detach().clone())
    other.grad = weight.grad.clone()
    torch.nn.utils.clip_grad_norm_([other], 0.1)
    torch.optim.SGD([other], lr=1.0).step()
    optimizer.step()
    assert torch.equal(weight, other)
    with pytest.raises(ValueError, match="Invalid numerics value: torhc"):
        optimizer.numerics = "torhc"
