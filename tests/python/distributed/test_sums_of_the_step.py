"""Sums over the step of a rule whose parameters lie on several ranks: those of one process, on every rank."""

import copy

import pytest
import ranks
import torch
from meshes import SHAPES, place, places
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Shard

import altgrad

# Every reduction over the step, of elements and of what a tensor has.
RULE = """altgrad.rule @every(param %w: f32, grad %g: f32, state %sum: f64 per step, state %most: f32 per step,
    state %size: f32 per step, state %positive: f32 per step, state %fine: f32 per step, state %tensors: f32 per step,
    state %highest: f32 per step, state %k: i64 per step) {
  %zero = constant 0.0 : f32
  %one = constant 1.0 : f32
  %step = constant 1 : i64
  %add = altgrad.reduce add %g over step : f32
  %wide = extf %add : f32 to f64
  %sum1 = addf %sum, %wide : f64
  %most1 = altgrad.reduce max %g over step : f32
  %size1 = altgrad.reduce absmax %w over step : f32
  %above = cmpf ogt, %g, %zero : f32
  %positive1 = altgrad.reduce count %above over step : i1
  %below = cmpf ole, %g, %most : f32
  %all = altgrad.reduce and %below over step : i1
  %fine1 = select %all, %one, %zero : f32
  %own = altgrad.reduce add %g over tensor : f32
  %tensors1 = altgrad.reduce add %own over step : f32
  %highest1 = altgrad.reduce max %own over step : f32
  %k1 = addi %k, %step : i64
  %some = addf %most1, %fine1 : f32
  %dw = mulf %some, %g : f32
  %w1 = subf %w, %dw : f32
  altgrad.yield param(%w1) state(%sum1: f64, %most1, %size1, %positive1, %fine1, %tensors1, %highest1, %k1: i64)
}
"""
STATES = "sum", "most", "size", "positive", "fine", "tensors", "highest", "k"
WORDS = dict(weight_decay=0.1, max_grad_norm=1.0, storage="master=f32", d0=1e-3)


def train(kind, homes, whole_numbers=False, steps=5, dtype=torch.float32, words=None, make=None):
    """([the first group's numbers after each step], the parameters that all ranks have)."""
    torch.manual_seed(0)
    draw = (lambda shape: torch.randint(-4, 5, shape).float()) if whole_numbers else lambda shape: torch.randn(shape) + 1.0
    whole = list(map(draw, SHAPES))
    params = [None if home is None else torch.nn.Parameter(place(value.to(dtype), home)) for value, home in zip(whole, homes)]
    optimizer = (make or kind)([param for param in params if param is not None], **words or {})
    found, names = [], optimizer._step_states if make is None else optimizer.local_optimizer._step_states
    for _ in range(steps):
        for param, shape, home in zip(params, SHAPES, homes):
            grad = draw(shape).to(dtype)
            if param is not None:
                param.grad = place(grad, home)
        optimizer.step()
        found.append([float(optimizer.param_groups[0][name]) for name in names])
    return found, [(param.full_tensor() if isinstance(param, DTensor) else param).float().tolist()
                   for param in params[:len(SHAPES) - 2]]


def exact(rank, group):
    return train(altgrad.optim.FromRule(RULE), places(group.size(), rank), whole_numbers=True)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_every_reduction_has_the_bits_of_one_process(count, tmp_path):
    """Numbers and gradients are whole, so that no order of additions matters; some ranks have nothing of some tensors."""
    answers, = ranks.run([exact], tmp_path, count)
    expected = train(altgrad.optim.FromRule(RULE), [()] * len(SHAPES), whole_numbers=True)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer == expected


ROWS = """rule rows(param w, grad g, row r, global total, global most, lr = 1.0)
  r = r + sum(g over row)
  total = sum(r over step)
  most = max(r over step)
  w = w - lr * g
"""


def of_rows(rank, group):
    return train(altgrad.optim.FromRule(ROWS), [*places(group.size(), rank)[:-2], None, None], whole_numbers=True)


def test_numbers_of_rows_count_once(tmp_path):
    answers, = ranks.run([of_rows], tmp_path, 4)
    expected = train(altgrad.optim.FromRule(ROWS), [*[()] * (len(SHAPES) - 2), None, None], whole_numbers=True)
    for answer in answers:
        assert answer == expected, answer


