"""The example in every docstring runs, and what it prints is what it says."""

import doctest
import inspect
import shutil
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from test_help import CALLABLE

import altgrad
from altgrad._library import find_templates

EXAMPLES = {name: thing for name, thing in CALLABLE.items() if ">>> " in inspect.getdoc(thing)}


def world():
    """What the examples take as given: a model with gradients, and what a training loop has at hand."""
    torch.manual_seed(0)
    model, x = torch.nn.Linear(8, 32), torch.randn(4, 8)
    loss = model(x).square().mean()
    loss.backward(retain_graph=True)
    optimizer = altgrad.optim.AdamW(model.parameters(), statistics=True)
    record = altgrad.optim.Record(optimizer)
    optimizer.step()
    record.add()
    return dict(altgrad=altgrad, torch=torch, model=model, x=x, y=x, loss=loss, optimizer=optimizer, record=record,
                loss_of=lambda *_: model(x).square().mean(), batches=[(x, x)], weight=torch.randn(64, 64), scale=2.0,
                codes=torch.ones(4).to(torch.float8_e4m3fn), tracker=0, found_inf=0.0, matrices=[model.weight], biases=[model.bias],
                scaler=altgrad.amp.GradScaler("cpu"), grads=[p.grad for p in model.parameters()])


@pytest.fixture
def ranks(request, tmp_path):
    """A process group of one, for what needs one."""
    if "altgrad.distributed." not in request.node.name:
        yield
        return
    dist.init_process_group("gloo", store=dist.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_runs(name, tmp_path, monkeypatch, ranks):
    monkeypatch.chdir(tmp_path)
    shutil.copy(find_templates() / "lion.mlir", "my_rule.mlir")
    given = world()
    torch.save(given["optimizer"].state_dict(), "bnb.pt")
    text = inspect.getdoc(EXAMPLES[name]).replace('"cuda"', '"cpu"')
    for example in doctest.DocTestParser().get_examples(text):
        if example.want:
            assert repr(eval(example.source, given)) + "\n" == example.want
        else:
            exec(compile(example.source, name, "single"), given)
    assert Path("run.png").is_file() == ("run.png" in text)
