"""A stock rule is the installation's, whatever lies in the working directory; a path is a path."""

import pytest
import torch
import twins

import altgrad

OTHER = """
altgrad.rule @{name}(param %w: f32, grad %g: f32, hyper %lr: f64 = 1.0e-3) {{
  %rate = truncf %lr : f64 to f32
  %dw = mulf %rate, %g : f32
  %w1 = addf %w, %dw : f32
  altgrad.yield param(%w1) state()
}}
"""


def moved(optimizer_class, **kwargs):
    param = torch.nn.Parameter(torch.zeros(1))
    param.grad = torch.ones(1)
    optimizer_class([param], **kwargs).step()
    return param.item()


@pytest.mark.parametrize("place", ["lion", "lion.mlir", "templates/lion.mlir"])
@pytest.mark.parametrize("folder", [False, True])
def test_nothing_replaces_a_stock_rule(tmp_path, monkeypatch, place, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / place).parent.mkdir(exist_ok=True)
    if folder:
        (tmp_path / place).mkdir()
    else:
        (tmp_path / place).write_text(OTHER.format(name="lion"))
    assert moved(altgrad.optim.Lion, lr=0.5) == -0.5
    assert moved(altgrad.optim.FromRule("lion"), lr=0.5) == -0.5


@pytest.mark.parametrize("path", [
    "rule.mlir", "./bare", "ordner/größe.mlir", "größe.mlir", "altgrad.rule.mlir",
    "altgrad.rule @x/rule.mlir", "altgrad.rules/rule"])
def test_paths(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(OTHER.format(name="own") + "// größer\n", encoding="utf-8")
    assert moved(altgrad.optim.FromRule(path), lr=0.5) == 0.5
    assert moved(altgrad.optim.FromRule(tmp_path / path), lr=0.5) == 0.5


def test_a_text_whose_rule_has_a_stock_name_is_the_text():
    assert moved(altgrad.optim.FromRule(OTHER.format(name="lion")), lr=0.5) == 0.5
    assert moved(altgrad.optim.Lion, lr=0.5) == -0.5


@pytest.mark.parametrize("source", ["lion.mlir", "no/such", "größe", "Lion"])
def test_what_is_not_there(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(altgrad.Error, match=f"cannot read the rule '{source}'"
                       if "/" in source or "." in source else "no template is called"):
        altgrad.optim.FromRule(source)


def test_a_rule_needs_only_its_own_class(tmp_path):
    """Two classes whose rules have one name live side by side."""
    up = altgrad.optim.FromRule(OTHER.format(name="own"))
    down = altgrad.optim.FromRule(OTHER.format(name="own").replace("addf", "subf"))
    assert [moved(cls, lr=0.25) for cls in (up, down, up)] == [0.25, -0.25, 0.25]
    params, = twins.make([(3,)], count=1)
    assert up(params).defaults == down(params).defaults == {"lr": 1e-3}
