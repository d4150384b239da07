"""Shampoo and SOAP with blocks: a parameter takes the steps of its blocks as parameters of their own."""

import copy
import io

import gemms
import numpy
import pytest
import torch
from test_shampoo import Reference

import altgrad
from altgrad.optim import SOAP, Shampoo

ADAM = dict(grafting_type="adam", betas=(0.9, 0.99))


def cut(matrix, most):
    """multi_dim_split of facebookresearch/optimizers."""
    parts = [matrix]
    for dim in range(matrix.dim()):
        parts = [part for of in parts for part in of.split(most, dim)]
    return parts


@pytest.fixture(autouse=True)
def products():
    with gemms.Doubles():
        yield


class Twins:
    """A parameter in blocks, and its blocks as parameters."""

    def __init__(self, kind, shape=(19, 13), most=8, dtype=torch.float32, laid=lambda x: x, **words):
        torch.manual_seed(0)
        self.most, weight = most, torch.randn(shape).to(dtype)
        self.one = torch.nn.Parameter(laid(weight.clone()))
        self.parts = [torch.nn.Parameter(part.clone()) for part in self.cut(weight)]
        self.optimizer = kind([self.one], max_precond_dim=most, blocks=True, **words)
        self.by_hand = kind(self.parts, max_precond_dim=most, **words)

    def cut(self, x):
        return cut(x.detach().flatten(1) if x.dim() > 2 else x.detach(), self.most)

    def give(self, grad):
        self.one.grad = grad
        for part, of in zip(self.parts, self.cut(grad)):
            part.grad = of.clone()

    def step(self, times=6):
        for _ in range(times):
            self.give(torch.randn(self.one.shape).to(self.one.dtype))
            self.optimizer.step()
            self.by_hand.step()

    def are_same(self):
        return all(map(torch.equal, self.cut(self.one), self.parts))


@pytest.mark.parametrize("kind, words", [
    (Shampoo, {}), (Shampoo, ADAM), (Shampoo, dict(max_grad_norm=0.5)),
    (Shampoo, dict(max_grad_norm="agc:0.01")), (SOAP, dict(precondition_frequency=2)), (SOAP, dict(normalize_grads=True))], ids=str)
@pytest.mark.parametrize("shape", [(19, 13), (19, 5), (5, 19), (8, 9), (19, 5, 2, 2)])
def test_steps_are_those_of_blocks_that_are_parameters(kind, words, shape):
    twins = Twins(kind, shape, **words)
    twins.step()
    assert twins.are_same()


@pytest.mark.parametrize("graft", [None, "adam"])
def test_steps_are_those_of_the_formula_for_each_block(graft):
    torch.manual_seed(0)
    param = torch.nn.Parameter(torch.randn(12, 9))
    first = param.detach().clone()
    optimizer = Shampoo([param], lr=1e-2, betas=(0.9, 0.9), epsilon=1e-3, weight_decay=0.1, max_precond_dim=5, precondition_frequency=3,
                        start_preconditioning_step=4, grafting_type=graft, blocks=True)
    references = [Reference(part.double().numpy(), (0.9, 0.9), 3, 4, graft, [True, True], 1e-2, 0.1, 1e-3) for part in cut(first, 5)]
    for _ in range(20):
        param.grad = torch.randn(12, 9)
        optimizer.step()
        for reference, grad in zip(references, cut(param.grad, 5)):
            reference.step(grad.double().numpy())
    for reference, part in zip(references, cut(param.detach(), 5)):
        assert numpy.abs(part.double().numpy() - reference.w).max() < 1e-3 * (param - first).abs().max()


@pytest.mark.parametrize("kind, words", [(Shampoo, dict(epsilon=1e-3)), (SOAP, dict(precondition_frequency=2))], ids=["Shampoo", "SOAP"])
def test_squares_of_blocks_may_be_factorized_by_products(kind, words):
    twins = Twins(kind, factorize="products", **words)
    twins.step()
    for one, other in zip(twins.cut(twins.one), twins.parts):
        torch.testing.assert_close(one, other.detach())


@pytest.mark.parametrize("dtype, words", [
    (torch.bfloat16, {}), (torch.bfloat16, dict(storage="master=f32")), (torch.float32, dict(storage="states=bf16")),
    (torch.float32, dict(storage="states=int8:128"))], ids=str)
def test_blocks_have_the_storage_of_parameters(dtype, words):
    twins = Twins(Shampoo, (90, 150), 64, dtype, **words, **ADAM)
    twins.step()
    assert twins.are_same()


