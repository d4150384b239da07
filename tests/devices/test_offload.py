"""offload=True: the bits of the CPU, with states on the host; gradients are summed as they come."""

import copy
import io
import os

import pytest
import torch
from conftest import KIND
from test_devices import twins
from torch.utils._python_dispatch import TorchDispatchMode

import altgrad

CASES = [
    ("AdamW", dict(lr=1e-2, max_grad_norm=0.5), torch.float32),
    ("AdamW", dict(lr=1e-2, max_grad_norm=0.5, storage="param=bf16 master=f32 states=f32"), torch.bfloat16),
    ("AdamW8bit", dict(lr=1e-2), torch.float32),
    ("SGD", dict(lr=1e-2, momentum=0.9, statistics=True, max_grad_norm="agc:0.1"), torch.float16),
    ("Lion", dict(lr=1e-2, storage="param=bf16,stochastic", seed=3), torch.bfloat16),
]


@torch.no_grad()
def backward(params, reference, step):
    """As two passes of backward, whose gradients add up, the same on both sides; torch's engine runs none on the device."""
    for part in range(2):
        torch.manual_seed(10 * step + part)
        for there, here in zip(reversed(params), reversed(reference)):
            grad = torch.randn(here.shape).to(here.dtype)
            for param in (there, here):
                given = grad.to(param.device)
                param.grad = given if param.grad is None else param.grad.add_(given)
                for hook in (param._post_accumulate_grad_hooks or {}).values():
                    hook(param)


def same(params, reference, optimizers):
    for there, here in zip(params, reference):
        assert torch.equal(there.detach().cpu(), here.detach())
        mine, its = [optimizer.state[p] for optimizer, p in zip(optimizers, (there, here))]
        assert list(mine) == list(its)
        for key, value in mine.items():
            assert value.device.type == "cpu" and torch.equal(value, its[key]), key


@pytest.mark.parametrize("mix", ["one", "two", "and the CPU"])
@pytest.mark.parametrize("kind, words, dtype", CASES)
def test_bits_are_the_cpus_and_states_stay_there(mix, kind, words, dtype):
    params, reference = twins(mix, dtype)
    kind = getattr(altgrad.optim, kind)
    optimizers = kind(params, offload=True, **words), kind(reference, **words)
    for step in range(5):
        backward(params, reference, step)
        if step == 1:
            for param in (params[2], reference[2]):
                param.grad = None
        if step == 2:  # from outside, between steps
            with torch.no_grad():
                for param in (params[0], reference[0]):
                    param.mul_(0.5), param.grad.mul_(0.5)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        if step == 3:
            file = io.BytesIO()
            torch.save(optimizers[0].state_dict(), file)
            optimizers[0].load_state_dict(torch.load(io.BytesIO(file.getvalue())))
    same(params, reference, optimizers)
    if optimizers[1].grad_norm is not None:
        assert optimizers[0].grad_norm == optimizers[1].grad_norm


def test_the_norm_costs_no_pass_and_nobody_waits_in_backward(notes):
    params, reference = twins("one")
    optimizer = altgrad.optim.AdamW(params, lr=1e-2, max_grad_norm=0.5, offload=True)
    for step in range(3):
        backward(params, reference, step)
        came = notes()
        optimizer.step()
        optimizer.zero_grad()
    waits = [note for note in came if note.startswith("wait")]
    assert waits == ["wait: copy to the host on stream 0"]  # in the step before, for norms of what had come
    assert "copy to the host on stream 2" in came and "record 0 on stream 2" in came  # parameters went on the other
    assert optimizer._built.tables[0].summed_rows() == (len(params), 0)
    other = copy.deepcopy(optimizer)
    assert other.offload and all(value.device.type == "cpu" for held in other.state.values() for value in held.values())


class Sends(TorchDispatchMode):
    """Counts, whenever a parameter goes to the device, how many of those on the host have been stepped."""

    def __init__(self, here):
        super().__init__()
        self.here, self.before, self.stepped = here, [param.detach().clone() for param in here], []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if function is torch.ops.aten.copy_.default and arguments[0].device.type == KIND:
            self.stepped.append(sum(not torch.equal(now, then) for now, then in zip(self.here, self.before)))
        return function(*arguments, **(keywords or {}))


@pytest.mark.parametrize("words, early", [({}, 0), ({"max_grad_norm": 0.5}, 3), ({"max_grad_norm": "agc:0.1"}, 0),
                                          ({"fused_amp": True}, 3)])  # what is of all gradients awaits them all
