"""Parameters that kernels cannot step are stepped by torch's class, in the same optimizer: one norm, flag and state_dict."""

import copy
import pickle
import warnings

import pytest
import torch
import twins
from torch.optim.optimizer import register_optimizer_step_post_hook

import altgrad

NAMES = list(twins.CONFIGS)
SHAPES = [(8,), (5, 3), (4097,), (7,), (0, 3), (2, 3)]
DTYPES = [torch.float64, torch.float32, torch.complex64, torch.complex128, torch.float32]
pytestmark = [pytest.mark.filterwarnings("ignore:altgrad.optim:UserWarning"),
              pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")]


def mixed(count=2, dtypes=DTYPES):
    """Equal lists of parameters, of which some are ours and some torch's."""
    values = [torch.randn(s, dtype=dtypes[i % len(dtypes)]) for i, s in enumerate(SHAPES)]
    return [[torch.nn.Parameter(v.clone()) for v in values] for _ in range(count)]


def give_grads(*lists, scale=1.0):
    for equals in zip(*lists):
        grad = scale * torch.randn(equals[0].shape, dtype=equals[0].dtype)
        for param in equals:
            param.grad = grad.clone()


def same(a, b, ours=None, theirs=None):
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q)
        for key, value in (theirs.state[q] if theirs else {}).items():
            torch.testing.assert_close(ours.state[p][key], value)


def sparse_grad(param, seed):
    """An uncoalesced gradient that names one row twice."""
    torch.manual_seed(seed)
    rows = torch.tensor([[0, 3, 0]])
    return torch.sparse_coo_tensor(rows, torch.randn(3, param.shape[1]).to(param.dtype), param.shape,
                                   check_invariants=True)


@pytest.mark.parametrize("name, kwargs", twins.CASES)
def test_float64_and_complex_step_beside_ours(name, kwargs):
    a, b = mixed()
    ours, theirs = getattr(altgrad.optim, name)(a, **kwargs), getattr(torch.optim, name)(b, **kwargs)
    for step in range(4):
        give_grads(a, b)
        a[step].grad = b[step].grad = None
        ours.step()
        theirs.step()
    same(a, b, ours, theirs)
    assert [ours.state[p].keys() for p in a] == [theirs.state[q].keys() for q in b]
    assert all(torch.equal(p, q) for p, q in zip(a, b) if p.dtype != torch.float32)


@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
@pytest.mark.parametrize("max_norm", [None, 0.5])
def test_sparse_gradients_beside_dense_ones(name, max_norm):
    a, b = twins.make([(6, 4), (5,)])
    ours = getattr(altgrad.optim, name)(a, lr=0.1, max_grad_norm=max_norm)
    theirs = getattr(torch.optim, name)(b, lr=0.1)
    for step in range(5):
        twins.give_grads(a, b)
        if step != 3:
            a[0].grad, kept, b[0].grad = (sparse_grad(a[0], step) for _ in range(3))
        if max_norm:
            dense = [b[0].grad.to_dense(), b[1].grad]
            norm = torch.nn.utils.get_total_norm(dense)
            for q in b:
                q.grad = q.grad * torch.clamp(max_norm / (norm + 1e-6), max=1.0)
        ours.step()
        theirs.step()
        if max_norm:
            torch.testing.assert_close(ours.grad_norm, norm)
        if step != 3:
            assert torch.equal(a[0].grad.to_dense(), kept.to_dense())
    same(a, b, ours, theirs)


@pytest.mark.parametrize("name", ["AdamW", "SGD", "RMSprop"])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
@pytest.mark.parametrize("dtypes", [DTYPES, [torch.float64]])
def test_one_norm(name, max_norm, dtypes):
    a, b = mixed(dtypes=dtypes)
    ours = getattr(altgrad.optim, name)(a, lr=0.1, max_grad_norm=max_norm)
    theirs = getattr(torch.optim, name)(b, lr=0.1)
    for _ in range(4):
        give_grads(a, b)
        given = [(p.grad, p.grad.clone()) for p in a]
        norm = torch.nn.utils.clip_grad_norm_(b, max_norm)
        ours.step()
        theirs.step()
        torch.testing.assert_close(ours.grad_norm, norm.float())
        assert all(p.grad is g and torch.equal(g, kept) for p, (g, kept) in zip(a, given))
    same(a, b)
    if len(dtypes) == 1:
        assert all(map(torch.equal, a, b))


