"""States whose blocks share a scale: every byte on every path, and against NumPy's arithmetic."""

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
CASES = [("adamw", "m=ocp.e4m3fn:128 v=ocp.e4m3fn:128", ["--clip"]),
         ("adamw", "param=bf16 grad=bf16 master=f32 states=ocp.e5m2:256", ["--unscale", "--clip"]),
         ("adam{amsgrad}", "m=ocp.e4m3fn:32 v=f16:32 vmax=bf16:32", []),
         ("lion", "param=bf16 grad=bf16 m=ocp.e4m3fn:64", ["--loss-scaler=torch", "--clip"]),
         ("sgd{momentum_on,nesterov}", "buf=ocp.e5m2:128", []),
         ("lamb", "param=f32 m=ocp.e4m3fn:256 v=f32", ["--clip"]),
         ("ademamix", "states=ocp.e4m3fn:256", ["--statistics"]),
         ("adamw", "m=bnb8:256 v=bnb8u:256", ["--clip"]),
         ("adam{amsgrad}", "param=bf16 grad=bf16 master=f32 states=bnb8u:32 m=bnb8:32", ["--unscale"]),
         ("lion", "param=bf16 grad=bf16 m=bnb8:128", ["--loss-scaler=torch", "--clip"]),
         ("adamw", "m=torchao4:128 v=torchao4u:128", []),
         ("adamw", "m=ocp.e4m3fn:128 v=bnb8u:256", ["--clip"]),
         ("adam{amsgrad}", "m=int8:32:f16,softsign v=ocp.e5m2:64 vmax=bf16:256 copy=mxfp8,ceil", ["--unscale"]),
         ("lion", "param=bf16,stochastic grad=bf16 m=bnb8:256 copy=mxfp8e5m2,stochastic", []),
         ("adamw", "m=bnb8:2048 v=bnb8u:2048,keep_positive", ["--clip"]),
         ("adamw", "m=ocp.e4m3fn:512 v=ocp.e5m2:1024,keep_positive", ["--unscale"]),
         ("adam{amsgrad}", "m=int8:2048:f16,softsign v=ocp.e5m2:64 vmax=bf16:512 copy=mxfp8,ceil", []),
         ("lion", "param=bf16,stochastic grad=bf16 m=torchao4:1024 copy=ocp.e4m3fn:2048", []),
         ("lamb", "m=bnb8:2048 v=bnb8u:512,keep_positive", ["--clip"]),
         ("adamw", "m=ocp.e4m3fn:1024 v=ocp.e5m2:64 copy=ocp.e4m3fn,delayed", ["--statistics", "--clip"]),
         ("sgd{momentum_on}", "param=bf16 grad=bf16 buf=bnb8:2048", ["--statistics", "--unscale"])]


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng = np.random.default_rng(11)
    rows = compiled.rows([SIZES])
    rows.offset = [256 * i * 2**26 for i in range(len(SIZES))]
    for shifts in ([0] * len(SIZES), [1, 0, 3, 0, 15, 2]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)


def blocks(values, size):
    return [values[i:i + size] for i in range(0, len(values), size)]


def decoded(codes, scales, size):
    numbers = codes.view(ml_dtypes.float8_e4m3fn).astype(np.float32)
    return np.concatenate([b * s for b, s in zip(blocks(numbers, size), scales)])


def encoded(numbers, size):
    """Codes and scales of e4m3fn; what is not finite has no part in a scale."""
    codes, scales = [], []
    for block in blocks(numbers, size):
        largest = np.abs(np.where(np.isfinite(block), block, 0)).max()
        scale = np.clip(np.float32(largest / np.float32(448)), np.float32(2.0**-120), np.float32(2.0**126))
        scaled = np.clip(block * (np.float32(1) / scale), -448, 448)
        codes.append(scaled.astype(ml_dtypes.float8_e4m3fn).view(np.uint8))
        scales.append(scale)
    codes = np.concatenate(codes)
    codes[codes == 0xFF] = 0x7F
    return codes, np.array(scales, np.float32)


def book_encoded(name, numbers, size):
    """Codes and scales of a code book, as torchao has them where all is finite."""
    codes, scales = [], []
    for block in blocks(numbers, size):
        largest = np.abs(np.where(np.isfinite(block), block, 0)).max()
        scales.append(np.clip(largest, np.float32(1e-12), np.float32(2.0**126)))
        codes.append(books.encode(name, np.where(np.isfinite(block), block / scales[-1], np.float32(np.nan))))
    return np.concatenate(codes), np.array(scales, np.float32)


