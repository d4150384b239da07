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
                ("bias", ctypes.c_int16), ("has_inf", ctypes.c_bool), ("nan", ctypes.c_uint8)]

    @property
    def bits(self):
        return 1 + self.exponent_bits + self.mantissa_bits


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
