"""A rule's mean of the squares of a unit, of tensors of one to four dimensions, beside torch's mean."""

import pytest
import torch

import altgrad

RULE = """
altgrad.rule @means(param %w: f32, grad %g: f32) {
  %mean = altgrad.row_mean_square %g : f32
  %w1 = subf %w, %mean : f32
  altgrad.yield param(%w1) state()
}
"""


@pytest.mark.parametrize("shape", [(4, 6), (3, 4, 5), (2, 3, 4, 5), (1, 7), (5, 1, 3), (7,)])
def test_it_is_the_mean_over_all_other_dimensions(shape, tmp_path):
    path = tmp_path / "means.mlir"
    path.write_text(RULE)
    weight = torch.nn.Parameter(torch.zeros(shape))
    weight.grad = torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(5)).float()
    altgrad.optim.FromRule(str(path))([weight]).step()
    of_units = weight.grad.flatten(1) if len(shape) > 1 else weight.grad[None]
    expected = of_units.square().sum(1) / of_units.shape[1]
    assert torch.equal(weight.detach().reshape(of_units.shape), -expected[:, None].expand(of_units.shape))
