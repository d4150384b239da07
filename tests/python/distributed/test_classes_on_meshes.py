"""Every class of altgrad.optim takes DTensors, uneven shards and several meshes among them: the parameters of one process."""

import ranks
import torch
from meshes import place
from test_factored_on_meshes import places, whole

import altgrad

SHAPES = ((12, 7), (9, 9), (16, 4), (5,))
WORDS = {"MARS": dict(mars_type="mars-shampoo"), "AdamMini": dict(split="rows"), "Scion": dict(momentum=0.1), "Shampoo": dict(grafting_type="adam")}
# The step of one takes inputs; the other draws by the index of an element, and takes shards of dimension 0 alone.
OTHERS = {"AdaHessian", "GridOptim"}
CLASSES = sorted({name for name in altgrad.optim.__all__ if getattr(getattr(altgrad.optim, name), "_template", None)
                  and not name.endswith(("8bit", "4bit", "Fp8"))} - OTHERS)


def optimizer_of(name, params):
    kind, words = getattr(altgrad.optim, name), WORDS.get(name, {})
    if issubclass(kind, altgrad.optim.Muon):
        return kind([dict(params=params[:3]), dict(params=params[3:], use_muon=False)])
    return kind(params, **words)


def train(name, homes):
    """The parameters after four steps, with a new optimizer and a file in the middle."""
    torch.manual_seed(0)
    params = [torch.nn.Parameter(place(torch.randn(shape), home)) for shape, home in zip(SHAPES, homes)]
    optimizer = optimizer_of(name, params)
    for step in range(4):
        torch.manual_seed(step)
        for param, home, shape in zip(params, homes, SHAPES):
            param.grad = place(torch.randn(shape), home)
        optimizer.step()
        if step == 1:
            kept, optimizer = optimizer.state_dict(), optimizer_of(name, params)
            optimizer.load_state_dict(kept)
    return [whole(param).tolist() for param in params]


def on_meshes(rank, group):
    return [train(name, places(group.size())) for name in CLASSES]


def test_as_one_process(tmp_path):
    (found, *others), = ranks.run([on_meshes], tmp_path, 2)
    assert not isinstance(found, str) and all(one == found for one in others), found
    for name, params in zip(CLASSES, found):
        for param, alone in zip(params, train(name, [()] * len(SHAPES))):
            torch.testing.assert_close(torch.tensor(param), torch.tensor(alone), rtol=1e-6, atol=1e-7, msg=name)