def of_stages(rank, group):
    """The sum over parameters of which each rank has others."""
    params = [torch.nn.Parameter(torch.full((3,), 2.0 + rank))]
    optimizer = altgrad.optim.FromRule("rule r(param w, grad g, global d)\n  d = sum(g over step)\n  w = w - d\n")(
        params, process_group=group)
    params[0].grad = torch.full((3,), 1.0 + rank)
    optimizer.step()
    return optimizer.param_groups[0]["d"].item(), params[0].tolist()


def test_ranks_of_a_process_group_have_other_parameters(tmp_path):
    answers, = ranks.run([of_stages], tmp_path, 2)
    assert answers == ((9.0, [-7.0] * 3), (9.0, [-6.0] * 3)), answers


# All reductions, and a number that counts the steps.
COUNTED = """rule counted(param w, grad g, state m, global total, most, fine, steps, step t, lr = 0.01)
  m = lerp(m, g, 0.5)
  total = 0.5 * total + sum(g over step)
  most = maximum(0.9 * most, max(norm(g) over step))
  fine = (1.0 if all(g > -100 over step) else 0.0)
  steps = steps + 1
  w = w - lr * m / (1 + most)
"""
IDLE = (0, 3, 4), (5,)  # the steps in which the last stage has no gradient, and those in which none has


def of_idle(stages, make):
    """The numbers and parameters after eight steps, of those of these two `stages` that are here."""
    kinds = altgrad.optim.FromRule(COUNTED), altgrad.optim.Prodigy, altgrad.optim.DAdaptAdam
    found = []
    for kind in kinds:
        params = {stage: torch.nn.Parameter(torch.full((3, 2), 2.0 + stage)) for stage in stages}
        optimizer = make(kind, list(params.values()))
        for step in range(8):
            for stage, param in params.items():
                idle = step in IDLE[1] or stage == 1 and step in IDLE[0]
                param.grad = None if idle else torch.full((3, 2), 1.0 + step + stage)
            optimizer.step()
        found.append([[float(optimizer.param_groups[0][name]) for name in optimizer._step_states],
                      {stage: param.tolist() for stage, param in params.items()}, len(optimizer.state)])
    return found


def idle_stage(rank, group):
    return of_idle([rank], lambda kind, params: kind(params, process_group=group))


def test_a_rank_without_gradients_takes_part_with_zeros(tmp_path):
    """In its first step, in later ones, and in a step in which no rank has one, which is none."""
    answers, = ranks.run([idle_stage], tmp_path, 2)
    expected = of_idle([0, 1], lambda kind, params: kind(params))
    for rank, answer in enumerate(answers):
        assert not isinstance(answer, str), answer
        for (numbers, params, states), (theirs, of_all, _) in zip(answer, expected, strict=True):
            torch.testing.assert_close(torch.tensor(numbers), torch.tensor(theirs), rtol=1e-6, atol=0.0)
            torch.testing.assert_close(torch.tensor(params[rank]), torch.tensor(of_all[rank]), rtol=1e-6, atol=0.0)
            assert states == 1  # nothing is kept of what stood in


def in_parts_of_zero(rank, group):
    """Numbers and parameters of Prodigy under ZeroRedundancyOptimizer, whose second rank has two, one or no parameter."""
    found = []
    for shapes in ((5, 3), (4,), (2, 2)), ((3,), (4,)), ((4, 2),):
        params = [torch.nn.Parameter(torch.ones(shape)) for shape in shapes]
        optimizer = ZeroRedundancyOptimizer(params, altgrad.optim.Prodigy, d0=1e-3)
        found.append(of_zero(optimizer, params, optimizer.optim))
    return found


def of_zero(optimizer, params, local):
    for step in range(6):
        for index, param in enumerate(params):
            param.grad = (param.detach() - 3.0) * (1 + index)
        optimizer.step()
    return [float(local.param_groups[0][name]) for name in ("d", "d_numerator", "k")], [param.tolist() for param in params]


