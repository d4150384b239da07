"""Code books against bitsandbytes' and torchao's own tables and torchao's quantiser, where they are installed, and
always against their bytes and NumPy."""

import hashlib

import numpy as np
import pytest
import torch

from test_format_peers import NONE, Format, decode, encode, shim  # noqa: F401

# The place in altgrad/book.h, the bits and the sign.
BOOKS = {"bnb8": (1, 8, True), "bnb8u": (2, 8, False), "torchao4": (3, 4, True), "torchao4u": (4, 4, False)}
# The first bytes of sha256 over the numbers as little-endian float32.
HASHES = {"bnb8": "e732639a65f497b4", "bnb8u": "305f002cc11278fb", "torchao4": "721d11e3711326d4",
          "torchao4u": "0aeb670b8c9b6b0f"}


def form_of(name):
    place, bits, _ = BOOKS[name]
    return Format(0, bits, 0, False, NONE, has_sign=False, ties=2, book=place)


def numbers_of(shim, name):  # noqa: F811
    return decode(shim, form_of(name), np.arange(1 << BOOKS[name][1]))


def floats():
    """2^24: of every exponent with every start of the mantissa and random ends, either sign."""
    starts = np.arange(2**16, dtype=np.uint32).repeat(2**8) << 16
    return (starts | np.random.default_rng(3).integers(0, 2**16, 2**24, dtype=np.uint32)).view(np.float32)


def around(numbers):
    """Numbers of a book, what lies half-way between them, and four float32 on either side."""
    points = np.concatenate([numbers, ((numbers[:-1].astype(np.float64) + numbers[1:]) / 2).astype(np.float32)])
    every = [points]
    for toward in (np.float32(-np.inf), np.float32(np.inf)):
        near = points
        for _ in range(4):
            near = np.nextafter(near, toward)
            every.append(near)
    return np.concatenate([*every, np.float32([0.0, -0.0, 1.0, -1.0, 2.0, -2.0])])


@pytest.mark.parametrize("name", BOOKS)
def test_the_bytes_of_the_table(shim, name):  # noqa: F811
    assert hashlib.sha256(numbers_of(shim, name).astype("<f4").tobytes()).hexdigest().startswith(HASHES[name])


@pytest.mark.parametrize("name", BOOKS)
def test_the_nearest_number_by_numpy(shim, name):  # noqa: F811
    """Against middles in double; within two float32 of one, torchao's differences are rounded."""
    numbers = numbers_of(shim, name)
    inputs = floats()
    inputs = inputs[~np.isnan(inputs)]
    middles = (numbers[:-1].astype(np.float64) + numbers[1:]) / 2
    codes = np.searchsorted(middles, inputs.astype(np.float64), side="right")
    close = np.abs(inputs - middles[np.minimum(codes, len(middles) - 1)].astype(np.float32))
    close = np.minimum(close, np.abs(inputs - middles[np.maximum(codes, 1) - 1].astype(np.float32)))
    clear = close > 2 * np.spacing(np.abs(inputs))
    ours = encode(shim, form_of(name), inputs)
    assert clear.sum() > 2**23 and np.array_equal(ours[clear], codes[clear])
    print(f"{name}: {len(inputs)} floats, {(~clear).sum()} next to a middle")


@pytest.mark.parametrize("name", BOOKS)
def test_torchao_stores_the_same_codes(shim, name):  # noqa: F811
    utils = pytest.importorskip("torchao.optim.quant_utils")
    _, bits, signed = BOOKS[name]
    theirs = (torch.linspace(0, 1, 17)[1:] if name == "torchao4u" else
              torch.tensor(utils.create_dynamic_map(signed, 7 if bits == 8 else 3, bits)))
    ours = numbers_of(shim, name)
    assert np.array_equal(theirs.numpy().view(np.uint32), ours.view(np.uint32))
    stores = utils.quantize_8bit_with_qmap if bits == 8 else utils.quantize_4bit_with_qmap
    inputs = np.concatenate([around(ours), np.random.default_rng(1).uniform(-1, 1, 2**22).astype(np.float32)])
    codes = stores(torch.from_numpy(inputs), theirs).numpy()
    assert np.array_equal(encode(shim, form_of(name), inputs), codes)
    print(f"{name}: {len(inputs)} floats as torchao stores them")


@pytest.mark.parametrize("name", ["bnb8", "bnb8u"])
def test_the_table_of_bitsandbytes(shim, name):  # noqa: F811
    functional = pytest.importorskip("bitsandbytes.functional")
    theirs = functional.create_dynamic_map(signed=BOOKS[name][2])
    assert np.array_equal(theirs.numpy().view(np.uint32), numbers_of(shim, name).view(np.uint32))


def test_no_number_is_stored_as_zero(shim):  # noqa: F811
    assert [int(encode(shim, form_of(name), np.float32([np.nan]))[0]) for name in BOOKS] == [127, 0, 7, 0]
