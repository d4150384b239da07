"""ManifoldAdamW against the source's formulas in torch (definitions 1.9)."""

import pytest
import torch

import altgrad.optim


def formulas(p, g, m, v, step, bits, lr=1e-2, decay=0.1, most=1e6):
    """In float64; a parameter of 0 has a stiffness of 1."""
    if bits is not None:
        stiff = torch.exp2(torch.floor(torch.log2(p.abs())) - bits)
        stiff = torch.full_like(p, 1 / 128) if bits == 7 else torch.where(p == 0, 1.0, stiff)
        g = g * stiff.clamp(max=most)
    m.lerp_(g, 0.1)
    v.mul_(0.999).add_(g * g, alpha=0.001)
    p.mul_(1 - lr * decay)
    p.sub_(lr / (1 - 0.9**step) * m / (v.sqrt() / (1 - 0.999**step) ** 0.5 + 1e-8))


@pytest.mark.parametrize("bits", [0, 2, 7, None])
def test_steps_are_the_formulas(bits):
    generator = torch.Generator().manual_seed(1)
    spread = torch.exp2(torch.randint(-40, 20, (500,), generator=generator).float())
    start = torch.randn(500, generator=generator) * spread
    start[:3] = torch.tensor([0.0, 1.0, -0.5])
    param = torch.nn.Parameter(start.clone())
    want, m, v = start.double(), torch.zeros(500).double(), torch.zeros(500).double()
    words = dict(manifold_aware=False) if bits is None else dict(mantissa_bits=bits)
    optimizer = altgrad.optim.ManifoldAdamW([param], lr=1e-2, weight_decay=0.1, **words)
    for step in range(1, 4):
        param.grad = torch.randn(500, generator=generator)
        want = param.detach().double()
        formulas(want, param.grad.double(), m, v, step, bits)
        optimizer.step()
        assert torch.allclose(param.detach().double(), want, rtol=1e-5, atol=1e-8)


def test_bit_positions_are_the_source_s():
    generator = torch.Generator().manual_seed(2)
    spread = torch.exp2(torch.randint(-150, 20, (2000,), generator=generator).double())
    start = (torch.randn(2000, generator=generator).double() * spread).float()
    start[:6] = torch.tensor([0.0, -0.0, 1.0, -0.5, -2.0**-126, 2.0**-149])
    param, want = torch.nn.Parameter(start.clone()), torch.zeros(2000)
    optimizer = altgrad.optim.ManifoldAdamW([param], lr=1e-2, bit_position=True)
    for _ in range(3):
        before = param.detach().clone()
        param.grad = torch.randn(2000, generator=generator)
        optimizer.step()
        ulp = torch.nextafter(before, torch.tensor(torch.inf)) - before
        want += (param.detach() - before) / ulp.clamp(min=1e-45)
        assert torch.equal(optimizer.state[param]["bit_position"], want)
    other = altgrad.optim.ManifoldAdamW([param])
    param.grad = torch.ones(2000)
    other.step()
    assert "bit_position" not in other.state[param]


def test_bits_are_whole():
    with pytest.raises(ValueError, match="Invalid mantissa_bits value: 2.5; it has to be a whole number of 0 to 23"):
        altgrad.optim.ManifoldAdamW([torch.nn.Parameter(torch.ones(2))], mantissa_bits=2.5)