@pytest.mark.parametrize("name", ["AdamW", "SGD", "Adagrad"])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_one_scale_and_one_flag(name, clip):
    a, b = mixed(dtypes=[torch.float64, torch.float32])
    ours = getattr(altgrad.optim, name)(a, lr=0.1, fused_amp=True, max_grad_norm=clip)
    theirs = getattr(torch.optim, name)(b, lr=0.1)
    for step in range(4):
        give_grads(a, b)
        for p in a:
            p.grad.mul_(64.0)
        given = [(p.grad, p.grad.clone()) for p in a]
        ours.grad_scale, ours.found_inf = torch.tensor(64.0), torch.tensor(float(step in (0, 2)))
        ours.step()
        assert all(p.grad is g and torch.equal(g, kept) for p, (g, kept) in zip(a, given))
        if step not in (0, 2):
            if clip:
                torch.nn.utils.clip_grad_norm_(b, clip)
            theirs.step()
        same(a, b)


@pytest.mark.parametrize("fused_amp", [False, True])
def test_grad_scaler_in_float64(fused_amp):
    a, b = mixed(dtypes=[torch.float64, torch.float32])
    optimizers = altgrad.optim.AdamW(a, fused_amp=fused_amp), torch.optim.AdamW(b)
    scalers = [torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=2) for _ in "ab"]
    for step in range(5):
        for params, scaler, optimizer in zip((a, b), scalers, optimizers):
            torch.manual_seed(step)
            optimizer.zero_grad()
            scaler.scale(sum((p * torch.randn(p.shape)).sum() for p in params)).backward()
            if step == 2:
                params[0].grad[1] = float("inf")
            scaler.step(optimizer)
            scaler.update()
        assert scalers[0].get_scale() == scalers[1].get_scale()
    same(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_the_derivative_of_a_step(name):
    """With differentiable=True the new parameter is a function of the old one and its gradient."""
    kwargs = dict(lr=0.1, differentiable=True)

    def stepped(library, param, grad, dtype):
        param = param.to(dtype).clone()
        param.grad = grad.to(dtype)
        getattr(library.optim, name)([param], **kwargs).step()
        return param

    for dtype in (torch.float64, torch.float32):
        w, g = torch.randn(2, 4, dtype=torch.float64, requires_grad=True)
        w, g = w.detach().requires_grad_(), g.detach().requires_grad_()
        got, expected = (torch.autograd.grad(stepped(library, w, g, dtype).sum(), (w, g))
                         for library in (altgrad, torch))
        assert all(map(torch.equal, got, expected)) and any(d.any() for d in got)
    torch.autograd.gradcheck(lambda w, g: stepped(altgrad, w, g, torch.float64), (w, g))


def test_a_group_becomes_differentiable_and_back():
    a, b = twins.make([(8,), (5,)])
    split = lambda ps: [dict(params=ps[:1]), dict(params=ps[1:])]
    ours, theirs = altgrad.optim.AdamW(split(a), lr=0.1), torch.optim.AdamW(split(b), lr=0.1)
    for flag in (False, True, True, False):
        ours.param_groups[1]["differentiable"] = flag
        twins.give_grads(a, b)
        ours.step()
        theirs.step()
        assert not flag or torch.equal(a[1].grad, b[1].grad)
    same(a, b, ours, theirs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
def test_duplicate_and_tied_parameters(name):
    """The same parameter twice, and two that share memory: one after the other, as in torch."""
    def make(library):
        torch.manual_seed(3)
        whole, alone = torch.randn(12), torch.nn.Parameter(torch.randn(4))
        tied = [torch.nn.Parameter(torch.ones(8)) for _ in "ab"]
        tied[0].data, tied[1].data = whole[:8], whole[4:]
        twice = torch.nn.Parameter(torch.randn(3))
        params = [twice, tied[0], alone, twice, tied[1]]
        optimizer = getattr(library.optim, name)(params, lr=0.1)
        for _ in range(3):
            for p in (twice, *tied, alone):
                p.grad = torch.randn(p.shape)
            optimizer.step()
        return params, optimizer

    (a, ours), (b, theirs) = make(altgrad), make(torch)
    same(a, b, ours, theirs)
    assert torch.equal(a[0], b[0]) and torch.equal(a[1], b[1])


def test_one_warning_names_the_first():
    wide = torch.nn.ModuleDict({"ours": torch.nn.Linear(2, 2), "wide": torch.nn.Linear(2, 2).double()})
    for p in wide.parameters():
        p.grad = torch.ones_like(p)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        optimizer = altgrad.optim.AdamW(wide.named_parameters())
        assert not seen
        optimizer.step()
        wide["wide"].bias.grad = None
        optimizer.step()
        unnamed = altgrad.optim.SGD([dict(params=wide["ours"].parameters()),
                                     dict(params=wide["wide"].parameters())])
        unnamed.step()
    first, second = [str(w.message) for w in seen]
    assert first.startswith("altgrad.optim.AdamW: 'wide.weight' is torch.float64, so torch.optim.AdamW updates it, and ")
    assert "parameter 0 of group 1 is torch.float64, so torch.optim.SGD updates it" in second


@pytest.mark.parametrize("name", ["AdamW", "SGD"])
def test_fallback_false_raises(name):
    make = lambda *a, **k: getattr(altgrad.optim, name)(*a, fallback=False, **k)
    wide, plain = (torch.nn.Parameter(torch.ones(3, dtype=d)) for d in (torch.float64, torch.float32))
    with pytest.raises(TypeError, match=f"{name} does not support torch.float64 parameters"):
        make([wide])
    with pytest.raises(RuntimeError, match="does not support differentiable=True"):
        make([plain], differentiable=True)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        optimizer = make([plain, plain])
    plain.grad = torch.ones(3)
    with pytest.raises(RuntimeError, match="two parameters share memory"):
        optimizer.step()


@pytest.mark.parametrize("name", ["Lion", "LAMB", "ADOPT", "AdEMAMix"])
def test_without_a_class_of_torch_there_is_no_fallback(name):
    cls = getattr(altgrad.optim, name)
    with pytest.raises(TypeError, match=f"{name} does not support torch.float64 parameters"):
        cls([torch.nn.Parameter(torch.ones(3, dtype=torch.float64))])
    with pytest.raises(TypeError, match="unexpected keyword argument 'fallback'"):
        cls([torch.nn.Parameter(torch.ones(3))], fallback=True)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))])
