"""altgrad.optim.Record: a run's statistics as a table and as a picture, without a display."""

import json
import math
import subprocess
import sys

import pytest
import torch
import twins

import altgrad


def recorded(steps=40, scaler=None, bad=()):
    params, = twins.make([(8,), (4097,)], count=1)
    optimizer = altgrad.optim.AdamW(params, lr=0.1, max_grad_norm=3.0, statistics=True)
    record = altgrad.optim.Record(optimizer, scaler)
    for step in range(steps):
        twins.give_grads(params)
        if scaler:
            scaler.scale(torch.ones(1))
            params[0].grad[0] = math.inf if step in bad else 1.0
        (scaler.step if scaler else lambda optimizer: optimizer.step())(optimizer)
        record.add()
        if scaler:
            scaler.update()
    return optimizer, record


def test_a_row_is_what_the_step_said_of_all_parameters_together():
    optimizer, record = recorded()
    table, said = json.loads(json.dumps(record.table())), optimizer.statistics()
    assert table["steps"] == list(range(1, 41)) and "loss_scale" not in table
    assert table["grad_norm"][-1] == pytest.approx(optimizer.grad_norm.item(), rel=1e-6)
    assert table["ratio"][-1] == pytest.approx(said.update_norm.norm().item() / said.param_norm.norm().item())
    assert table["grad_norm_min"][-1] == said.grad_norm.min() and table["ratio_max"][-1] == said.ratio.max()
    assert table["clipped_steps"][-1] == 40 and table["lost_share"] == [0.0] * 40


def test_what_no_kernel_steps_is_left_out_of_the_sums():
    params = [torch.nn.Parameter(torch.full((300,), 1.0, dtype=dtype)) for dtype in (torch.float64, torch.bfloat16)]
    optimizer = altgrad.optim.SGD(params, lr=1e-6, statistics=True)
    for p in params:
        p.grad = torch.ones_like(p)
    with pytest.warns(UserWarning):
        optimizer.step()
    said = optimizer.statistics().summary()
    assert said["lost"] == 300 and said["lost_share"] == 1 and said["grad_norm"] == pytest.approx(300**0.5)


def test_what_nobody_has_said_is_nan_and_a_disabled_scaler_scales_by_one():
    optimizer = altgrad.optim.SGD([torch.nn.Parameter(torch.ones(3))], lr=0.1, statistics=True)
    for scaler in (torch.amp.GradScaler("cpu", enabled=False), altgrad.amp.GradScaler("cpu", enabled=False)):
        record = altgrad.optim.Record(optimizer, scaler)
        record.add()
        table = record.table()
        assert table["loss_scale"] == [1.0] and table["steps"] == [0.0]
        assert all(math.isnan(table[name][0]) for name in ("grad_norm", "ratio", "lost_share", "grad_norm_max"))


def test_the_picture_shows_what_was_skipped_and_the_scale(tmp_path):
    pytest.importorskip("matplotlib")
    scaler = altgrad.amp.GradScaler("cpu", init_scale=4.0, growth_interval=15)
    _, record = recorded(scaler=scaler, bad=(3, 20))
    assert record.table()["loss_scale"][2:5] == [4.0, 4.0, 2.0]
    figure = record.plot(tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 10_000
    words = [axis.get_ylabel() for axis in figure.axes]
    assert words == ["gradient norm", "update / weight", "lost updates, %", "clip rate", "loss scale"]
    assert figure.axes[-1].get_xlabel() == "step; red: 2 skipped"
    rates = figure.axes[3].lines[0].get_ydata()
    assert rates[0] == 1.0 and rates[-1] == 1.0 and min(rates) == pytest.approx(2 / 3)  # before the fourth, and it


def test_what_is_0_is_on_the_picture_and_the_legend_beside_it():
    pytest.importorskip("matplotlib")
    _, record = recorded(12)
    table = record.table()
    table["grad_norm_min"][5] = table["ratio"][7] = 0.0
    figure = altgrad.optim.plot_run(table)
    figure.canvas.draw()
    for axis in figure.axes[:4]:
        assert axis.get_ylim()[0] < 0.0
        assert axis.transData.transform((1, 0.0))[1] > axis.bbox.y0
    legend = figure.axes[0].get_legend().get_window_extent()
    assert legend.x0 >= figure.axes[0].bbox.x1


def test_a_picture_of_nothing_and_without_matplotlib_is_an_error_in_words(monkeypatch):
    pytest.importorskip("matplotlib")
    _, record = recorded(0)
    with pytest.raises(ValueError, match="nothing was recorded"):
        record.plot()
    with pytest.raises(RuntimeError, match="statistics=True"):
        altgrad.optim.Record(altgrad.optim.SGD([torch.nn.Parameter(torch.ones(1))]))
    assert subprocess.run([sys.executable, "-c", "import sys, altgrad.optim as o; assert 'matplotlib' not in sys.modules"])
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(RuntimeError, match="pip install matplotlib"):
        recorded(2)[1].plot()
