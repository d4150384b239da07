"""Parameters on several devices in one optimizer: the bits of one on the CPU, one norm, one file."""

import ctypes
import gc

import pytest
import torch
from conftest import KIND

import altgrad.optim

SIZES = [(100,), (33, 5), (7,), (5000,), (3, 4)]
MIXES = {"one": [f"{KIND}:0"] * 5, "two": [f"{KIND}:{i % 2}" for i in range(5)],
         "and the CPU": ["cpu", f"{KIND}:0", f"{KIND}:1", "cpu", f"{KIND}:0"]}


def twins(mix, dtype=torch.float32):
    """(parameters where the mix says, equal ones on the CPU)."""
    values = [torch.randn(size).to(dtype) for size in SIZES]
    return ([torch.nn.Parameter(v.to(place)) for v, place in zip(values, MIXES[mix])],
            [torch.nn.Parameter(v.clone()) for v in values])


def give_grads(params, reference, scale=1.0):
    for there, here in zip(params, reference):
        here.grad = torch.randn_like(here) * scale
        there.grad = here.grad.to(there.device)


def check_equal(params, reference, optimizers):
    for there, here in zip(params, reference):
        assert torch.equal(there.detach().cpu(), here.detach())
        mine, its = [optimizer.state[p] for optimizer, p in zip(optimizers, (there, here))]
        assert list(mine) == list(its)
        for key, value in mine.items():
            assert value.device == there.device and torch.equal(value.cpu(), its[key]), key


Mixed = altgrad.optim.FromRule("adamw", storage="master=f32 m=bf16")


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("made, options, dtype", [
    (altgrad.optim.AdamW, dict(lr=1e-2), torch.float32),
    (altgrad.optim.AdamW, dict(lr=1e-2, amsgrad=True), torch.bfloat16),
    (altgrad.optim.SGD, dict(lr=1e-2, momentum=0.9), torch.float16),
    (altgrad.optim.LAMB, dict(lr=1e-2), torch.float32), (Mixed, dict(lr=1e-2), torch.bfloat16)])
def test_bits_are_the_cpus(mix, made, options, dtype):
    params, reference = twins(mix, dtype)
    optimizers = made(params, **options), made(reference, **options)
    for step in range(4):
        give_grads(params, reference)
        if step == 2:
            params[1].grad = reference[1].grad = None
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] *= 0.9
            optimizer.step()
    check_equal(params, reference, optimizers)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("bound", [0.5, 1e9])
def test_one_norm(mix, bound):
    """The sum of the devices' sums, which may differ from one list's in the last place."""
    params, reference = twins(mix)
    optimizers = [altgrad.optim.AdamW(of, lr=1e-2, max_grad_norm=bound)
                  for of in (params, reference)]
    for _ in range(3):
        give_grads(params, reference)
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(optimizers[0].grad_norm.cpu(), optimizers[1].grad_norm)
    for there, here in zip(params, reference):
        torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=1e-6, atol=1e-8)


def test_nobody_waits(notes):
    params, reference = twins("two")
    lr = torch.tensor(1e-2, device=f"{KIND}:0")
    optimizer = altgrad.optim.AdamW(params, lr=lr, foreach=False, max_grad_norm=1.0, fused_amp=True)
    optimizer.grad_scale = torch.full((1,), 8.0, device=f"{KIND}:0")
    optimizer.found_inf = torch.zeros(1, device=f"{KIND}:0")
    for _ in range(3):
        give_grads(params, reference)
        notes()
        optimizer.step()
        norm = optimizer.grad_norm
    assert norm.device == params[0].device
    assert [note for note in notes() if note.startswith("wait")] == []
    assert norm.item() > 0
    assert notes()[-1] == "wait: read a scalar"


def copy_of(file):
    return {**file, "state": {index: {key: value.clone() for key, value in held.items()}
                              for index, held in file["state"].items()}}


def test_a_file_goes_from_device_to_device():
    params, reference = twins("and the CPU")
    there, here = altgrad.optim.AdamW(params, lr=1e-2), altgrad.optim.AdamW(reference, lr=1e-2)
    for round in range(3):
        give_grads(params, reference)
        there.step()
        here.step()
        files = [copy_of(optimizer.state_dict()) for optimizer in (there, here)]
        there, here = altgrad.optim.AdamW(params), altgrad.optim.AdamW(reference)
        there.load_state_dict(files[1])
        here.load_state_dict(files[0])
    give_grads(params, reference)
    there.step()
    here.step()
    check_equal(params, reference, (there, here))


def test_a_gradient_on_another_device():
    """torch lets nobody assign one; a parameter that moved leaves one behind."""
    params, reference = twins("two")
    optimizer = altgrad.optim.AdamW(params)
    give_grads(params, reference)
    optimizer.step()
    kept = [p.detach().cpu() for p in params]
    params[2].data = params[2].data.to(f"{KIND}:1")
    with pytest.raises(RuntimeError, match=f"on {KIND}:0 does not match .* on {KIND}:1"):
        optimizer.step()
    assert all(torch.equal(p.detach().cpu(), k) for p, k in zip(params, kept))