def test_copies_and_checkpoints(again):
    a, b = mixed()
    ours, theirs = altgrad.optim.AdamW(a, max_grad_norm=1.0), torch.optim.AdamW(b)
    give_grads(a, b)
    ours.step()
    torch.nn.utils.clip_grad_norm_(b, 1.0)
    theirs.step()
    theirs.load_state_dict(copy.deepcopy(ours.state_dict()))
    copied = again(ours)
    params = copied.param_groups[0]["params"]
    copied.load_state_dict(copy.deepcopy(theirs.state_dict()))
    give_grads(params, b)
    copied.step()
    torch.nn.utils.clip_grad_norm_(b, 1.0)
    theirs.step()
    same(params, b, copied, theirs)


def test_states_that_are_loaded_get_the_dtype_that_torch_gives():
    """float64 values into float32 parameters and the other way round."""
    a, b = (twins.make([(8,)], count=1)[0] for _ in "ab")
    a[0].data = a[0].data.double()
    for params, others in ((a, b), (b, a)):
        optimizers = [altgrad.optim.AdamW(ps) for ps in (params, others)]
        for optimizer, ps in zip(optimizers, (params, others)):
            ps[0].grad = torch.ones_like(ps[0])
            optimizer.step()
        optimizers[0].load_state_dict(optimizers[1].state_dict())
        assert optimizers[0].state[params[0]]["exp_avg"].dtype == params[0].dtype
        optimizers[0].step()