@pytest.mark.parametrize("laid", [lambda x: x.t().contiguous().t(), lambda x: torch.cat([x, x], 1)[:, :13]], ids=["transposed", "strided"])
def test_a_parameter_may_lie_in_any_strides(laid):
    twins = Twins(Shampoo, laid=laid, **ADAM)
    twins.step()
    assert twins.are_same()


def test_a_parameter_whose_matrix_is_no_view_is_refused():
    param = torch.nn.Parameter(torch.randn(19, 5, 2, 2).to(memory_format=torch.channels_last))
    optimizer = Shampoo([param], max_precond_dim=8, blocks=True)
    param.grad = torch.randn_like(param)
    with pytest.raises(ValueError, match=r"is stepped in blocks of a matrix \(19, 20\), which is no view of it: make it contiguous"):
        optimizer.step()


def test_dimensions_are_merged_first():
    def merged(tensors):
        return [part for x, shape in zip(tensors, ((30, 12), (20,))) for part in cut(x.detach().view(shape), 12)]

    torch.manual_seed(0)
    params = [torch.nn.Parameter(torch.randn(shape)) for shape in ((30, 2, 2, 3), (20,))]
    parts = [torch.nn.Parameter(part.clone()) for part in merged(params)]
    optimizer, by_hand = [Shampoo(of, max_precond_dim=12, merge_dims=True, blocks=blocks, **ADAM)
                          for of, blocks in ((params, True), (parts, False))]
    for _ in range(5):
        for param in params:
            param.grad = torch.randn(param.shape)
        for part, grad in zip(parts, merged([param.grad for param in params])):
            part.grad = grad.clone()
        optimizer.step(), by_hand.step()
    assert all(map(torch.equal, merged(params), parts))


def test_state_has_the_tensors_of_each_block():
    twins = Twins(Shampoo, (10, 6), 8, **ADAM)
    twins.step(1)
    assert {key: tuple(value.shape) for key, value in twins.optimizer.state[twins.one].items()} == {
        "block_0.step": (), "block_0.exp_avg": (8, 6), "block_0.exp_avg_sq": (8, 6), "block_0.row_gram": (8, 8), "block_0.row_root": (8, 8),
        "block_0.column_gram": (6, 6), "block_0.column_root": (6, 6), "block_1.step": (), "block_1.exp_avg": (2, 6),
        "block_1.exp_avg_sq": (2, 6), "block_1.row_gram": (2, 2), "block_1.row_root": (2, 2), "block_1.column_gram": (6, 6),
        "block_1.column_root": (6, 6)}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("words", [{}, dict(storage="states=int8:128")], ids=str)
def test_a_file_goes_on_in_another_optimizer(words):
    twins = Twins(Shampoo, (90, 150), 64, **words, **ADAM)
    twins.step(4)
    file = io.BytesIO()
    torch.save(twins.optimizer.state_dict(), file)
    file.seek(0)
    made = Shampoo([twins.one], max_precond_dim=64, blocks=True, **words, **ADAM)
    made.load_state_dict(torch.load(file))
    twins.optimizer = made
    twins.step(4)
    assert twins.are_same()


def test_a_copy_goes_on_from_the_same_blocks():
    twins = Twins(SOAP, precondition_frequency=2)
    twins.step(4)
    twins.one, twins.optimizer = copy.deepcopy((twins.one, twins.optimizer))
    twins.step(4)
    assert twins.are_same()


def test_a_state_of_other_blocks_is_refused():
    twins = Twins(Shampoo, **ADAM)
    twins.step(2)
    group, before = twins.optimizer.param_groups[0], twins.one.detach().clone()
    for changed, words in ((dict(blocks=False), "stepped in 6 blocks, and it is stepped as a whole"),
                           (dict(max_precond_dim=10), "stepped in 4 blocks"),
                           (dict(max_precond_dim=9), r"block 4 of parameter 0 of group 0: state 'exp_avg' of shape \(3, 8\) .* \(1, 9\)")):
        was = {key: group[key] for key in changed}
        group.update(changed)
        with pytest.raises(ValueError, match=words):
            twins.optimizer.step()
        group.update(was)
    assert torch.equal(twins.one, before)
    twins.step(2)
    assert twins.are_same()


def test_averages_of_weights_are_those_of_blocks():
    for dtype in (torch.float32, torch.bfloat16):
        twins = Twins(Shampoo, dtype=dtype, ema=0.9, **ADAM)
        twins.step()
        with twins.optimizer.ema_weights(), twins.by_hand.ema_weights():
            assert twins.are_same()
        twins.step()
        assert twins.are_same()


