"""`altgrad.lerp` in a rule has the bits of torch.lerp, from whichever end it starts."""

import pytest
import torch

import altgrad

RULE = """altgrad.rule @towards(param %w: f32, grad %g: f32, hyper %lr: f64 = 0.1,
    hyper %weight: f64 = 0.1) {
  %share = truncf %weight : f64 to f32
  %w1 = altgrad.lerp %w to %g by %share : f32
  altgrad.yield param(%w1) state()
}
"""


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.49999997, 0.5, 0.9, 1.0, 1.5, -0.25, -0.75])
def test_lerp_is_torchs(weight, tmp_path):
    path = tmp_path / "towards.mlir"
    path.write_text(RULE)
    torch.manual_seed(5)
    start, end = torch.randn(4096), torch.randn(4096) * 3
    start[:4], end[:4] = torch.tensor([1e-42, torch.inf, -0.0, 3e38]), torch.tensor([-1e-42, 1.0, 0.0, -3e38])
    parameter = torch.nn.Parameter(start.clone())
    parameter.grad = end
    optimizer = altgrad.optim.FromRule(str(path), storage="param=f32 grad=f32")([parameter], weight=weight)
    optimizer.step()
    expected = torch.lerp(start, end, weight)
    same = (parameter.data == expected) | (parameter.data.isnan() & expected.isnan())
    assert same.all(), (start[~same], end[~same], parameter.data[~same], expected[~same])