@pytest.mark.parametrize("device", [0, 1])
def test_the_current_device_stays_and_memory_is_where_it_belongs(device):
    params, reference = twins("two")
    optimizer = altgrad.optim.AdamW(params, max_grad_norm=1.0)
    before = torch.ops.altgrad_test_device.use_device(device)
    for _ in range(2):
        give_grads(params, reference)
        optimizer.step()
    assert torch.ops.altgrad_test_device.use_device(before) == device
    for param in params:
        assert all(state.device == param.device for state in optimizer.state[param].values())


def test_a_step_runs_on_the_current_stream(notes):
    params, reference = twins("one")
    optimizer = altgrad.optim.AdamW(params)
    give_grads(params, reference)
    optimizer.step()
    before = torch.ops.altgrad_test_device.use_stream(0, -1)
    give_grads(params, reference)
    notes()
    optimizer.step()
    mine = torch.ops.altgrad_test_device.use_stream(0, before)
    assert mine != before and "record 0 on stream 1" in notes()
    assert last_stream() == mine


def test_memory_of_a_step_is_nobody_elses_before_its_stream_is_done():
    """Its numbers, its copy of a parameter with strides and its words; the other stream is the quicker one."""
    params, reference = twins("one")
    for of in (params, reference):
        of[1] = torch.nn.Parameter(torch.ones(66, 5).to(of[1].device)[::2])
    rates = [torch.tensor(1e-2, device=f"{KIND}:0"), 1e-2]
    optimizers = [altgrad.optim.AdamW(of, lr=lr, foreach=False, max_grad_norm=1.0)
                  for of, lr in zip((params, reference), rates)]
    for _ in range(2):
        give_grads(params, reference)
        optimizers[1].step()
        before = torch.ops.altgrad_test_device.use_stream(0, -1)
        optimizers[0].step()
        torch.ops.altgrad_test_device.use_stream(0, -1)
        states = optimizers[0].state_dict()["state"]
        optimizers[0], rates[0] = altgrad.optim.AdamW(params, lr=1e-2, max_grad_norm=1.0), None
        gc.collect()
        torch.ops.altgrad_test_device.use_stream(0, before)
        optimizers[0].load_state_dict({"state": states, "param_groups": optimizers[0].state_dict()["param_groups"]})
    check_equal(params, reference, optimizers)


def last_stream():
    """The stream of the last launch, as the test driver saw it."""
    library, launch, last = ctypes.CDLL("libcuda.so.1"), Launch(), None
    library.fakecuda_launch_at.argtypes = [ctypes.c_size_t, ctypes.POINTER(Launch)]
    for index in range(10 ** 6):
        if not library.fakecuda_launch_at(index, launch):
            return last
        last = launch.stream


class Launch(ctypes.Structure):
    """fakecuda_launch of tests/cuda/fakecuda.h."""

    _fields_ = [("kernel", ctypes.c_char_p), ("grid", ctypes.c_uint32 * 3),
                ("block", ctypes.c_uint32 * 3), ("stream", ctypes.c_void_p),
                ("device", ctypes.c_int), ("parameters", ctypes.c_void_p),
                ("parameter_bytes", ctypes.c_uint64)]


def test_tables_lie_in_torchs_memory_and_a_full_card_is_tried_again(monkeypatch):
    devices, asked = torch.get_device_module(KIND), []

    def full(size, device, stream):
        asked.append(device)
        raise RuntimeError("out of memory")
    params, reference = twins("two")
    # More tensors than any table before had: no memory of another plan is left for them.
    params += [torch.nn.Parameter(torch.ones(1, device=f"{KIND}:0")) for _ in range(300)]
    reference += [torch.nn.Parameter(torch.ones(1)) for _ in range(300)]
    optimizers = [altgrad.optim.AdamW(of) for of in (params, reference)]
    give_grads(params, reference)
    with monkeypatch.context() as patch:
        patch.setattr(devices, "caching_allocator_alloc", full)
        with pytest.raises(altgrad.Error, match=r"memory for the tables of a plan: CUDA_ERROR_OUT_OF_MEMORY 2"):
            optimizers[0].step()
    assert asked
    for optimizer in optimizers:
        optimizer.step()
    check_equal(params, reference, optimizers)


def test_agc_is_the_cpus_on_two_devices():
    params, reference = twins("and the CPU")
    optimizers = [altgrad.optim.SGD(of, lr=1e-2, max_grad_norm="agc:0.1") for of in (params, reference)]
    for _ in range(3):
        give_grads(params, reference, 10.0)
        for optimizer in optimizers:
            optimizer.step()
        check_equal(params, reference, optimizers)


