"""One step of an optimizer is one program, however mixed its groups are."""

import numpy as np
import pytest
import torch
import twins

import altgrad
from altgrad import _bundle, _library
from altgrad._storage.word import class_of
from altgrad.optim import _build

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


def mixed(count=1):
    """Parameters of three dtypes, in an order of which no set is a stretch; equal lists of them."""
    lists = twins.make([(8,), (5, 3), (4097,), (7,), (0, 3), (9,), (300, 41)], count=count)
    for params in lists:
        for place, p in enumerate(params):
            p.data = p.data.to(DTYPES[place % 3])
    return lists


def groups_of(params):
    return [dict(params=params[:2]), dict(params=params[2:4], maximize=True, lr=0.3),
            dict(params=params[4:], weight_decay=0.5)]


@pytest.fixture
def counts(monkeypatch):
    """How many different programs were asked for and how many tables, each of one plan, were made."""
    seen = {"compiled": 0, "tables": 0}

    def counting(name, function):
        def call(*arguments):
            seen[name] += 1
            return function(*arguments)
        return call

    programs, compile = set(), _build.compile_sets

    def counted(lines, rules, **asked):
        programs.add(repr((lines, rules, asked)))
        seen["compiled"] = len(programs)
        return compile(lines, rules, **asked)

    monkeypatch.setattr(_build, "compile_sets", counted)
    monkeypatch.setattr(_build, "TensorTable", counting("tables", _build.TensorTable))
    return seen


def test_one_plan_for_all_dtypes_and_options(counts):
    params, = mixed()
    optimizer = altgrad.optim.AdamW(groups_of(params), lr=0.1, max_grad_norm=0.5)
    for _ in range(3):
        twins.give_grads(params)
        optimizer.step()
    assert counts == {"compiled": 1, "tables": 1}


def test_a_parameter_of_a_known_kind_compiles_nothing(counts):
    params, = mixed()
    optimizer = altgrad.optim.AdamW(groups_of(params[:-1]), lr=0.1)
    twins.give_grads(params)
    optimizer.step()
    optimizer.add_param_group(dict(params=params[-1:], maximize=False, eps=1e-3))
    optimizer.step()
    other, = mixed()
    twins.give_grads(other)
    altgrad.optim.AdamW(reversed(groups_of(other)), betas=(0.5, 0.5)).step()
    assert counts == {"compiled": 1, "tables": 3}


@pytest.mark.parametrize("name", ["AdamW", "SGD", "RMSprop"])
def test_mixed_groups_step_as_torch(name):
    a, b = mixed(2)
    for q in b:
        q.data = q.data.float()
    kwargs = {} if name == "SGD" else dict(eps=1e-3)
    ours = getattr(altgrad.optim, name)(groups_of(a), lr=0.1, max_grad_norm=0.5, **kwargs)
    theirs = getattr(torch.optim, name)(groups_of(b), lr=0.1, **kwargs)
    for step in range(4):
        twins.give_grads(a, b)
        a[step].grad = b[step].grad = None
        norm = torch.nn.utils.clip_grad_norm_(b, 0.5)
        ours.step()
        theirs.step()
        torch.testing.assert_close(ours.grad_norm, norm)
        for q, p in zip(b, a):
            states = [v for k, v in theirs.state[q].items() if k != "step" and v is not None]
            for held in (q.data, *states):
                held.copy_(held.to(p.dtype))
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q.to(p.dtype))