def test_nothing_is_changed_when_torch_refuses():
    """Adagrad refuses decay of sparse gradients in the middle of its step."""
    a = twins.make([(5,), (6, 4)], count=1)[0]
    for max_norm in (None, 1.0):
        optimizer = altgrad.optim.Adagrad(a, weight_decay=0.1, max_grad_norm=max_norm)
        twins.give_grads(a)
        a[1].grad = sparse_grad(a[1], 0)
        before, grads = [p.detach().clone() for p in a], [p.grad for p in a]
        with pytest.raises(RuntimeError, match="weight_decay option is not compatible with sparse"):
            optimizer.step()
        assert all(map(torch.equal, before, a)) and all(p.grad is g for p, g in zip(a, grads))
        assert optimizer.state[a[0]]["step"] == 0


@pytest.mark.parametrize("flags", [dict(foreach=True), dict(fused=True),
                                   dict(fused=True, amsgrad=True)])
def test_foreach_and_fused(flags):
    a, b = mixed()
    ours = altgrad.optim.AdamW(a, **flags)
    theirs = torch.optim.AdamW(b, amsgrad=flags.get("amsgrad", False))
    for _ in range(3):
        give_grads(a, b)
        ours.step()
        theirs.step()
    same(a, b)


def test_global_hooks_run_once():
    a, = mixed(count=1)
    give_grads(a)
    seen = []
    hook = register_optimizer_step_post_hook(lambda optimizer, *_: seen.append(optimizer))
    try:
        optimizer = altgrad.optim.AdamW(a)
        optimizer.step()
    finally:
        hook.remove()
    assert seen == [optimizer]


def test_a_momentum_that_a_skip_made_is_no_momentum_yet():
    a, b = twins.make([(6, 4)])
    kwargs = dict(lr=0.1, momentum=0.9, dampening=0.5)
    ours, theirs = altgrad.optim.SGD(a, fused_amp=True, **kwargs), torch.optim.SGD(b, **kwargs)
    twins.give_grads(a, b)
    ours.found_inf = torch.tensor(1.0)
    ours.step()
    ours.found_inf = None
    for differentiable in (True, False, True):
        ours.param_groups[0]["differentiable"] = differentiable
        ours.step()
        theirs.step()
        same(a, b)


@pytest.mark.parametrize("name", ["Adagrad", "SGD"])
def test_a_group_that_comes_later(name):
    a, b = twins.make([(6,), (6, 4)])
    ours = getattr(altgrad.optim, name)(a[:1], lr=0.1)
    theirs = getattr(torch.optim, name)(b, lr=0.1)
    a[1].data, b[1].data = a[1].data.double(), b[1].data.double()
    if name == "Adagrad":
        theirs.state[b[1]]["sum"] = theirs.state[b[1]]["sum"].double()
    ours.add_param_group(dict(params=a[1:]))
    for _ in range(2):
        give_grads(a, b)
        ours.step()
        theirs.step()
    same(a, b)


def test_one_optimizer_per_parameter_of_torchs_helper():
    from torch.distributed.optim import _apply_optimizer_in_backward
    models = [torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2).double()) for _ in "ab"]
    models[1].load_state_dict(models[0].state_dict())
    for library, model in zip((altgrad, torch), models):
        _apply_optimizer_in_backward(library.optim.SGD, model.parameters(), dict(lr=0.1))
        _apply_optimizer_in_backward(library.optim.Adam, [model[0].weight], dict(lr=0.1))
    for _ in range(3):
        x = torch.randn(5, 4)
        for model in models:
            model[1](model[0](x).double()).sum().backward()
    same(models[0].parameters(), models[1].parameters())
    assert all(p.grad is None for p in models[0].parameters())


@pytest.mark.parametrize("name", NAMES)
def test_counts_have_torchs_dtype(name):
    torch.set_default_dtype(torch.float64)
    try:
        counts = []
        for library in (altgrad, torch):
            param = torch.nn.Parameter(torch.ones(3))
            param.grad = torch.ones(3)
            optimizer = getattr(library.optim, name)([param])
            optimizer.step()
            counts.append(optimizer.state[param].get("step"))
    finally:
        torch.set_default_dtype(torch.float32)
    assert name == "SGD" or counts[0].dtype == counts[1].dtype == torch.float64
