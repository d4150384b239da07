"""Rules with numbers of rows and of blocks over rows, against torch."""

import pytest
import torch

import altgrad

SUMS = """altgrad.rule @sums(param %w: f32, grad %g: f32, unit_state %sum: f32, hyper %lr: f64 = 1.0) {
  %sum1 = altgrad.reduce add %g over unit : f32
  altgrad.yield param(%w) state(%sum1)
}"""
# The sum of the blocks waits for a sweep of its own, and the new parameter for no sum.
BLOCKS = """altgrad.rule @blocks(param %w: f32, grad %g: f32, state %s: f32, hyper %lr: f64 = 1.0) {
  %largest = altgrad.reduce absmax %w over block<32x1> : f32
  %sum = altgrad.reduce add %largest over SCOPE : f32
  %most = altgrad.reduce absmax %g over SCOPE : f32
  %s1 = addf %sum, %most : f32
  altgrad.yield param(%g) state(%s1)
}"""
PLACES = """altgrad.rule @places(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0) {
  %i = altgrad.index : i64
  %x = sitofp %i : i64 to f32
  %sum = altgrad.reduce add %x over block<32x1> : f32
  %w1 = subf %w, %sum : f32
  altgrad.yield param(%w1) state()
}"""
PRODUCTS = """altgrad.rule @products(param %w: f32, grad %g: f32, unit_state %u: f32, hyper %lr: f64 = 1.0) {
  %i = altgrad.index : i64
  %x = sitofp %i : i64 to f32
  %y = mulf %x, %u : f32
  %most = altgrad.reduce max %y over tensor : f32
  %w1 = addf %g, %most : f32
  %u1 = altgrad.reduce max %g over unit : f32
  altgrad.yield param(%w1) state(%u1)
}"""
SUMS_OF_SUMS = """altgrad.rule @again(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0) {
  %size = altgrad.reduce absmax %g over tensor : f32
  %all = altgrad.reduce add %g over tensor : f32
  %i = altgrad.index : i64
  %x = sitofp %i : i64 to f32
  %y = mulf %size, %x : f32
  %most = altgrad.reduce max %y over tensor : f32
  %w0 = addf %g, %most : f32
  %w1 = addf %w0, %all : f32
  altgrad.yield param(%w1) state()
}"""
RUNS = """altgrad.rule @runs(param %w: f32, grad %g: f32, state %s: f32, unit_state %u: f32, hyper %lr: f64 = 1.0) {
  %sum = altgrad.reduce add %g over block<1x32> : f32
  %u1 = altgrad.reduce max %g over unit : f32
  altgrad.yield param(%w) state(%sum, %u1)
}"""


def stepped(rule, shape):
    """The parameter before, its gradient, and the optimizer's states after one step."""
    param = torch.randint(1, 9, shape).float().requires_grad_()
    before, param.grad = param.detach().clone(), torch.randint(-9, 9, shape).float()
    optimizer = altgrad.optim.FromRule(rule)([param])
    optimizer.step()
    return before, param, optimizer.state[param]


def test_a_state_of_rows_that_only_keeps_a_number():
    before, param, state = stepped(SUMS, (5, 300))
    assert torch.equal(state["sum"], param.grad.sum(1, keepdim=True)) and torch.equal(param, before)


@pytest.mark.parametrize("scope", ["unit", "tensor"])
def test_blocks_over_rows_read_the_old_parameter(scope):
    before, param, state = stepped(BLOCKS.replace("SCOPE", scope), (32, 40))
    rows = before.abs().amax(0, keepdim=True).expand_as(before)
    sums = {"unit": rows.sum(1, keepdim=True) + param.grad.abs().amax(1, keepdim=True),
            "tensor": rows.sum() + param.grad.abs().amax()}[scope]
    assert torch.equal(state["s"], sums.expand_as(before)) and torch.equal(param, param.grad)


def test_blocks_over_rows_of_places_alone():
    before, param, _ = stepped(PLACES, (32, 40))
    assert torch.equal(param, before - torch.arange(32.0 * 40).view(32, 40).sum(0))


def test_blocks_over_rows_of_places_alone_are_of_one_dtype():
    params = [torch.ones(4, 8, dtype=dtype, requires_grad=True) for dtype in (torch.float32, torch.bfloat16)]
    for param in params:
        param.grad = torch.ones_like(param)
    with pytest.raises(altgrad.Error, match="reduces elements of no list; with several sets it must be one's"):
        altgrad.optim.FromRule(PLACES)(params).step()


@pytest.mark.parametrize("rule, wanted", [(PRODUCTS, [[16.0], [32.0]]), (SUMS_OF_SUMS, [[32.0], [64.0]])], ids=["states", "sums"])
def test_products_of_places_and_scalars_are_of_each_dtype(rule, wanted):
    params = [torch.ones(2, 8 * n, dtype=dtype, requires_grad=True) for n, dtype in ((1, torch.float32), (2, torch.bfloat16))]
    optimizer = altgrad.optim.FromRule(rule)(params)
    for _ in range(2):
        for param in params:
            param.grad = torch.ones_like(param)
        optimizer.step()
    assert [param.unique().tolist() for param in params] == wanted


def test_a_block_that_cuts_a_row_is_refused_in_words_of_rules():
    with pytest.raises(ValueError, match=r"has 65 elements for each index of dimension 0, which is no multiple of the 32 "
                                         r"in a block, and \"agc-unit\", or a rule's unit, has a number for each"):
        stepped(RUNS, (3, 65))