def test_numbers_travel_while_others_are_stepped(words, early, notes):
    """Parameters of 8 MiB are stepped one by one: each goes, on the other stream, before the next is stepped."""
    here = [torch.nn.Parameter(torch.randn(2**21)) for _ in range(3)]
    there = [torch.nn.Parameter(param.detach().to(f"{KIND}:0")) for param in here]
    optimizers = [altgrad.optim.AdamW(of, lr=1e-2, offload=of is there, **words) for of in (there, here)]
    for step in range(3):
        backward(there, here, step)
        with Sends([optimizers[0]._offload.host_copy(param).param for param in there]) as sends:
            optimizers[0].step()
        asked = [note for note in notes() if note.startswith(("copy", "event")) and "stream 0" not in note]
        optimizers[1].step()
    assert sends.stepped == [1, 2, 3]
    came = ["event awaited", "copy to the host on stream 1"] * 6  # two passes of backward
    went = ["event awaited", "copy to the device on stream 2"] * 3
    assert asked == came + ["event awaited"] * early + went
    same(there, here, optimizers)


class Seen(TorchDispatchMode):
    """Keeps the number of threads and the CPUs of a step whenever a parameter goes to the device."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        if function is torch.ops.aten.copy_.default and arguments[0].device.type == KIND:
            self.seen.append((torch.get_num_threads(), os.sched_getaffinity(0)))
        return function(*arguments, **(keywords or {}))


@pytest.mark.skipif(os.cpu_count() < 2, reason="one CPU cannot be shared")
@pytest.mark.parametrize("offload", [True, "bound"])
def test_ranks_of_a_host_share_its_cores(offload, monkeypatch):
    every = os.sched_getaffinity(0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # as torchrun says by itself
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    params, reference = twins("one")
    optimizers = [altgrad.optim.AdamW(of, lr=1e-2, offload=offload if of is params else False) for of in (params, reference)]
    backward(params, reference, 0)
    with Seen() as seen:
        optimizers[0].step()
    optimizers[1].step()
    same(params, reference, optimizers)
    (count, cpus), = {(count, frozenset(cpus)) for count, cpus in seen.seen}
    assert 1 <= count <= len(every) / 2 and (cpus < every and len(cpus) >= count if offload == "bound" else cpus == every)
    assert torch.get_num_threads() == 1 and os.sched_getaffinity(0) == every


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="offload is 'numa', not False, True or 'bound'"):
        altgrad.optim.AdamW([torch.nn.Parameter(torch.ones(3))], offload="numa")


@pytest.mark.parametrize("scaler", [torch.amp.GradScaler, altgrad.amp.GradScaler])
def test_what_unscale_writes_without_a_trace_is_noticed(scaler):
    """It raises no version counter; SGD, whose step is as long as its gradient."""
    params, reference = twins("one")
    optimizers = [altgrad.optim.SGD(of, lr=1e-2, max_grad_norm=50.0, offload=of is params) for of in (params, reference)]
    scalers = [scaler(of[0].device.type, init_scale=4.0) for of in (params, reference)]
    for step in range(3):
        for of, own in zip((params, reference), scalers):
            own.scale(torch.ones((), device=of[0].device))
        backward(params, reference, step)
        for own, optimizer in zip(scalers, optimizers):
            own.unscale_(optimizer), own.step(optimizer), own.update()
            optimizer.zero_grad()
    same(params, reference, optimizers)
    assert optimizers[0].grad_norm == optimizers[1].grad_norm


@pytest.mark.parametrize("mix", ["one", "and the CPU"])
@pytest.mark.parametrize("storage", ["", "z=ocp.e4m3fn:128", "master=f32 z=bf16"])
def test_entries_have_the_bits_of_the_cpu(mix, storage):
    params, reference = twins(mix, torch.bfloat16 if "master" in storage else torch.float32)
    kind = altgrad.optim.FromRule("""rule free(param w, grad g, state z, step t, lr = 0.1, beta = 0.9)
  z = w if t == 1 else z
  w = lerp(w, z, 1 / t) - lr * g
  z = z - lr * g
entry eval
  w = lerp(w, z, 1 - 1 / beta)
entry climb(rho = 0.05)
  z = z + w
  w = w + rho * g
""", storage)
    optimizers = kind(params, offload=True, max_grad_norm=0.5), kind(reference, max_grad_norm=0.5)
    for step in range(4):
        backward(params, reference, step)
        for optimizer in optimizers:
            optimizer.climb()  # between backward and the step, whose early sums still hold
            optimizer.step()
            optimizer.eval()
            optimizer.zero_grad()
    same(params, reference, optimizers)
    assert optimizers[1].grad_norm == optimizers[0].grad_norm