def sum_of_squares(grad):
    """Of at most one chunk: 256 lanes in order, each product and sum rounded once, then a tree."""
    rows = np.zeros((-(-grad.numel() // 256), 256))
    rows.ravel()[:grad.numel()] = grad.double().numpy()
    lanes = np.zeros(256, np.float32)
    for row in rows:
        lanes = (row * row + lanes).astype(np.float32)
    while len(lanes) > 1:
        lanes = lanes[:len(lanes) // 2] + lanes[len(lanes) // 2:]
    return lanes[0]


@pytest.mark.parametrize("seed", range(5))
def test_the_norm_is_one_reduction_over_all_sets(seed):
    """Within a set over its tensors in order, then over the sets: every bit of it."""
    torch.manual_seed(seed)
    sizes = (9, 4096, 1230, 7, 3000, 255)
    params = [torch.nn.Parameter(torch.zeros(n, dtype=DTYPES[i % 3])) for i, n in enumerate(sizes)]
    twins.give_grads(params)
    optimizer = altgrad.optim.SGD(params, max_grad_norm=1.0)
    optimizer.step()
    total = np.float32(0)
    for dtype in (torch.bfloat16, torch.float16, torch.float32):
        part = np.float32(0)
        for p in params:
            if p.dtype == dtype:
                part += sum_of_squares(p.grad)
        total += part
    assert optimizer.grad_norm.item() == np.sqrt(total).item()


def test_hypers_of_a_group_that_has_tensors_of_two_sets():
    a, b = twins.make([(8,), (5,), (6,)])
    a[1].data, b[1].data = a[1].data.bfloat16(), b[1].data.bfloat16().float()
    split = lambda ps: [dict(params=ps[:2], lr=0.5), dict(params=ps[2:], lr=0.25)]
    ours, theirs = altgrad.optim.SGD(split(a)), torch.optim.SGD(split(b))
    for factor in (1.0, 3.0, 0.0):
        twins.give_grads(a, b)
        for group in (*ours.param_groups, *theirs.param_groups):
            group["lr"] *= factor
        ours.step()
        theirs.step()
        b[1].data.copy_(b[1].data.bfloat16())
    for p, q in zip(a, b):
        torch.testing.assert_close(p, q.to(p.dtype))


def test_a_quiet_step_reads_no_group_again(monkeypatch):
    params, = twins.make([(3,)] * 50, count=1)
    optimizer = altgrad.optim.AdamW([dict(params=[p]) for p in params])
    twins.give_grads(params)
    optimizer.step()
    monkeypatch.setattr(type(optimizer), "_group_rule", None)
    monkeypatch.setattr(type(optimizer), "_take_groups", None)
    optimizer.step()
    assert all(optimizer.state[p]["step"] == 2 for p in params)


def test_too_many_sets_are_refused_and_nothing_is_changed():
    groups = []
    for bits in range(8):
        for dtype in DTYPES:
            for grad in DTYPES:
                param = torch.nn.Parameter(torch.ones(2, dtype=dtype))
                param.grad_dtype = grad
                param.grad = torch.ones(2, dtype=grad)
                groups.append(dict(params=[param], centered=bool(bits & 1), maximize=bool(bits & 2),
                                   momentum=0.5 if bits & 4 else 0.0))
    optimizer = altgrad.optim.RMSprop(groups)
    with pytest.raises(altgrad.Error, match="72 sets.* 64"):
        optimizer.step()
    assert not optimizer.state and all((g["params"][0] == 1).all() for g in groups)


@pytest.mark.parametrize("name", [name for name in altgrad.optim.__all__ if (of := class_of(name)) and not of.matrices])
def test_a_class_knows_the_states_that_its_rule_keeps(name):
    """With each choice of options; what it names to the compiler has to be there."""
    cls = getattr(altgrad.optim, name)
    optimizer = cls([torch.nn.Parameter(torch.ones(2))])
    rule = optimizer._rule_of(optimizer.param_groups[0])
    names = [n for n in cls._options if n != "maximize"]
    for bits in range(2 ** len(names)):
        options = tuple(n for i, n in enumerate(names) if bits >> i & 1)
        part, = _bundle.compile_sets([f"rule={rule.name}{{{','.join(options)}}}"], [rule]).sets
        named = [word for word, _ in optimizer._stored(options, optimizer._words) if cls._only_with.get(word) in (None, *options)]
        assert [s.key for s in part.states if s.block and not s.geometry] == named


def test_a_runtime_of_another_abi_is_refused_in_words(monkeypatch):
    monkeypatch.setattr(_library, "_ABI", "ABI 4")
    with pytest.raises(altgrad.Error, match="is altgrad .*, ABI 5; this package needs ABI 4"):
        _library.library.__wrapped__()


def test_a_group_may_lack_what_the_step_does_not_need():
    a, b = twins.make([(8,)])
    ours, theirs = altgrad.optim.AdamW(a), altgrad.optim.AdamW(b)
    del ours.param_groups[0]["foreach"]
    for lr in (0.1, 0.2, 0.2):
        ours.param_groups[0]["lr"] = theirs.param_groups[0]["lr"] = lr
        twins.give_grads(a, b)
        ours.step()
        theirs.step()
        assert torch.equal(a[0], b[0])


def test_another_number_does_not_ask_for_the_kind_again(monkeypatch):
    params, = twins.make([(3,)] * 4, count=1)
    optimizer = altgrad.optim.AdamW([dict(params=[p]) for p in params], lr=0.1)
    twins.give_grads(params)
    optimizer.step()
    monkeypatch.setattr(type(optimizer), "_group_rule", None)
    before = params[2].detach().clone()
    optimizer.param_groups[2].update(lr=0.0, weight_decay=0.0)
    optimizer.step()
    assert torch.equal(params[2], before) and all(optimizer.state[p]["step"] == 2 for p in params)
    optimizer.param_groups[2]["amsgrad"] = True
    with pytest.raises(TypeError):
        optimizer.step()


def test_a_kind_may_hang_on_any_key():
    class Odd(altgrad.optim.AdamW):
        _options = {**altgrad.optim.AdamW._options,
                    "maximize": lambda g: any(key == "up" and value for key, value in g.items())}

    a, b = twins.make([(8,)])
    ours, theirs = Odd(a), torch.optim.AdamW(b)
    for up in (False, True, True, False):
        ours.param_groups[0]["up"] = theirs.param_groups[0]["maximize"] = up
        twins.give_grads(a, b)
        ours.step()
        theirs.step()
        assert torch.equal(a[0], b[0])