@pytest.mark.parametrize("name", ["bnb8", "bnb8u", "torchao4", "torchao4u"])
def test_code_books_against_numpy(name):
    """As below, from states of zeros; what is not finite is stored as 0 is."""
    compiled = program.Program(program.generated("sgd{momentum_on}", f"buf={name}:32"))
    rng, count = np.random.default_rng(6), 1000
    rows = compiled.rows([[count]])
    values = templatecases.start_values(compiled, rows, rng, 0)
    grads = (rng.standard_normal(count) * np.exp2(rng.integers(-40, 40, count))).astype(np.float32)
    grads[:32] = 0
    grads[40], grads[70], grads[71] = np.nan, np.inf, -np.inf
    grads[96:128] = 1e-30                # below the least scale
    grads[128:160] = 3e38                # above the largest
    grads[160:200] = books.table(name)[rng.integers(0, len(books.table(name)), 40)]
    values.update(buf=np.zeros(count, np.uint8), buf_scale=np.zeros(32, np.uint32), g=grads.view(np.uint32),
                  lr=np.zeros(1), momentum=np.ones(1), dampening=np.zeros(1), decay=np.zeros(1),
                  w=np.zeros(count, np.uint32))
    with np.errstate(all="ignore"):
        codes, units = book_encoded(name, grads, 32)
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for machine, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        np.testing.assert_array_equal(got.streams["buf_scale"].get().view(np.float32), units, err_msg=machine)
        np.testing.assert_array_equal(got.streams["buf"].get(), codes, err_msg=machine)
    zero = books.zero_of(name)
    assert codes[40] == codes[70] == codes[71] == zero
    assert (codes[:32] == zero).all() and units[0] == np.float32(1e-12)


def test_codes_and_scales_against_numpy():
    """SGD with momentum 1 and lr 0 adds gradients to the buffer: what it stores is the codec alone."""
    compiled = program.Program(program.generated("sgd{momentum_on}", "buf=ocp.e4m3fn:32"))
    rng, count = np.random.default_rng(5), 300
    rows = compiled.rows([[count]])
    values = templatecases.start_values(compiled, rows, rng, 0)
    grads = (rng.standard_normal(count) * np.exp2(rng.integers(-100, 100, count))).astype(np.float32)
    grads[:32] = 0                       # a block of zeros
    grads[40], grads[70], grads[71] = np.nan, np.inf, -np.inf
    grads[96:128] = 1e-44                # subnormal numbers alone
    before = rng.integers(0, 0x78, count).astype(np.uint8)
    before[:128] = 0
    scales = np.full(10, 2.0**-3, np.float32)
    values.update(buf=before, buf_scale=scales.view(np.uint32), g=grads.view(np.uint32),
                  lr=np.zeros(1), momentum=np.ones(1), dampening=np.zeros(1), decay=np.zeros(1),
                  w=np.zeros(count, np.uint32), t=np.ones_like(values["t"]) if "t" in values else None)
    values = {name: value for name, value in values.items() if value is not None}
    with np.errstate(all="ignore"):
        codes, units = encoded(decoded(before, scales, 32) + grads, 32)
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        np.testing.assert_array_equal(got.streams["buf_scale"].get().view(np.float32), units, err_msg=name)
        np.testing.assert_array_equal(got.streams["buf"].get(), codes, err_msg=name)
    assert codes[40] == 0x7F and codes[70] == 0x7E and codes[71] == 0xFE and not codes[:32].any()
    assert np.count_nonzero(codes[32:64]) > 1 < np.count_nonzero(codes[64:96])


UNIFORM = """
  altgrad.rule @uniform(param %w: f32, grad %g: f32, state %s: f32, step %t: i64) {
    %x = sitofp %t : i64 to f32
    %w1 = subf %w, %g : f32
    altgrad.yield param(%w1) state(%x)
  }"""


@pytest.mark.parametrize("storage", ["s=bnb8:256", "param=bf16 s=ocp.e4m3fn:128", "s=bnb8:2048"])
def test_a_state_that_is_one_number_for_a_tensor(storage, tmp_path):
    """Its size is the scale of every block."""
    path = tmp_path / "uniform.mlir"
    path.write_text(UNIFORM)
    compiled = program.Program(program.generated(path, storage))
    rng, rows = np.random.default_rng(3), compiled.rows([SIZES])
    rows.offset = [256 * i * 2**26 for i in range(len(SIZES))]
    values = templatecases.start_values(compiled, rows, rng, 0.01)
    compare.run_steps(compiled, rows, [0] * len(SIZES), values, [(0.01, {}), (0.0, {})], rng, ALL)