def test_sums_are_of_all_parts_of_zero_redundancy_optimizer(tmp_path):
    answers, = ranks.run([in_parts_of_zero], tmp_path, 2)
    for place, shapes in enumerate([((5, 3), (4,), (2, 2)), ((3,), (4,)), ((4, 2),)]):
        params = [torch.nn.Parameter(torch.ones(shape)) for shape in shapes]
        optimizer = altgrad.optim.Prodigy(params, d0=1e-3)
        numbers, expected = of_zero(optimizer, params, optimizer)
        assert numbers[0] > 2e-3
        for answer in answers:
            assert not isinstance(answer, str), answer
            torch.testing.assert_close(torch.tensor(answer[place][0]), torch.tensor(numbers), rtol=1e-6, atol=0.0)
            for mine, its in zip(answer[place][1], expected, strict=True):
                torch.testing.assert_close(torch.tensor(mine), torch.tensor(its), rtol=1e-5, atol=1e-6)


def without(rank, group):
    """Whether steps end in which the last rank has no gradient of its parts, or of those in bf16, also where tables are made
    anew because of a file; other ranks exchange sums over tensors and the step."""
    mesh, found = init_device_mesh("cpu", (group.size(),)), []
    for kind, words in ((altgrad.optim.AdamW, dict(max_grad_norm=1.0)), (altgrad.optim.LAMB, {}), (altgrad.optim.Prodigy, {})):
        params = [torch.nn.Parameter(place(torch.ones(shape, dtype=dtype), (mesh, [Shard(0)])))
                  for shape in ((5, 3), (4,)) for dtype in (torch.float32, torch.bfloat16)]
        optimizer = kind(params, **words)
        for step in range(6):
            for index, param in enumerate(params):
                missing = rank and (step == 2 or step in (1, 4) and index % 2)
                param.grad = None if missing else place(torch.ones(param.shape, dtype=param.dtype), (mesh, [Shard(0)]))
            if step == 4:
                optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
            optimizer.step()
        found.append([bool(param.full_tensor().isfinite().all()) for param in params])
    return found


def test_no_rank_waits_for_one_that_has_no_gradient_of_its_parts(tmp_path):
    answers, = ranks.run([without], tmp_path, 2)
    assert answers == ([[True] * 4] * 3,) * 2, answers


def found_rates(rank, group):
    homes = places(group.size(), rank)
    return [train(getattr(altgrad.optim, name), homes, dtype=torch.bfloat16, words=WORDS) for name in ("Prodigy", "DAdaptAdam")]


@pytest.mark.parametrize("count", [2, 3])
def test_prodigy_finds_the_rate_of_one_process(count, tmp_path):
    """In bf16 with masters, clipped, on several meshes beside plain parameters; all ranks have the same bits."""
    answers, = ranks.run([found_rates], tmp_path, count)
    for place_of, name in enumerate(("Prodigy", "DAdaptAdam")):
        numbers, params = train(getattr(altgrad.optim, name), [()] * len(SHAPES), dtype=torch.bfloat16, words=WORDS)
        assert numbers[-1][0] > 2 * WORDS["d0"]
        for answer in answers:
            assert not isinstance(answer, str), answer
            assert answer[place_of] == answers[0][place_of]
            torch.testing.assert_close(torch.tensor(answer[place_of][0]), torch.tensor(numbers), rtol=1e-5, atol=0.0)
            for mine, its in zip(answer[place_of][1], params):
                torch.testing.assert_close(torch.tensor(mine), torch.tensor(its), rtol=1e-2, atol=1e-5)


def skipped(rank, group):
    """What a step does to the numbers where the last rank's shard has an infinity, and after it."""
    mesh, found = init_device_mesh("cpu", (group.size(),)), []
    param = torch.nn.Parameter(place(torch.ones(7, 3), (mesh, [Shard(0)])))
    for scaler in torch.amp.GradScaler("cpu", init_scale=1.0), altgrad.amp.GradScaler("cpu", init_scale=1.0):
        optimizer = altgrad.optim.Prodigy([param])
        for last in (1.0, torch.inf, 1.0):
            grad = torch.ones(7, 3)
            grad[-1, -1] = last
            scaler.scale(torch.ones(()))
            param.grad = place(grad, (mesh, [Shard(0)]))
            scaler.step(optimizer), scaler.update()
            found.append([float(optimizer.param_groups[0][name]) for name in ("d", "d_numerator", "k")])
    return found