def test_statistics_are_of_the_parameter():
    twins = Twins(Shampoo, statistics=True, max_grad_norm=1.0, **ADAM)
    twins.step()
    found, parts = twins.optimizer.statistics(), twins.by_hand.statistics()
    for key in ("grad_norm", "param_norm", "update_norm"):
        torch.testing.assert_close(getattr(found, key), getattr(parts, key).norm()[None])


def test_memory_that_is_replaced_is_stepped():
    twins = Twins(Shampoo, **ADAM)
    twins.step()
    twins.one.data = twins.one.detach() * 2
    for part in twins.parts:
        part.data.mul_(2)
    twins.step()
    assert twins.are_same()


def test_a_parameter_without_a_gradient_stays_and_others_step():
    twins = Twins(Shampoo, **ADAM)
    other = torch.nn.Parameter(torch.ones(9, 9))
    twins.optimizer.add_param_group({"params": [other]})
    for index in range(6):
        other.grad = torch.randn(9, 9) if index % 2 else None
        twins.step(1)
    before, version, twins.one.grad = twins.one.detach().clone(), twins.one._version, None
    twins.optimizer.step()
    assert torch.equal(twins.one, before) and twins.one._version == version
    twins.step(1)
    assert twins.are_same() and twins.one._version > version


def test_a_step_is_skipped_for_all_blocks():
    twins = Twins(Shampoo, fused_amp=True, **ADAM)
    scalers = [torch.amp.GradScaler("cpu", init_scale=4.0) for _ in range(2)]
    for index in range(4):
        grad = torch.randn(19, 13)
        grad[18, 12] = torch.inf if index == 2 else 1.0
        twins.give(grad)
        for scaler, optimizer in zip(scalers, (twins.optimizer, twins.by_hand)):
            scaler.scale(torch.ones(1))
            scaler.step(optimizer)
            scaler.update()
    assert twins.are_same() and {float(twins.optimizer.state[twins.one][f"block_{k}.step"]) for k in range(6)} == {3.0}


def test_random_bits_are_of_each_block():
    params = [torch.nn.Parameter(torch.full((64, 64), 1.0, dtype=torch.bfloat16)) for _ in range(2)]
    optimizer = Shampoo(params, lr=1e-3, max_precond_dim=32, blocks=True, storage="param=bf16,stochastic", seed=1)
    for param in params:
        param.grad = torch.full_like(param, 1.0)
    optimizer.step()
    parts = [part for param in params for part in cut(param.detach(), 32)]
    assert not any(torch.equal(one, other) for place, one in enumerate(parts) for other in parts[:place])


@pytest.mark.filterwarnings("ignore:.*kernels on GPUs read")
def test_norms_of_blocks_are_summed_in_the_step_and_not_in_backward():
    twins = Twins(Shampoo, (300, 300), 200, norm_in_backward=True, max_grad_norm=1.0, **ADAM)
    twins.step()
    assert twins.are_same()


def test_a_block_without_one_of_its_states_is_named():
    twins = Twins(Shampoo, **ADAM)
    twins.step(1)
    del twins.optimizer.state[twins.one]["block_3.step"]
    with pytest.raises(ValueError, match="the state of block 3 of parameter 0 of group 0 has 'exp_avg', .* and no 'step'"):
        twins.optimizer.step()


def test_a_size_of_blocks_is_refused():
    with pytest.raises(ValueError, match="blocks is 128, neither True nor False; max_precond_dim says how long its sides are"):
        Shampoo([torch.nn.Parameter(torch.ones(9, 8))], blocks=128)


def test_offload_is_refused_where_a_parameter_is_cut():
    Shampoo([torch.nn.Parameter(torch.ones(8, 8))], max_precond_dim=8, blocks=True, offload=True)
    with pytest.raises(ValueError, match="parameter 0 is stepped in blocks where it lies, and offload=True steps it on the host"):
        Shampoo([torch.nn.Parameter(torch.ones(9, 8))], max_precond_dim=8, blocks=True, offload=True)


def test_parameters_that_share_memory_are_named():
    memory = torch.ones(20, 20)
    optimizer = Shampoo([torch.nn.Parameter(memory), torch.nn.Parameter(memory[3:])], max_precond_dim=8, blocks=True)
    for param in optimizer.param_groups[0]["params"]:
        param.grad = torch.randn(param.shape)
    with pytest.raises(RuntimeError, match="two parameters share memory, among them parameter 0 of group 0 and parameter 1"):
        optimizer.step()
