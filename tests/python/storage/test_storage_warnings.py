"""What a storage loses is said once, by what the compiler knows of its formats; torch's own storage is silent."""

import subprocess
import warnings

import pytest
import stock
import torch

import altgrad.optim
from altgrad._storage import limits


@pytest.fixture(autouse=True)
def forgetful():
    limits._warned.clear()


def said(make, dtype=torch.float32, numel=8192):
    """The warnings of two optimizers of the same request, a step of each."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            p = torch.ones(numel, dtype=dtype, requires_grad=True)
            optimizer = make([p])
            p.grad = torch.ones_like(p)
            optimizer.step()
    ours = [w for w in caught if "altgrad.optim" in str(w.message)]
    assert all(w.category is UserWarning and w.filename == __file__ for w in ours)
    return [str(w.message) for w in ours]


def adamw(storage, **more):
    return lambda params: altgrad.optim.AdamW(params, storage=storage, **more)


def test_an_average_that_stands_still_is_said_once():
    words, = said(adamw("v=bf16"))
    assert words.startswith("altgrad.optim.AdamW: state 'v' in bf16 stands still where 1 - beta2 is below 0.00195: ")
    assert 'storage="v=bf16,stochastic" keeps the change on average' in words
    # That it is so: torch's own bf16.
    kept = lambda beta: torch.tensor(beta).bfloat16().item()
    assert kept(1 - 0.00195) == 1 and kept(1 - 0.00196) != 1


def test_values_of_hyperparameters_decide():
    assert said(adamw("v=bf16", betas=(0.9, 0.99))) == []
    words, = said(adamw("states=bf16", betas=(0.999, 0.99)))
    assert "state 'm' in bf16 stands still where 1 - beta1" in words
    assert said(adamw("param=bf16", lr=0.1), torch.bfloat16) == []
    assert said(adamw("param=bf16", lr=torch.tensor(0.1)), torch.bfloat16) == []
    words, = said(adamw("param=bf16 states=f32", lr=1e-3), torch.bfloat16)
    assert "a weight of 1 does not move where lr is below 0.00193" in words
    # An update is 1.01 times the rate, with the decay.
    moved = lambda lr: (1.0 - 1.01 * torch.tensor(lr)).bfloat16().item()
    assert moved(0.00193) == 1 and moved(0.00194) != 1


def test_every_group_counts():
    groups = lambda params: altgrad.optim.AdamW(
        [{"params": params}, {"params": [torch.ones(4, requires_grad=True)], "betas": (0.9, 0.9)}],
        betas=(0.9, 0.999), storage="v=bf16")
    assert len(said(groups)) == 1


@pytest.mark.parametrize("storage, words", [
    ("v=f16", "stays 0 under gradients below 0.00545"), ("v=ocp.e5m2", "stays 0 under gradients below 0.0873"),
    ("m=uint8", "the format has no negative numbers"), ("v=ocp.e8m0", "the format has no zero"),
    ("m=bnb8:256 v=bnb8u:256", "of the block's largest, and what divides by it moves a parameter by up to 1146"),
    ("m=bnb8:256 v=bnb8u:256", 'storage="v=bnb8u:256,keep_positive" stores no positive number as 0'),
    ("v=ocp.e5m2:128:f16,keep_positive", "the least scale in f16 is too large")])
def test_what_a_format_has_no_room_for(storage, words):
    assert any(words in message for message in said(adamw(storage, betas=(0.9, 0.999))))


@pytest.mark.parametrize("make, dtype", [
    (adamw(None), torch.float32), (adamw(None), torch.bfloat16), (adamw(None), torch.float16),
    (adamw("param=bf16 master=f32"), torch.bfloat16),
    (adamw("param=bf16,stochastic states=param,stochastic", seed=1), torch.bfloat16),
    (altgrad.optim.AdamWFp8, torch.float32), (altgrad.optim.AdamWFp8, torch.bfloat16),
    (altgrad.optim.Adam8bit, torch.float32), (altgrad.optim.AdamW8bit, torch.bfloat16),
    (altgrad.optim.Lion8bit, torch.float32), (adamw("v=bf16:32:f16", betas=(0.9, 0.99)), torch.float32),
    (lambda params: altgrad.optim.SGD(params, lr=1e-3, storage="param=bf16"), torch.bfloat16)])
def test_nothing_is_said(make, dtype):
    assert said(make, dtype) == []


@pytest.mark.parametrize("storage, dtype, words", [
    ("master=f32", torch.float32, "storage says master=f32, and all parameters are f32: each has a copy of itself"),
    ("master=bf16+i16", torch.float32, "storage says master=bf16+i16, which does nothing: all parameters are f32"),
    ("master=bf16+i8", torch.float32, "storage says master=bf16+i8, which does nothing"),
    ("param=bf16,stochastic", torch.float32, "storage says param=bf16,stochastic, which does nothing: all parameters are f32")])
def test_a_word_that_does_nothing(storage, dtype, words):
    message, = said(adamw(storage), dtype)
    assert message.startswith(f"altgrad.optim.AdamW: {words}")


def test_a_word_of_some_parameters_is_not_idle():
    other = torch.ones(8, dtype=torch.bfloat16, requires_grad=True)
    for storage in ("master=f32", "master=bf16+i16", "param=bf16,stochastic states=f32"):
        assert said(lambda params: altgrad.optim.AdamW([*params, other], storage=storage)) == []


def test_rules_of_ones_own():
    made = altgrad.optim.FromRule("lion", storage="states=f16")
    assert said(lambda params: made(params, beta2=0.99)) == []
    words, = said(lambda params: made(params, beta2=0.9999))
    assert "state 'm' in f16 stands still where 1 - beta2 is below 0.000244" in words


def kind_of(warning):
    """(whose it is, what it is about)"""
    kinds = ["average", "stays 0", "no zero", "no negative", "the decay", "an update of", "is added to", "is lost"]
    return warning.split(" in ")[0], *[kind for kind in kinds if kind in warning]


@pytest.mark.parametrize("storage", [
    "param=bf16", "states=bf16", "m=f16", "v=f16", "v=ocp.e5m2", "v=ocp.e4m3fn:256", "m=uint8 v=ocp.e8m0", "v=int8",
    "m=bnb8:256 v=bnb8u:256", "v=ocp.e5m2:128:f16", "v=uint8:32:f16,sqrt", "v=ocp.e5m2:128:f16,keep_positive"])
def test_what_is_advised_helps(storage):
    """With what a note says the warning above it is gone."""
    def analyzed(words):
        text = subprocess.run([stock.COMPILER, "--rule=adamw", f"--storage={words}", "--analyze"],
                              capture_output=True, text=True, check=True).stdout
        return [line.split(": ", 2)[2] for line in text.splitlines() if ": warning: " in line or ": note: " in line]

    lines = analyzed(storage)
    assert lines
    for what, note in zip(lines[::2], lines[1::2]):
        for advice in note.split('"')[1::2]:
            given = dict(word.split("=") for word in storage.split())
            given.update(word.split("=") for word in advice.split())
            remaining = analyzed(" ".join("=".join(item) for item in given.items()))
            assert kind_of(what) not in map(kind_of, remaining[::2]), advice
