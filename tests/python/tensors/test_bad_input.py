"""Awkward tensors get the right result or one clear exception before anything is changed."""

import copy
from functools import partial

import pytest
import torch
import twins

import altgrad

ALL = ["Adam", "AdamW", "SGD", "Adagrad", "RMSprop", "Lion", "LAMB", "ADOPT", "AdEMAMix"]


def refused(params, error, match, make=altgrad.optim.AdamW):
    """One bad parameter among good ones: `step` raises, no parameter and no state changes."""
    good = torch.nn.Parameter(torch.ones(3))
    good.grad = torch.ones(3)
    with pytest.raises(error, match=match):
        optimizer = make([good, *params])
        kept = {key: len(held) for key, held in optimizer.state.items()}
        optimizer.step()
    assert torch.equal(good, torch.ones(3))
    assert {key: len(held) for key, held in optimizer.state.items()} == kept


def with_grad(tensor, grad=None):
    param = torch.nn.Parameter(tensor)
    param.grad = torch.ones_like(param) if grad is None else grad
    return param


def without_torch(name):
    """The class where torch has none of its name, else without the help of torch's."""
    cls = getattr(altgrad.optim, name)
    return partial(cls, fallback=False) if hasattr(torch.optim, name) else cls


def sparse():
    with torch.sparse.check_sparse_tensor_invariants():
        return torch.ones(3).to_sparse()


@pytest.mark.parametrize("dtype, error, words", [(torch.float64, TypeError, "torch.float64 parameters"),
                                                 (torch.complex64, RuntimeError, "complex parameters")])
def test_dtypes_that_kernels_lack(dtype, error, words):
    with pytest.raises(error, match=f"AdamW does not support {words}"):
        altgrad.optim.AdamW([torch.nn.Parameter(torch.ones(3, dtype=dtype))], fallback=False)
    param = torch.nn.Parameter(torch.ones(3))
    optimizer = altgrad.optim.AdamW([param], fallback=False)
    param.data = param.data.to(dtype)
    param.grad = torch.ones(3, dtype=dtype)
    with pytest.raises(error, match=f"does not support {words}"):
        optimizer.step()
    with pytest.raises(error, match=f"does not support {words}"):
        optimizer.add_param_group(dict(params=[param.new_ones(2).requires_grad_()]))
    assert len(optimizer.param_groups) == 1


@pytest.mark.parametrize("name", ALL)
def test_sparse_gradients(name):
    refused([with_grad(torch.ones(3), sparse())], RuntimeError,
            f"^{name} does not support sparse gradients", without_torch(name))


def test_sparse_gradient_after_a_dense_one():
    param = with_grad(torch.ones(3))
    optimizer = altgrad.optim.SGD([param], fallback=False)
    optimizer.step()
    param.grad = sparse()
    with pytest.raises(RuntimeError, match="SGD does not support sparse gradients"):
        optimizer.step()


def test_meta_and_overlap():
    refused([with_grad(torch.ones(3, device="meta"))], RuntimeError, "is on the meta device")
    refused([with_grad(torch.ones(1).expand(4))], RuntimeError, "several elements at one address")
    refused([with_grad(torch.ones(9).as_strided((3, 3), (2, 1)))], RuntimeError, "several elements at one address")
    whole = torch.ones(8)
    refused([with_grad(whole[:5]), with_grad(whole[4:])], RuntimeError,
            "two parameters share memory", without_torch("AdamW"))
    for dtype in (torch.float64, torch.complex64):
        refused([with_grad(torch.ones(3, device="meta", dtype=dtype))], RuntimeError, "the meta dev")
        refused([with_grad(torch.ones(1, dtype=dtype).expand(4))], RuntimeError, "several elements at one address")


def test_differentiable_is_refused_in_one_line():
    with pytest.raises(RuntimeError, match="^altgrad.optim.AdamW does not support differentiable"):
        without_torch("AdamW")([torch.ones(3, requires_grad=True)], differentiable=True)
    optimizer = without_torch("AdamW")([with_grad(torch.ones(3))])
    optimizer.param_groups[0]["differentiable"] = True
    with pytest.raises(RuntimeError, match="does not support differentiable=True"):
        optimizer.step()


