"""Extents and places in a rule are those of the tensor as the user sees it: every layout has the bits of its contiguous twin."""

import pytest
import torch
import twins

import altgrad
from altgrad._binding.shards import ShardLocation

SIGNATURE = "(param %w: f32, grad %g: f32, state %m: f32, hyper %lr: f64 = 0.125"
MOVE = """
  %n = addf %m, %g : f32
  %rate = truncf %lr : f64 to f32
  %d = mulf %rate, %by : f32
  %w1 = math.fma %d, %n, %w : f32
  altgrad.yield param(%w1) state(%n"""


def rule(name, body, more="", yields=""):
    return f"altgrad.rule @{name}{SIGNATURE}{more}) {{\n{body}{MOVE}{yields})\n}}\n"


RULES = {
    "dim": rule("dim", """%r = altgrad.dim rows : i64
  %c = altgrad.dim columns : i64
  %three = constant 3 : i64
  %rr = muli %r, %three : i64
  %s = addi %rr, %c : i64
  %by = sitofp %s : i64 to f32"""),
    "index": rule("index", "%i = altgrad.index : i64\n  %by = sitofp %i : i64 to f32"),
    "shape": rule("shape", "%s = altgrad.scale_by_shape original : f64\n  %by = truncf %s : f64 to f32"),
    "unit": rule("unit", "%by = altgrad.reduce sumsq %g over unit : f32\n  %k1 = maximumf %k, %by : f32",
                 ", unit_state %k: f32", ", %k1"),
    **{block: rule("block", f"%by = altgrad.reduce sumsq %g over block<{block}> : f32") for block in ("1x32", "32x1")},
    "muon": "muon",
}


def column_major(value):
    return value.mT.contiguous().mT


LAYOUTS = {
    "column-major": column_major,
    "reversed": lambda value: value.permute(*reversed(range(value.dim()))).contiguous().permute(*reversed(range(value.dim()))),
    "channels-last": lambda value: value.contiguous(memory_format=torch.channels_last),
    "gaps": lambda value: torch.stack([value, value], -1)[..., 0],
}


def lie(values, layout):
    """Two equal lists of parameters, the second of which lies as `layout` says."""
    values = [value for value in values if layout != "channels-last" or value.dim() == 4]
    return ([torch.nn.Parameter(value.clone()) for value in values],
            [torch.nn.Parameter(LAYOUTS[layout](value.clone())) for value in values])


def live(make, lists, steps=3):
    """Some steps of both; the second goes through a file before each, and its gradients lie in turns as others do."""
    optimizers = [make(params) for params in lists]
    for step in range(steps):
        file, optimizers[1] = twins.through_a_file(optimizers[1].state_dict()), make(lists[1])
        optimizers[1].load_state_dict(file)
        for p, q in zip(*lists):
            p.grad = torch.randn(p.shape).to(p.dtype)
            if step == 1:  # as a sum's backward gives it
                p.grad = p.grad.flatten()[:1].view([1] * p.dim()).expand(p.shape)
            q.grad = p.grad if step else column_major(p.grad.clone())
        for optimizer in optimizers:
            optimizer.step()
    for p, q in zip(*lists):
        assert q.numel() < 2 or not q.is_contiguous()
        assert torch.equal(p, q)
        for key, state in optimizers[0].state[p].items():
            assert torch.equal(state, optimizers[1].state[q][key]), key


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", RULES)
def test_rules(name, layout):
    shapes = [(96, 64)] if name == "muon" else [(64, 96), (32, 64, 3, 4)] if name != "32x1" else [(64, 96)]
    lists = lie([torch.randn(shape) for shape in shapes], layout)
    if lists[0]:
        live(altgrad.optim.FromRule(RULES[name]), lists)


@pytest.mark.parametrize("storage, dtype", [("master=f32", torch.bfloat16), ("m=bnb8:256", torch.float32),
                                            ("m=torchao4:128", torch.float32), ("param=bf16,stochastic", torch.bfloat16)])
def test_rules_with_storage(storage, dtype):
    lists = lie([torch.randn(64, 96).to(dtype)], "column-major")
    seed = dict(seed=1) if "stochastic" in storage else {}
    live(lambda params: altgrad.optim.FromRule(RULES["index"], storage=storage)(params, **seed), lists)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("make", [
    lambda p: altgrad.optim.AdamW(p, storage="param=bf16,stochastic m=bf16,stochastic", seed=1),
    lambda p: altgrad.optim.AdamW(p, max_grad_norm="agc-unit:0.01"),
    lambda p: altgrad.optim.Muon(p, lr=0.1), lambda p: altgrad.optim.NorMuon(p, lr=0.1)], ids=["draws", "units", "muon", "normuon"])
def test_classes(make, layout):
    live(make, lie([torch.randn(24, 6).bfloat16(), torch.randn(8, 4, 3, 3).bfloat16()], layout))


def test_a_muon_of_a_rule_is_torchs_on_a_column_major_matrix():
    values = torch.randn(24, 6)
    mine, theirs = torch.nn.Parameter(column_major(values)), torch.nn.Parameter(values.clone())
    mine.grad = torch.randn(24, 6)
    theirs.grad = mine.grad.clone()
    altgrad.optim.FromRule("muon")([mine], lr=0.5, decay=0.0).step()
    torch.optim.Muon([theirs], lr=0.5, weight_decay=0.0).step()
    ratio = (mine - values).norm() / (theirs - values).norm()
    assert 0.95 < ratio < 1.05


def test_a_part_in_columns_has_the_extents_of_its_whole():
    """As fully_shard(..., shard_placement_fn=...) cuts it."""
    whole, part = torch.nn.Parameter(torch.zeros(4, 6)), torch.nn.Parameter(torch.zeros(4, 3))
    part.altgrad_shard_location = ShardLocation((4, 6), None, True, 6)
    for param in (whole, part):
        param.grad = torch.ones_like(param)
        altgrad.optim.FromRule(RULES["dim"])([param]).step()
    assert torch.equal(whole[:, :3], part)
    with pytest.raises(ValueError, match="not sharded along dimension 0, and its rule asks where in the whole its elements are"):
        altgrad.optim.FromRule(RULES["index"])([part]).step()
