"""format.h against ml_dtypes and torch: all 65536 bf16 and f16 inputs, and
random f32. They are peers, not oracles: NaN codes differ, so NaN is compared as
NaN, and the formats without NaN and infinity only where nothing overflows."""

import ctypes
import os
import subprocess
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch

HERE = Path(__file__).resolve().parent
NONE, ALL_ONES, IEEE = 0, 1, 2


class Format(ctypes.Structure):
    _fields_ = [("exponent_bits", ctypes.c_uint8), ("mantissa_bits", ctypes.c_uint8),
                ("bias", ctypes.c_int16), ("has_inf", ctypes.c_bool), ("nan", ctypes.c_uint8),
                ("has_sign", ctypes.c_bool), ("has_zero", ctypes.c_bool), ("ties", ctypes.c_uint8),
                ("complement", ctypes.c_bool), ("book", ctypes.c_uint8)]

    def __init__(self, *numbers, has_sign=True, has_zero=True, ties=0, complement=False, book=0):
        super().__init__(*numbers, has_sign, has_zero, ties, complement, book)

    @property
    def bits(self):
        return self.has_sign + self.exponent_bits + self.mantissa_bits


# name: our format, ml_dtypes' type, torch's type
PEERS = {
    "bf16": (Format(8, 7, 127, True, IEEE), ml_dtypes.bfloat16, torch.bfloat16),
    "f16": (Format(5, 10, 15, True, IEEE), np.float16, torch.float16),
    "e4m3fn": (Format(4, 3, 7, False, ALL_ONES), ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn),
    "e5m2": (Format(5, 2, 15, True, IEEE), ml_dtypes.float8_e5m2, torch.float8_e5m2),
    "e3m4": (Format(3, 4, 3, True, IEEE), ml_dtypes.float8_e3m4, None),
    "e4m3": (Format(4, 3, 7, True, IEEE), ml_dtypes.float8_e4m3, None),
    "e2m3fn": (Format(2, 3, 1, False, NONE), ml_dtypes.float6_e2m3fn, None),
    "e3m2fn": (Format(3, 2, 3, False, NONE), ml_dtypes.float6_e3m2fn, None),
    "e2m1fn": (Format(2, 1, 1, False, NONE), ml_dtypes.float4_e2m1fn, None),
}
UP = 2
E8M0 = Format(8, 0, 127, False, ALL_ONES, has_sign=False, has_zero=False, ties=UP)


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O2", "-shared", "-fPIC",
                    f"-I{HERE.parents[1] / 'runtime' / 'include'}",
                    HERE / "format-shim.cpp", "-o", library], check=True)
    return ctypes.CDLL(str(library))


def encode(shim, form, floats):
    bits = np.ascontiguousarray(floats, np.float32).view(np.uint32)
    out = np.empty_like(bits)
    shim.shim_encode(ctypes.byref(form), bits.ctypes, out.ctypes, ctypes.c_size_t(bits.size), 0)
    return out


def decode(shim, form, codes):
    codes = np.ascontiguousarray(codes, np.uint32)
    out = np.empty_like(codes)
    shim.shim_decode(ctypes.byref(form), codes.ctypes, out.ctypes, ctypes.c_size_t(codes.size))
    return out.view(np.float32)


def inputs(kind):
    every = np.arange(65536, dtype=np.uint16)
    if kind == "bf16":
        return every.view(ml_dtypes.bfloat16).astype(np.float32)
    if kind == "f16":
        return every.view(np.float16).astype(np.float32)
    random = np.random.default_rng(1)
    return np.concatenate([
        random.integers(0, 2**32, 2_000_000, dtype=np.uint32).view(np.float32),
        random.standard_normal(1_000_000, dtype=np.float32) * 8,
        random.standard_normal(1_000_000, dtype=np.float32) * np.float32(2**-12)])


def unsigned(form):
    return np.uint16 if form.bits > 8 else np.uint8


