"""A word of storage that no compiler takes is refused by the constructor, however small the tensors are."""

import pytest
import torch

import altgrad


@pytest.mark.parametrize("storage, words", [
    ("m=ocp.e4m3fn:100", "m=ocp.e4m3fn:100, with blocks of 100 elements; expected a power of two from 16 to 2048"),
    ("m=ocp.e4m3fn:4096", "expected a power of two from 16 to 2048"), ("m=ocp.e4m3:128", "'ocp.e4m3' is no format"), ("v=bf17", "'bf17' is no format"),
    ("m=int8:32:bf16", "scales are in f32, f16"), ("copy=ocp.e4m3fn:100", "blocks of 100 elements"),
    ("param=f16 master=f16", r"storage says master=f16; a master is f32, or bf16\+i16 or bf16\+i8"), ("master=bf16", "a master is f32")])
def test_it_is_refused(storage, words):
    with pytest.raises(ValueError, match=words):
        altgrad.optim.AdamW([torch.zeros(4, requires_grad=True)], storage=storage)


@pytest.mark.parametrize("make, storage, words, column", [
    (altgrad.optim.AdamW, "m=bf16  n=bf16", "'n=bf16' names no stream of altgrad.optim.AdamW; there are param, master, "
     "rungs, grad, copy, states, step, m, v, vmax; vmax is stored with amsgrad", 7),
    (altgrad.optim.SGD, dict(grad="f32", buff="bf16"), "'buff=bf16' names no stream of altgrad.optim.SGD; did you mean buf? "
     "There are param, ", 9),
    (altgrad.optim.AdamW8bit, "m=f32 rm=f32", "'rm=f32' names no stream of altgrad.optim.AdamW8bit; ", 6),
    (altgrad.optim.FromRule, "v=bf16 g=bf16", "'g=bf16' names no stream of rule @adamw; write grad=bf16. There are param, ", 7)])
def test_a_stream_that_there_is_not(make, storage, words, column):
    made = "adamw" if make is altgrad.optim.FromRule else [torch.zeros(4, requires_grad=True)]
    with pytest.raises(ValueError) as refused:
        make(made, storage=storage)
    said, line, mark = str(refused.value).split("\n")
    assert said.startswith(f"storage {words}") and mark == " " * column + "^"
    assert line[column:].startswith(words[1:].partition("=")[0])


@pytest.mark.parametrize("make, key, name", [(altgrad.optim.AdamW, "exp_avg", "m"), (altgrad.optim.SGD, "momentum_buffer", "buf"),
                                             (altgrad.optim.Muon, "momentum_buffer", "buf")])
def test_a_state_has_its_key_and_its_name(make, key, name):
    kinds = []
    for storage in (f"{key}=bf16", f"{name}=bf16", {key: "bf16"}):
        weight = torch.nn.Parameter(torch.ones(8, 8))
        weight.grad = torch.ones(8, 8)
        optimizer = make([weight], lr=0.1, storage=storage, **{"momentum": 0.9} if make is altgrad.optim.SGD else {})
        optimizer.step()
        said = optimizer.state_dict()["param_groups"][0]["storage"]
        assert f"{key}=bf16" in said.split()  # what a file says can be given again
        kinds.append((said, optimizer.state[weight][key].dtype))
    assert kinds == kinds[:1] * 3 and kinds[0][1] == torch.bfloat16
    with pytest.raises(ValueError, match=f"storage names state '{key}' twice, as '{name}', too; leave one out"):
        make([weight], storage=f"{key}=bf16 {name}=f32")


def test_a_group_and_a_file_have_either_spelling():
    def made(storage):
        weight = torch.nn.Parameter(torch.ones(4096))
        weight.grad = torch.ones(4096)
        optimizer = altgrad.optim.AdamW([weight], storage=storage)
        optimizer.step()
        return optimizer

    one, other = made("m=bnb8:256"), made("exp_avg=bnb8:256")
    for optimizer in (one, other):
        for line in ("m=bnb8:256", "exp_avg=bnb8:256"):
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))], "storage": line})
            assert optimizer.param_groups[-1]["storage"] == "exp_avg=bnb8:256"
    one.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))], "storage": "m=bf16"})
    assert one.param_groups[-1]["storage"] == "exp_avg=bf16"
    saved = made("m=bnb8:256").state_dict()
    saved["param_groups"][0]["storage"] = "m=bnb8:256"
    loaded = made("exp_avg=bnb8:256")
    loaded.load_state_dict(saved)
    assert loaded.state_dict()["param_groups"][0]["storage"] == "exp_avg=bnb8:256"
    assert altgrad.transcode(saved, to="torch")["state"][0]["exp_avg"].dtype == torch.float32


def test_a_negative_view_beside_an_fp8_copy():
    weight = torch.nn.Parameter(torch._neg_view(torch.randn(8, 8)))
    optimizer = altgrad.optim.AdamW([weight], storage="copy=ocp.e4m3fn")
    weight.grad = torch.randn(8, 8)
    optimizer.step()
    expected = weight.detach().resolve_neg().to(torch.float8_e4m3fn)
    assert torch.equal(optimizer.state[weight]["copy"].view(torch.uint8), expected.view(torch.uint8))


@pytest.mark.parametrize("make", [lambda params: altgrad.optim.AdamW(params, storage="max_exp_avg_sq=bf16"),
                                  lambda params: altgrad.optim.AdamW([dict(params=params, storage="vmax=bf16")], amsgrad=False),
                                  lambda params: altgrad.optim.SGD(params, storage="momentum_buffer=bf16")])
def test_a_state_that_no_group_has_is_refused_with_the_argument_that_makes_it(make):
    with pytest.raises(ValueError, match="is for a state that is not there: .* is stored with (amsgrad|momentum). Set it, or leave"):
        make([torch.nn.Parameter(torch.ones(4))])


def test_a_storage_line_may_name_a_state_that_one_group_of_several_has():
    params = [torch.nn.Parameter(torch.ones(4)) for _ in range(2)]
    optimizer = altgrad.optim.AdamW([dict(params=params[:1], amsgrad=True), dict(params=params[1:])], storage="max_exp_avg_sq=bf16")
    for param in params:
        param.grad = torch.ones(4)
    optimizer.step()
    assert optimizer.state[params[0]]["max_exp_avg_sq"].dtype == torch.bfloat16 and "max_exp_avg_sq" not in optimizer.state[params[1]]
