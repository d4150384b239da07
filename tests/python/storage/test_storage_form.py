"""altgrad.optim.Storage: its str() is the storage line, and every `storage=` takes a Storage, a line or a dict."""

import pickle

import pytest
import torch

import altgrad

LINE = "param=bf16,stochastic master=f32 v=ocp.e5m2:128"
FORMS = [LINE, altgrad.optim.Storage(param="bf16,stochastic", master="f32", v="ocp.e5m2:128"),
         {"param": "bf16,stochastic", "master": "f32", "v": "ocp.e5m2:128"}]


@pytest.mark.parametrize("form", FORMS, ids=["line", "Storage", "dict"])
def test_every_form_is_the_same_storage(form):
    storage = altgrad.optim.Storage(form)
    assert str(storage) == LINE and storage == altgrad.optim.Storage(LINE) and hash(storage) == hash(altgrad.optim.Storage(LINE))
    assert pickle.loads(pickle.dumps(storage)) == storage and dict(storage) == FORMS[2]
    param = torch.nn.Parameter(torch.ones(4096, dtype=torch.bfloat16))
    for made in (altgrad.optim.AdamW([param], storage=form), altgrad.optim.FromRule("adamw", form)([param])):
        param.grad = torch.ones_like(param)
        made.step()
        held = made.state[param]
        assert held["master"].dtype == torch.float32
        assert torch.float8_e5m2 in [state.dtype for state in held.values()]


def test_a_dict_is_taken_by_grids_and_transcode():
    param = torch.nn.Parameter(torch.zeros(8))
    grid = altgrad.optim.GridOptim([param], storage={"velocity": "bf16"})
    param.grad = torch.ones(8)
    grid.step()
    assert grid.state[param]["velocity"].dtype == torch.bfloat16
    adam = altgrad.optim.AdamW([param])
    adam.step()
    moved = altgrad.transcode(adam.state_dict(), to=altgrad.optim.Storage(states="bf16"), report=None)
    assert moved["state"][0]["exp_avg"].dtype == torch.bfloat16


def test_words_of_two_storages_are_joined_by_stream():
    own = altgrad.optim.Storage(states="bnb8u:256", m="bnb8:256")
    assert str(own | "param=bf16,stochastic master=f32") == "states=bnb8u:256 m=bnb8:256 param=bf16,stochastic master=f32"
    assert str(own | {"m": "bf16"}) == "states=bnb8u:256 m=bf16"
    assert str("master=f32" | own | altgrad.optim.Storage(states="bf16")) == "master=f32 states=bf16"
    assert str(own) == "states=bnb8u:256 m=bnb8:256"


def test_what_is_no_storage_is_refused_in_words():
    for wrong, error, words in (({"m": 5}, TypeError, "'m' is given 5"), ({"m": "bf 16"}, ValueError, "'m=bf 16' is not"),
                                ("m", ValueError, "'m' is not name=format"), (5, TypeError, "storage is 5, not a line"),
                                ("m=bf16 m=f32", ValueError, "storage names 'm' twice")):
        with pytest.raises(error, match=words):
            altgrad.optim.AdamW([torch.nn.Parameter(torch.ones(2))], storage=wrong)
    with pytest.raises(ValueError, match="storage names 'm' twice"):
        altgrad.optim.Storage("m=bf16", m="f32")