def from_ml_dtypes(form, dtype, floats):
    with np.errstate(all="ignore"):
        stored = floats.astype(dtype)
        return stored.view(unsigned(form)).astype(np.uint32), np.isnan(stored.astype(np.float32))


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("name", PEERS)
def test_ml_dtypes_stores_the_same_codes(shim, name, kind):
    form, dtype, _ = PEERS[name]
    floats = inputs(kind)
    if form.nan == NONE:
        largest = float(np.float32(ml_dtypes.finfo(dtype).max))
        floats = floats[np.abs(floats) <= largest]
    ours = encode(shim, form, floats)
    theirs, nan = from_ml_dtypes(form, dtype, floats)
    assert np.array_equal(ours[~nan], theirs[~nan])
    assert np.isnan(decode(shim, form, ours[nan])).all()
    assert not np.isnan(decode(shim, form, ours[~nan])).any()


@pytest.mark.parametrize("kind", ["bf16", "f16", "f32"])
@pytest.mark.parametrize("name", [n for n in PEERS if PEERS[n][2] is not None])
def test_torch_stores_the_same_codes(shim, name, kind):
    form, _, dtype = PEERS[name]
    floats = inputs(kind)
    stored = torch.from_numpy(floats).to(dtype)
    theirs = stored.view(torch.int16 if form.bits > 8 else torch.uint8).numpy()
    theirs = theirs.view(unsigned(form)).astype(np.uint32)
    nan = torch.isnan(stored.float()).numpy()
    ours = encode(shim, form, floats)
    assert np.array_equal(ours[~nan], theirs[~nan])
    assert np.isnan(decode(shim, form, ours[nan])).all()


@pytest.mark.parametrize("name", PEERS)
def test_ml_dtypes_reads_the_same_numbers(shim, name):
    form, dtype, _ = PEERS[name]
    codes = np.arange(2**form.bits, dtype=unsigned(form))
    theirs = codes.view(dtype).astype(np.float32)
    ours = decode(shim, form, codes)
    nan = np.isnan(theirs)
    assert np.array_equal(np.isnan(ours), nan)
    assert np.array_equal(ours[~nan].view(np.uint32), theirs[~nan].view(np.uint32))
    assert (ours[nan].view(np.uint32) == 0x7FC00000).all()


def test_scales_of_powers_of_two(shim):
    """Of positive numbers. Between 2^-127 and 1.5 * 2^-127 both peers go up, where the nearest lies below;
    0 is the smallest scale with torch as with us, no number with ml_dtypes."""
    codes = np.arange(256, dtype=np.uint8)
    theirs, ours = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32), decode(shim, E8M0, codes)
    assert np.array_equal(theirs[:255], ours[:255]) and np.isnan(theirs[255]) and np.isnan(ours[255])
    floats = np.abs(np.concatenate([inputs("f32"), np.arange(1, 2**23, 997, dtype=np.uint32).view(np.float32)]))
    floats = floats[(floats > 0) & ((floats <= 2.0**-127) | (floats >= 1.5 * 2.0**-127))]
    ours = encode(shim, E8M0, floats)
    with np.errstate(all="ignore"):
        assert np.array_equal(ours, floats.astype(ml_dtypes.float8_e8m0fnu).view(np.uint8))
    assert np.array_equal(ours, torch.from_numpy(floats).to(torch.float8_e8m0fnu).view(torch.uint8).numpy())
    assert (encode(shim, E8M0, np.array([0, 2.0**-127 * 1.25], np.float32)) == 0).all()


@pytest.mark.parametrize("bits", [8, 16])
def test_integers_are_numpys(shim, bits):
    """Two's complement is what rint and clip give; without a sign too."""
    floats = inputs("f32")
    floats = np.concatenate([floats, np.random.default_rng(2).uniform(-2.0**bits, 2.0**bits, 500_000).astype(np.float32)])
    floats = floats[~np.isnan(floats)]
    signed = Format(0, bits - 1, 1 - bits, False, NONE, complement=True)
    low, high = -2**(bits - 1), 2**(bits - 1) - 1
    expected = np.clip(np.rint(floats), low, high).astype(np.int64) & (2**bits - 1)
    assert np.array_equal(encode(shim, signed, floats), expected)
    plain = Format(0, bits, -bits, False, NONE, has_sign=False)
    expected = np.clip(np.rint(floats), 0, 2**bits - 1).astype(np.int64)
    assert np.array_equal(encode(shim, plain, floats), expected)
