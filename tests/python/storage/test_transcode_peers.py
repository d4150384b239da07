"""Files that bitsandbytes and torchao make themselves, where these are installed."""

import pytest
import torch
import twins

import altgrad

SHAPES = [(64, 128), (10,), (70, 70)]


def peer(name):
    """(word of `to`, class) of a peer's AdamW."""
    if name == "bitsandbytes":
        return name, pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed").optim.AdamW8bit
    optim = pytest.importorskip("torchao.optim", reason="torchao is not installed")
    return name, getattr(optim, {"torchao.8bit": "AdamW8bit", "torchao.4bit": "AdamW4bit", "torchao.fp8": "AdamWFp8"}[name])


PEERS = ["bitsandbytes", "torchao.8bit", "torchao.4bit", "torchao.fp8"]


@pytest.fixture(autouse=True)
def eager(monkeypatch):
    """torchao compiles its step by inductor, which wants OpenMP's headers."""
    monkeypatch.setattr(torch, "compile", lambda function, **_: function)


def trained(cls, params, steps=5):
    optimizer = cls(params, lr=1e-2)
    for _ in range(steps):
        twins.give_grads(params)
        optimizer.step()
    return optimizer


def parts(entry):
    """The tensors of an entry, those within torchao's and within what bitsandbytes hides included."""
    hidden = entry.pop("__bnb_optimizer_quant_state__", {})
    for key, value in {**entry, **hidden}.items():
        for part in ("codes", "scale", "qmap") if hasattr(value, "codes") else (None,):
            tensor = value if part is None else getattr(value, part, None)
            if tensor is not None:
                yield f"{key} {part}", torch.as_tensor(tensor)


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("storage", ["", "m=ocp.e4m3fn:256 v=ocp.e5m2:256"])
def test_a_run_goes_on_with_ours(name, storage):
    _, cls = peer(name)
    params, others, third = twins.make(SHAPES, count=3)
    theirs = trained(cls, params)
    ours, by_hand = altgrad.optim.AdamW(others, storage=storage), altgrad.optim.AdamW(third)
    ours.load_state_dict(altgrad.transcode(theirs.state_dict(), to=ours, report=None))
    with torch.no_grad():
        for p, q, r in zip(params, others, third):
            q.copy_(p), r.copy_(p)
            by_hand.state[r] = {"step": torch.tensor(5.0)}
            for n, key in ("1", "exp_avg"), ("2", "exp_avg_sq"):
                state = theirs.state[p].get(key, theirs.state[p].get("state" + n))
                if hasattr(state, "dequantize") and hasattr(state, "codes"):
                    state = state.dequantize()
                elif state.dtype == torch.uint8:
                    state = (theirs.state[p]["qmap" + n][state.long().view(-1)]
                             * theirs.state[p]["absmax" + n].repeat_interleave(256)[:state.numel()]).view(state.shape)
                by_hand.state[r][key] = state.clone()
    by_hand.param_groups[0].update(lr=ours.param_groups[0]["lr"], weight_decay=ours.param_groups[0]["weight_decay"])
    for step in range(3):
        twins.give_grads(params, others, third)
        theirs.step(), ours.step(), by_hand.step()
        for p, q, r in zip(params, others, third):
            if not storage:
                assert torch.equal(q, r)
            assert torch.allclose(p, q, atol=2e-2 * (step + 1)), step


@pytest.mark.parametrize("name", PEERS)
def test_what_was_read_is_written_as_it_was(name):
    """But for blocks whose largest is negative: a signed book ends at -0.99296875 (8 bits), -0.8875 (4 bits)."""
    word, cls = peer(name)
    params, others = twins.make(SHAPES, count=2)
    theirs = trained(cls, params)
    given = theirs.state_dict()
    made = altgrad.transcode(altgrad.transcode(given, to="torch", report=None), to=word, report=None)
    for place in range(len(SHAPES)):
        wanted, got = dict(parts(dict(given["state"][place]))), dict(parts(made["state"][place]))
        assert wanted.keys() == got.keys()
        for key, tensor in wanted.items():
            if "4bit" in name and key.startswith("exp_avg "):
                continue
            if key in ("absmax1 None", "exp_avg scale"):
                assert torch.allclose(got[key], tensor, rtol=0.0071)
            else:
                assert torch.equal(got[key].view(torch.uint8) if tensor.element_size() == 1 else got[key],
                                   tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor), key
    again = cls(others, lr=1e-2)
    again.load_state_dict(made)
    twins.give_grads(params, others)
    again.step()
    assert all(q.isfinite().all() for q in others)


@pytest.mark.parametrize("name", PEERS[1:])
def test_codes_are_those_of_their_own_quantisers(name):
    word, cls = peer(name)
    params, = twins.make([(64, 128)], count=1)
    theirs = trained(cls, params, 1)
    twins.give_grads(params)
    ours = altgrad.optim.AdamW(params)
    ours.step()
    made = altgrad.transcode(ours.state_dict(), to=word, report=None)["state"][0]
    for key in ("exp_avg", "exp_avg_sq"):
        wanted = theirs.state[params[0]][key]
        wanted.copy_(ours.state[params[0]][key])
        assert torch.equal(made[key].codes.view(torch.uint8), wanted.codes.view(torch.uint8))
        assert torch.equal(made[key].scale, wanted.scale)


def test_bitsandbytes_makes_no_nearer_codes():
    """Its kernel on the CPU misses the nearest number for some inputs."""
    functional = pytest.importorskip("bitsandbytes.functional", reason="bitsandbytes is not installed")
    params, = twins.make([(64, 128)], count=1)
    twins.give_grads(params)
    ours = altgrad.optim.AdamW(params)
    ours.step()
    made = altgrad.transcode(ours.state_dict(), to="bitsandbytes", report=None)["state"][0]
    for n, key in ("1", "exp_avg"), ("2", "exp_avg_sq"):
        assert torch.equal(made["qmap" + n], functional.create_dynamic_map(signed=n == "1"))
        codes, state = functional.quantize_blockwise(ours.state[params[0]][key], code=made["qmap" + n], blocksize=256)
        assert torch.equal(made["absmax" + n], state.absmax)
        shares = (ours.state[params[0]][key].double().view(-1, 256) / state.absmax.double().view(-1, 1)).view(-1)
        book = made["qmap" + n].double()
        off, theirs = [(shares - book[c.long().view(-1)]).abs() for c in (made["state" + n], codes)]
        assert (off <= theirs + 1e-7).all()