class Percentiles:
    """SGD clipped to a percentile of past norms, here and on the CPU, where the norm is a power of two."""

    def __init__(self, mix):
        self.both = twins(mix)
        self.optimizers = [altgrad.optim.SGD(of, lr=1e-2, max_grad_norm="percentile:30") for of in self.both]

    def step(self, norm, left_out=()):
        for params in self.both:
            for place, param in enumerate(params):
                param.grad = None if place in left_out else torch.zeros_like(param)
                if place not in left_out:
                    # Wherever they are, the sum of their squares is exact.
                    param.grad.view(-1)[:1] = norm
        for optimizer in self.optimizers:
            optimizer.step()
        there, here = [of.param_groups[0]["norm_history"] for of in self.optimizers]
        assert torch.equal(there.cpu().nan_to_num(-1.0), here.nan_to_num(-1.0))
        check_equal(*self.both, self.optimizers)


@pytest.mark.parametrize("mix", MIXES)
def test_every_device_clips_by_the_same_history(mix):
    pair = Percentiles(mix)
    for turn in range(12):
        # Devices come and go; the history stays the optimizer's.
        pair.step(2.0 ** (turn % 5), left_out={3: (1, 3), 6: (0, 3), 7: (1, 4), 9: (0, 2)}.get(turn, ()))
    assert pair.optimizers[0].param_groups[0]["norm_history"][0] == 12


def test_a_history_of_several_devices_that_is_written_or_loaded_is_every_devices():
    pair = Percentiles("and the CPU")
    for turn in range(4):
        pair.step(4.0)
    for optimizer in pair.optimizers:
        optimizer.param_groups[0]["norm_history"][1:3] = 0.5
    pair.step(4.0)
    for optimizer in pair.optimizers:
        file = optimizer.state_dict()
        file["param_groups"][0]["norm_history"] = file["param_groups"][0]["norm_history"].cpu().clone()
        optimizer.load_state_dict(file)
    pair.step(8.0)
    pair.optimizers[0].add_param_group({"params": [torch.nn.Parameter(torch.ones(3, device=f"{KIND}:1"))]})
    pair.step(1.0)


def test_a_skipped_step_is_in_no_devices_history():
    pair = Percentiles("and the CPU")
    scalers = [altgrad.amp.GradScaler(kind, init_scale=1.0) for kind in (KIND, "cpu")]
    for norm in (4.0, float("inf"), 2.0, 8.0):
        for params, optimizer, scaler in zip(pair.both, pair.optimizers, scalers):
            for param in params:
                param.grad = torch.full_like(param, norm) if param is params[2] else torch.zeros_like(param)
            scaler.scale(torch.ones((), device=params[1].device))
            scaler.step(optimizer)
            scaler.update()
    assert pair.optimizers[0].param_groups[0]["norm_history"][0] == 3
    there, here = [[p.detach().cpu() for p in params] for params in pair.both]
    assert all(map(torch.allclose, there, here))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_products_of_matrices_are_the_devices(dtype):
    """Gram form and shifts with float32; every matrix is one strip on the CPU, so that the calls are the same."""
    shapes, places = [(24, 40), (24, 40), (40, 24), (12, 12), (7,)], [f"{KIND}:0", f"{KIND}:1", f"{KIND}:0", "cpu", f"{KIND}:0"]
    values = [torch.randn(shape) for shape in shapes]
    sides = [[torch.nn.Parameter(value.to(place)) for value, place in zip(values, there)] for there in (places, ["cpu"] * 5)]
    optimizers = [altgrad.optim.Muon([{"params": side[:4]}, {"params": side[4:], "use_muon": False}], orthogonalize=altgrad.optim.NewtonSchulz(dtype=dtype))
                  for side in sides]
    for _ in range(3):
        give_grads(*sides)
        for optimizer in optimizers:
            optimizer.step()
    check_equal(*sides, optimizers)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize("words", [dict(), dict(max_grad_norm=0.5, storage="exp_avg=bf16")], ids=str)
def test_sums_of_a_rule_are_over_all_devices(mix, words):
    params, reference = twins(mix)
    optimizers = [altgrad.optim.Prodigy(of, weight_decay=0.1, **words) for of in (params, reference)]
    for _ in range(5):
        give_grads(params, reference)
        for optimizer in optimizers:
            optimizer.step()
    mine, its = [optimizer.param_groups[0] for optimizer in optimizers]
    for name in ("d", "d_numerator", "d_max"):
        assert mine[name].item() == pytest.approx(its[name].item(), rel=1e-5)
    for there, here in zip(params, reference):
        torch.testing.assert_close(there.detach().cpu(), here.detach(), rtol=1e-5, atol=1e-6)


def test_devices_agree_on_a_number_of_the_step():
    params, _ = twins("two")
    optimizer = altgrad.optim.Prodigy([dict(params=params[0::2]), dict(params=params[1::2], betas=(0.9, 0.5))])
    for param in params:
        param.grad = torch.ones_like(param)
    with pytest.raises(altgrad.Error, match="'beta2' is one number for all groups, and they give"):
        optimizer.step()