def test_a_skipped_step_is_skipped_on_all_ranks(tmp_path):
    answers, = ranks.run([skipped], tmp_path, 3)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer == answers[0]
        for first, bad, last in (answer[:3], answer[3:]):
            assert first == bad != last and last[2] == 2.0


def resumed(rank, group):
    """The numbers and parameters of six steps, and those of three steps and, from their state_dict, three more."""
    mesh, found = init_device_mesh("cpu", (group.size(),)), []
    for loads in (False, True):
        params = [torch.nn.Parameter(place(torch.ones(shape), (mesh, [Shard(0)]))) for shape in ((5, 3), (1, 4))]
        optimizer = altgrad.optim.Prodigy(params)
        for step in range(6):
            if loads and step == 3:
                first, optimizer = optimizer, altgrad.optim.Prodigy(params)
                optimizer.load_state_dict(copy.deepcopy(first.state_dict()))
            for param in params:
                param.grad = place(torch.full(param.shape, 0.1 + step), (mesh, [Shard(0)]))
            optimizer.step()
        found.append(([float(optimizer.param_groups[0][name]) for name in ("d", "d_numerator", "k")],
                      [param.full_tensor().tolist() for param in params]))
    return found


def test_a_file_goes_on_with_the_same_bits(tmp_path):
    answers, = ranks.run([resumed], tmp_path, 2)
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer[0] == answer[1] == answers[0][0]


def reproduced(rank, group):
    mesh = init_device_mesh("cpu", (group.size(),))
    homes = [(mesh, [Shard(0)])] * len(SHAPES)
    make = lambda params: altgrad.distributed.Sharded(altgrad.optim.Prodigy, params, reproducible=True, weight_decay=0.1, d0=1e-3)
    plain = lambda params: altgrad.distributed.Sharded(altgrad.optim.Prodigy, params, bucket_bytes=100, reproducible=True,
                                                       weight_decay=0.1, d0=1e-3)
    return train(None, homes, make=make), train(None, [()] * len(SHAPES), make=plain)


@pytest.mark.parametrize("count", [2, 4])  # of which averages of equal gradients are exact
def test_reproducible_sums_have_the_bits_of_one_process(count, tmp_path):
    answers, = ranks.run([reproduced], tmp_path, count)
    expected = train(altgrad.optim.Prodigy, [()] * len(SHAPES), words=dict(weight_decay=0.1, d0=1e-3))
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert list(answer) == [expected, expected]


LARGE = (64, 96), (33, 5), (96,)  # the first of which is cut between two chunks
NORMS = """rule norms(param w, grad g, global total, lr = 0.01)
  total = sum(norm(w) over step)
  w = w - lr * g / total
"""


def steps_of_large(make, grads):
    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in LARGE]
    optimizer = make(params)
    for _ in range(4):
        grads(params, [param.detach() - 3.0 for param in params])
        optimizer.step()
    return [param.tolist() for param in params], [float(optimizer.param_groups[0][name]) for name in ("d", "d_numerator", "k")]


def by_backward(params, values):
    sum([(param * value).sum() for param, value in zip(params, values)]).backward()


def cut_between_chunks(rank, group):
    found = steps_of_large(lambda params: altgrad.distributed.Sharded(altgrad.optim.Prodigy, params, reproducible=True, d0=1e-3),
                           by_backward)
    optimizer = altgrad.distributed.Sharded(altgrad.optim.FromRule(NORMS), params := [torch.nn.Parameter(torch.ones(64, 96))],
                                            reproducible=True)
    by_backward(params, params)
    with pytest.raises(ValueError, match="adds up numbers of tensors or of rows over all parameters"):
        optimizer.step()
    return found


def test_reproducible_sums_of_parts_of_a_parameter(tmp_path):
    """Sums of elements have the bits of one process; those of numbers of tensors are refused."""
    answers, = ranks.run([cut_between_chunks], tmp_path, 2)
    expected = steps_of_large(lambda params: altgrad.optim.Prodigy(params, d0=1e-3), lambda params, values: [
        setattr(param, "grad", value) for param, value in zip(params, values)])
    for answer in answers:
        assert not isinstance(answer, str), answer
        assert answer == expected
