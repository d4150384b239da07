"""`keep_positive`: what is above 0 is not stored as 0; every byte on every path, and against NumPy's arithmetic."""

import ml_dtypes
import numpy as np
import pytest

import books
import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [8193, 1, 33, 0, 4096, 300]
CASES = [("adamw", "m=bnb8:256 v=bnb8u:256,keep_positive", ["--clip"]),
         ("adamw", "param=bf16 grad=bf16 master=f32 m=ocp.e4m3fn:256 v=ocp.e5m2:256,keep_positive", ["--unscale"]),
         ("adam{amsgrad}", "states=bnb8u:256,keep_positive m=bnb8:256", ["--scaler"]),
         ("adamw", "v=ocp.e5m2:256,stochastic,keep_positive", []),
         ("rmsprop", "v=ocp.e4m3fn:32:f16,toward_zero,keep_positive", []),
         ("adamw", "v=uint8:32:f16,sqrt,keep_positive m=int8:32,softsign,keep_positive", []),
         ("lamb", "v=ocp.e5m2:32:ocp.e8m0,keep_positive", ["--clip"]),
         ("adagrad", "states=f16,keep_positive", []),
         ("adamw", "m=torchao4:128 v=torchao4u:128,keep_positive", [])]
F = np.float32


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng = np.random.default_rng(17)
    rows = compiled.rows([SIZES])
    rows.offset = [256 * i * 2**26 for i in range(len(SIZES))]
    values = templatecases.start_values(compiled, rows, rng, 0.01)
    compare.run_steps(compiled, rows, [1, 0, 3, 0, 15, 2], values, [(0.01, {}), (0.0, {})], rng, ALL)


def roots(rng, count):
    """Gradients whose squares are of every size that float32 has, zeros and what is not finite among them."""
    grads = np.exp2(rng.uniform(-74, 60, count)).astype(F)
    grads[:32], grads[40], grads[70], grads[80:90] = 0, np.nan, np.inf, 0
    grads[96:128] = 2.0**-74                                   # squares that no product makes
    grads[128:160] = np.exp2(rng.uniform(-12, 0, 32))
    grads[128] = 1
    return grads


def stored(storage, grads):
    """(path, codes, scales): Adam's v with beta2 = 0 is the square of a gradient."""
    compiled = program.Program(program.generated("adamw", storage))
    rows = compiled.rows([[len(grads)]])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    values.update({name: np.zeros_like(values[name]) for name in ("v", "v_scale", "w") if name in values})
    values.update(g=grads.view(np.uint32), lr=np.zeros(1), decay=np.zeros(1), beta2=np.zeros(1))
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        yield name, got.streams["v"].get(), got.streams["v_scale"].get() if "v_scale" in got.streams else None


def e5m2(codes):
    return codes.view(ml_dtypes.float8_e5m2).astype(F)


READ = {"bnb8u": lambda codes: books.table("bnb8u")[codes], "ocp.e5m2": e5m2,
        "ocp.e4m3fn": lambda codes: codes.view(ml_dtypes.float8_e4m3fn).astype(F), "uint8": lambda codes: codes.astype(F)}


@pytest.mark.parametrize("word", ["bnb8u:32", "ocp.e5m2:32", "ocp.e4m3fn:32", "ocp.e5m2:32:f16", "ocp.e5m2:32,toward_zero",
                                  "ocp.e4m3fn:32:f16,toward_zero", "uint8:32:f16,sqrt", "uint8:32,sqrt", "ocp.e5m2:32:ocp.e8m0"])
def test_positive_numbers_have_positive_codes_and_the_others_those_they_had(word):
    """The codes are those without the word but for 0s of positive numbers, which are 1s or as much more as a
    float32 needs to hold code times scale."""
    grads = roots(np.random.default_rng(3), 32 * 40)
    with np.errstate(all="ignore"):
        positive = (grads * grads > 0) & np.isfinite(grads)
    for (name, got, units), (_, plain, plain_units) in zip(stored(f"v={word},keep_positive", grads), stored(f"v={word}", grads),
                                                           strict=True):
        assert (got[positive] != 0).all() and not got[grads == 0].any(), name
        same = plain != 0
        if not word.startswith("uint8:32:f16"):
            np.testing.assert_array_equal(units, plain_units, err_msg=name)
        else:  # whose floor is above 0
            same &= (plain_units.view(np.float16) >= 2.0**-24).repeat(32)
            np.testing.assert_array_equal(np.maximum(plain_units, 1), units, err_msg=name)
        np.testing.assert_array_equal(got[same & positive], plain[same & positive], err_msg=name)
        assert (got[128:160][plain[128:160] == 0] == 1).all(), name
        dtype = {2: np.float16, 4: F}.get(units.itemsize)
        scales = units.view(dtype).astype(F) if dtype else np.ldexp(F(1), units.astype(int) - 127).astype(F)
        numbers = READ[word.partition(":")[0]](got) * scales.repeat(32)
        number = numbers / F(255) if "sqrt" in word else numbers
        assert ((number * number if "sqrt" in word else number)[positive & ~np.isnan(number)] > 0).all(), name


def test_without_a_scale_the_least_is_the_formats():
    grads = np.array([0, 2.0**-60, 2.0**-12, 1e-4, 1, np.nan] * 3, F)
    with np.errstate(all="ignore"):
        expected = np.where(grads == 0, 0, np.maximum(grads * grads, F(2.0**-24))).astype(np.float16)
    for name, got, _ in stored("v=f16,keep_positive", grads):
        np.testing.assert_array_equal(got.view(np.float16), expected, err_msg=name)
