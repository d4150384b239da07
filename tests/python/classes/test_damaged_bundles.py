"""A bundle of the compiler, damaged: refused in words whatever has changed, and nothing crashes."""

import ctypes
import os
import random
import subprocess

import pytest

import altgrad
from altgrad import _library

COMPILER = os.environ.get("ALTGRAD_OPT") or _library.own_compiler()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("bundle") / "adamw.so"
    subprocess.run([COMPILER, "--rule=adamw", "--target=x86-64-v3,sm_80", "--emit=bundle", "-o", out], check=True)
    return out.read_bytes()


def words(path, data):
    """What altgrad_load says of a file; "" where it loads."""
    path.write_bytes(data)
    handle = ctypes.c_void_p()
    try:
        _library.library().altgrad_load(os.fsencode(path), ctypes.byref(handle))
    except altgrad.Error as error:
        assert error.status == "BROKEN"
        return str(error)
    _library.library().altgrad_bundle_free(handle)
    return ""


def test_a_whole_one_loads_and_one_without_a_digest_says_what_to_do(whole, tmp_path):
    assert words(tmp_path / "a.so", whole) == ""
    old = words(tmp_path / "a.so", whole[:-48])
    assert "one of an older altgrad-opt; compile it again" in old


def test_a_change_anywhere_is_refused(whole, tmp_path):
    """Of the ELF header, program headers, sections, machine code, PTX, manifest and digest."""
    dice = random.Random(1)
    places = [*range(64 + 56 * 8), *(dice.randrange(len(whole)) for _ in range(600)), *range(len(whole) - 64, len(whole))]
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= dice.randrange(1, 256)
        assert "compile it again" in words(tmp_path / "a.so", changed), place


def test_a_cut_or_a_longer_one_is_refused(whole, tmp_path):
    for size in [*range(0, 200, 7), *range(200, len(whole), len(whole) // 50), len(whole) - 1]:
        assert "compile it again" in words(tmp_path / "a.so", whole[:size]), size
    assert "compile it again" in words(tmp_path / "a.so", whole + b"\0")