@pytest.mark.parametrize("name", ALL)
def test_layouts(name):
    """Every other element, transposed, channels_last, and gradients laid out another way."""
    wide = torch.randn(4, 6, 2)
    views = [wide[..., 0], torch.randn(6, 4).t(), torch.randn(2, 3, 4, 5),
             torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(3, 1, 4)]
    a = [torch.nn.Parameter(v) for v in views]
    b = [torch.nn.Parameter(v.detach().clone(memory_format=torch.contiguous_format)) for v in views]
    aside = wide[..., 1].clone()
    ours, theirs = (getattr(altgrad.optim, name)(ps) for ps in (a, b))
    for _ in range(3):
        twins.give_grads(b)
        for place, (p, q) in enumerate(zip(a, b)):
            p.grad = q.grad.clone()
            if place == 2:
                p.grad = q.grad.to(memory_format=torch.channels_last)
            elif place == 4:
                p.grad = q.grad.as_strided(q.shape, (4, 77, 1))
        ours.step()
        theirs.step()
    assert torch.equal(wide[..., 1], aside)
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
        for key, value in theirs.state[q].items():
            torch.testing.assert_close(ours.state[p][key], value)


def test_states_loaded_in_another_memory_order():
    a = torch.nn.Parameter(torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last))
    b = torch.nn.Parameter(a.detach().contiguous())
    ours, theirs = altgrad.optim.AdamW([a]), altgrad.optim.AdamW([b])
    for _ in range(2):
        twins.give_grads([a], [b])
        ours.step()
        theirs.step()
    ours.load_state_dict(copy.deepcopy(theirs.state_dict()))
    twins.give_grads([a], [b])
    ours.step()
    theirs.step()
    torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", ALL)
def test_gradient_expanded_zero_elements_and_none(name):
    full, empty, idle = (torch.nn.Parameter(torch.ones(s)) for s in ((4,), (0, 3), (2,)))
    full.grad = torch.ones(1).expand(4)
    empty.grad = torch.zeros(0, 3)
    optimizer = getattr(altgrad.optim, name)([full, empty, idle])
    optimizer.step()
    optimizer.step()
    assert (full < 1).all() and (full == full[0]).all() and torch.equal(idle, torch.ones(2))
    assert idle not in optimizer.state or name == "Adagrad"
    assert torch.equal(full.grad, torch.ones(4))


def test_misaligned_views():
    flat, other = torch.randn(2, 5000).unbind()
    a = [torch.nn.Parameter(flat[1:4100]), torch.nn.Parameter(flat[4101:4110])]
    b = [torch.nn.Parameter(p.detach().clone()) for p in a]
    optimizers = altgrad.optim.AdamW(a), altgrad.optim.AdamW(b)
    for _ in range(3):
        twins.give_grads(a, b)
        for optimizer in optimizers:
            optimizer.step()
    assert all(map(torch.equal, a, b))
    assert torch.equal(a[1].detach(), flat[4101:4110])


@pytest.mark.parametrize("shape", [(1,), (3,)])
def test_negative_views(shape):
    """The imaginary part of a conjugate is stored with the other sign."""
    make = lambda: torch.randn(shape, dtype=torch.complex64).conj().imag
    param, grad = torch.nn.Parameter(make()), make()
    assert param.is_neg() and grad.is_neg()
    twin = with_grad(param.detach().clone(), grad.clone())
    param.grad = grad
    for p in (param, twin):
        optimizer = altgrad.optim.SGD([p], lr=1.0)
        optimizer.step()
        optimizer.step()
    torch.testing.assert_close(param, twin)


def test_gradient_of_another_dtype():
    """p.grad_dtype allows it, torch's AdamW refuses it; here it is another table."""
    a, b = twins.make([(8,), (5,)])
    ours, theirs = altgrad.optim.AdamW(a), torch.optim.AdamW(b)
    twins.give_grads(a, b)
    a[0].grad = None
    a[0].grad_dtype = torch.bfloat16
    a[0].grad = b[0].grad.to(torch.bfloat16)
    b[0].grad = a[0].grad.float()
    ours.step()
    theirs.step()
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)


def test_unknown_arguments():
    param = torch.nn.Parameter(torch.ones(3))
    with pytest.raises(TypeError, match="unexpected keyword argument 'momentum'"):
        altgrad.optim.AdamW([param], momentum=0.9)
    with pytest.raises(ValueError, match="Invalid learning rate: -1"):
        altgrad.optim.Lion([param], lr=-1)
    with pytest.raises(ValueError, match="Invalid beta parameter at index 2: 1.0"):
        altgrad.optim.AdEMAMix([param], betas=(0.9, 0.9, 1.0))
    with pytest.raises(ValueError, match="empty parameter list"):
        altgrad.optim.AdamW([])
