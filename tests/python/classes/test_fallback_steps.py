"""What is done about the parameters of torch's part in a step in which nothing has changed, and where its warning points."""

import copy
import linecache
import pickle
import warnings

import pytest
import torch
import torch.distributed as dist
import twins

import altgrad
from altgrad.optim import _optimizer

WIDE, PLAIN = torch.float64, torch.float32


def two(dtypes):
    """(ours, torch's, their parameters): AdamW with two groups of different rates."""
    made, lists = [], twins.make([(4,), (3,), (4,), (5,)])
    for library, params in zip((altgrad, torch), lists):
        for p, dtype in zip(params, dtypes):
            p.data = p.data.to(dtype)
        groups = [dict(params=params[:2], lr=0.1), dict(params=params[2:], lr=0.5)]
        made.append(library.optim.AdamW(groups))
    return *made, lists


def step(ours, theirs, lists, idle=()):
    for place, equals in enumerate(zip(*lists)):
        grad = None if place in idle else torch.randn(equals[0].shape, dtype=equals[0].dtype)
        for p in equals:
            p.grad = None if grad is None else grad.clone()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours.step()
    theirs.step()
    for p, q in zip(*lists):
        torch.testing.assert_close(p, q)


def test_an_optimizer_of_torchs_part_alone_is_sorted_once(monkeypatch):
    ours, theirs, lists = two([WIDE] * 4)
    sorted_out = []
    whole = _optimizer.find_fallback
    monkeypatch.setattr(_optimizer, "find_fallback", lambda o: sorted_out.append(o) or whole(o))
    for turn in range(6):
        for optimizer in (ours, theirs):
            optimizer.param_groups[0]["lr"] = 0.1 * turn
        step(ours, theirs, lists, idle=(turn - 1,))
    assert len(sorted_out) == 1
    for optimizer, params in zip((ours, theirs), lists):
        optimizer.param_groups[1]["maximize"] = True
        params[3].data = params[3].data.float()
        optimizer.state[params[3]] = {}
    step(ours, theirs, lists)
    assert len(sorted_out) == 2


def test_an_optimizer_without_gradients_is_looked_through_once(monkeypatch):
    ours, theirs, lists = two([WIDE, PLAIN] * 2)
    builds = []
    whole = _optimizer.build
    monkeypatch.setattr(_optimizer, "build", lambda *a: builds.append(a) or whole(*a))
    for _ in range(4):
        step(ours, theirs, lists, idle=range(4))
    assert len(builds) == 1
    step(ours, theirs, lists)
    assert len(builds) == 2


@pytest.mark.parametrize("dtypes", [[WIDE] * 4, [WIDE, PLAIN, WIDE, PLAIN], [PLAIN] * 4])
@pytest.mark.parametrize("places", [(0, 2), (1, 3), (0, 3), (0, 1)])
def test_two_parameters_change_places(dtypes, places):
    ours, theirs, lists = two(dtypes)
    for _ in range(3):
        step(ours, theirs, lists)
    for optimizer in (ours, theirs):
        a, b = (optimizer.param_groups[p // 2]["params"] for p in places)
        i, j = (p % 2 for p in places)
        a[i], b[j] = b[j], a[i]
    for _ in range(2):
        step(ours, theirs, lists)


def test_a_parameter_leaves_one_group_for_another():
    """The lengths of the groups and the order of either part stay as they were."""
    ours, theirs, lists = two([WIDE, PLAIN, WIDE, PLAIN])
    for _ in range(3):
        step(ours, theirs, lists)
    for optimizer, (a, b, c, d) in zip((ours, theirs), lists):
        optimizer.param_groups[0]["params"], optimizer.param_groups[1]["params"] = [b, d], [a, c]
    for _ in range(2):
        step(ours, theirs, lists)


def test_an_error_while_sorting_is_not_forgotten():
    ours, _, (params, _) = two([WIDE] * 4)
    for p in params:
        p.grad = torch.ones_like(p)
    ours.param_groups[0]["max_grad_norm"] = 1.0
    for _ in range(2):
        with pytest.raises(ValueError, match="one max_grad_norm"):
            ours.step()


class Mine(altgrad.optim.SGD):
    def step(self, closure=None):
        return super().step(closure)  # here


WAYS = [
    lambda o, p: o.step(),  # here
    lambda o, p: o.step(lambda: p.sum()),  # here
    lambda o, p: torch.amp.GradScaler("cpu", enabled=False).step(o),  # here
    lambda o, p: (torch.optim.lr_scheduler.StepLR(o, 1), o.step()),  # here
    lambda o, p: Mine(o.param_groups).step(),
]


@pytest.mark.parametrize("way", WAYS)
def test_the_warning_points_at_who_called_step(way):
    param = torch.nn.Parameter(torch.ones(3, dtype=WIDE))
    param.grad = torch.ones_like(param)
    with pytest.warns(UserWarning, match="updates it, and every other parameter") as seen:
        way(altgrad.optim.SGD([param]), param)
    warning, = [w for w in seen if "every other parameter" in str(w.message)]
    assert warning.filename == __file__
    assert linecache.getline(__file__, warning.lineno).endswith("# here\n")


@pytest.mark.parametrize("again", [
    lambda o: copy.deepcopy(o),  # here
    lambda o: copy.copy(o),  # here
    lambda o: pickle.loads(pickle.dumps(o)),  # here
])
def test_the_warning_of_a_copy_points_at_who_copied(again, tmp_path):
    dist.init_process_group("gloo", rank=0, world_size=1, init_method=f"file://{tmp_path}/meet")
    try:
        param = torch.nn.Parameter(torch.ones(3))
        optimizer = altgrad.optim.AdamW([param], process_group=dist.group.WORLD)
        with pytest.warns(UserWarning, match="neither copied nor pickled") as seen:
            again(optimizer)
    finally:
        dist.destroy_process_group()
    assert seen[0].filename == __file__
    assert linecache.getline(__file__, seen[0].lineno).endswith("# here\n")


def test_the_name_of_a_parameter_that_was_put_into_a_named_group():
    wide = torch.nn.Parameter(torch.ones(2, dtype=WIDE))
    wide.grad = torch.ones_like(wide)
    optimizer = altgrad.optim.SGD(torch.nn.Linear(2, 2).named_parameters())
    optimizer.param_groups[0]["params"].append(wide)
    with pytest.warns(UserWarning, match="parameter 2 of group 0 is torch.float64, so torch.optim"):
        optimizer.step()


@pytest.mark.filterwarnings("ignore:altgrad.optim:UserWarning")
@pytest.mark.parametrize("name", ["SGD", "Adagrad"])
def test_the_norm_of_no_gradients_is_on_the_cpu(name):
    params = [torch.nn.Parameter(torch.ones(3, dtype=d)) for d in (PLAIN, WIDE)]
    with torch.device("meta"):
        optimizer = getattr(altgrad.optim, name)(params, max_grad_norm=10.0)
        for turn in range(2):
            for p in params:
                p.grad = torch.ones(3, dtype=p.dtype, device="cpu")
            if turn:
                params[1].grad = None
            optimizer.step()
    torch.testing.assert_close(optimizer.grad_norm, torch.tensor(3.0).sqrt())
