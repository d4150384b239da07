"""Tensors of other devices, modes and kinds: where they matter they are refused early, else ignored."""

import pytest
import torch
import twins

import altgrad


def test_the_default_device_is_not_ours():
    a, b = twins.make([(4, 6), (5,)])
    a[0].data, b[0].data = a[0].data.t()[::2], b[0].data.t()[::2]
    ours, theirs = [], torch.optim.AdamW(b, lr=0.1)
    torch.set_default_device("meta")
    try:
        ours = altgrad.optim.AdamW(a, lr=0.1, max_grad_norm=1e9)
        for step in range(3):
            with torch.device("cpu"):
                twins.give_grads(a, b)
                theirs.step()
            ours.step()
            ours.load_state_dict(ours.state_dict())
        norm = ours.grad_norm
    finally:
        torch.set_default_device(None)
    assert norm.device.type == "cpu" and norm > 0
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
        assert {v.device.type for v in ours.state[p].values()} == {"cpu"}


def test_statistics_are_not_on_the_default_device():
    given = [torch.nn.Parameter(torch.randn(6)), torch.nn.Parameter(torch.randn(6).double())]
    scaler = altgrad.amp.GradScaler("cpu", enabled=False)
    torch.set_default_device("meta")
    try:
        ours = altgrad.optim.SGD(given, lr=0.1, statistics=True, fused_amp=True)
        record = altgrad.optim.Record(ours, scaler)
        for flag in (0.0, 1.0):
            for param in given:
                param.grad = torch.ones_like(param)
            ours.grad_scale, ours.found_inf = None, torch.tensor(flag, device="cpu")
            ours.step()
            record.add()
        given[0].grad = None
        del ours.grad_scale, ours.found_inf
        ours.step()
        said = record.table()
    finally:
        torch.set_default_device(None)
    assert said["loss_scale"] == [1.0, 1.0] and said["skipped"] == [0.0, 1.0]
    assert ours.statistics().steps.device.type == "cpu" and ours.statistics().steps == 3


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float64, torch.complex64])
def test_frozen_parameters_may_be_of_any_dtype(dtype):
    frozen = torch.nn.Parameter(torch.ones(3).to(dtype), requires_grad=False)
    param = torch.nn.Parameter(torch.ones(3))
    param.grad = torch.ones(3)
    optimizer = altgrad.optim.AdamW([frozen, param])
    optimizer.add_param_group(dict(params=[frozen.detach().clone()]))
    optimizer.step()
    assert param[0] < 1 and torch.equal(frozen, torch.ones(3).to(dtype))


def test_inference_tensors():
    with torch.inference_mode():
        params, = twins.make([(3,), (5,)], count=1)
        twins.give_grads(params)
        optimizer = altgrad.optim.AdamW(params, lr=0.1)
        optimizer.step()
    before = [p.clone() for p in params]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside Inference"):
        optimizer.step()
    assert all(map(torch.equal, before, params))
    with torch.inference_mode():
        optimizer.step()
    assert not torch.equal(before[0], params[0])


@pytest.mark.parametrize("name", ["AdamW", "Adam", "RMSprop"])
@pytest.mark.parametrize("late", [False, True])
def test_capturable_on_the_cpu_raises_as_in_torch(name, late):
    for library in (torch, altgrad):
        params, = twins.make([(3,)], count=1)
        twins.give_grads(params)
        optimizer = getattr(library.optim, name)(params, capturable=not late)
        if late:
            optimizer.step()
            optimizer.param_groups[0]["capturable"] = True
        with pytest.raises(AssertionError, match="If capturable=True, params and state_steps must"):
            optimizer.step()


@pytest.mark.parametrize("fused, words", [
    (None, "AdamW: a parameter is on the meta device"),
    (True, "`fused=True` requires all the params to be floating point Tensors of supported dev")])
def test_meta_parameters(fused, words):
    param = torch.nn.Parameter(torch.ones(3, device="meta"))
    param.grad = torch.ones_like(param)
    with pytest.raises(RuntimeError, match=words):
        altgrad.optim.AdamW([param], fused=fused).step()


def test_wrappers_are_refused_in_the_constructor():
    from torch.testing._internal.two_tensor import TwoTensor
    wrapped = torch.nn.Parameter(TwoTensor(torch.ones(3), torch.ones(3)))
    good = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(TypeError, match="AdamW does not support TwoTensor parameters"):
        altgrad.optim.AdamW([good, wrapped])
    optimizer = altgrad.optim.AdamW([good])
    with pytest.raises(TypeError, match="AdamW does not support TwoTensor parameters"):
        optimizer.add_param_group(dict(params=[wrapped]))
    assert len(optimizer.param_groups) == 1
