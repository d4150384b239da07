"""FlashOptim's companding of states: every byte on every path, against NumPy's arithmetic and against its own formulas."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [8193, 1, 33, 0, 4096, 300]
CASES = [("adamw", "m=int8:32:f16,softsign v=uint8:32:f16,sqrt", ["--clip"]),
         ("adamw", "param=bf16 grad=bf16 master=bf16+i16 m=int8:64,softsign v=uint8:64,sqrt", ["--unscale"]),
         ("lion", "states=int8:32:f16,softsign", ["--loss-scaler=torch"]),
         ("adamw", "m=int8:128:f16 v=ocp.e5m2:128:f16 copy=ocp.e4m3fn:128:f16", [])]
F = np.float32


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng = np.random.default_rng(13)
    rows = compiled.rows([SIZES])
    rows.offset = [256 * i * 2**26 for i in range(len(SIZES))]
    for shifts in ([0] * len(SIZES), [1, 0, 3, 0, 15, 2]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)


def scales_of(blocks, most):
    """The largest finite magnitude of each block, not below 1e-12."""
    return np.clip(np.abs(np.where(np.isfinite(blocks), blocks, 0)).max(1, keepdims=True), F(1e-12), F(most))


def softsign(blocks, scales):
    inside = np.clip(blocks, -scales, scales)
    codes = np.floor(inside / (scales + np.abs(inside)) * F(254) + F(0.5))
    return np.nan_to_num(codes).astype(np.int8).view(np.uint8)


def root(blocks, scales):
    return np.nan_to_num(np.floor(np.minimum(blocks, scales) / scales * F(255) + F(0.5))).astype(np.uint8)


def gradients(rng, count):
    grads = (rng.standard_normal(count) * np.exp2(rng.integers(-30, 12, count))).astype(F)
    grads[:32] = 0                                      # a block of zeros
    grads[40], grads[70], grads[71], grads[75] = np.nan, np.inf, -np.inf, -0.0
    grads[96:128] = 1e-20                               # below the least scale
    grads[128:160:3] = 3e38                             # above f16's largest number
    grads[160:192] = np.linspace(-1, 1, 32, dtype=F)
    return grads


def stored(rule, storage, stream, grads, **others):
    """(path, codes, scales) of a state that begins at 0, after a step without a rate."""
    compiled = program.Program(program.generated(rule, storage))
    rows = compiled.rows([[len(grads)]])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    for name, array in values.items():
        if name in (stream, stream + "_scale", "w"):
            values[name] = np.zeros_like(array)
    values.update(g=grads.view(np.uint32), lr=np.zeros(1), decay=np.zeros(1), **others)
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        yield name, got.streams[stream].get(), got.streams[stream + "_scale"].get()


@pytest.mark.parametrize("half", [True, False])
def test_a_momentum_is_bent_and_numbers_that_are_not_finite_spoil_no_neighbour(half):
    """SGD with momentum 1 and lr 0 adds gradients to a buffer of zeros: what it stores is the codec alone."""
    grads = gradients(np.random.default_rng(5), 32 * 40)
    blocks = grads.reshape(-1, 32)
    with np.errstate(all="ignore"):
        scales = scales_of(blocks, 65504 if half else 2.0**126)
        codes = softsign(blocks, scales).ravel()
    units = scales.ravel().astype(np.float16).view(np.uint16) if half else scales.ravel().view(np.uint32)
    for name, got, held in stored("sgd{momentum_on}", f"buf=int8:32{':f16' * half},softsign", "buf", grads,
                                  momentum=np.ones(1), dampening=np.zeros(1)):
        np.testing.assert_array_equal(held, units, err_msg=name)
        np.testing.assert_array_equal(got, codes, err_msg=name)
    assert codes[40] == 0 and codes[70] == 127 and codes[71] == 129 and not codes[:32].any() and not codes[75]
    assert np.count_nonzero(codes[64:96]) > 2 and codes[191] == 127 and codes[160] == 129


def test_a_second_moment_is_stored_by_its_root():
    """Adam with beta2 = 0 has the squares of gradients."""
    grads = gradients(np.random.default_rng(6), 32 * 40)
    with np.errstate(all="ignore"):
        roots = np.sqrt(grads * grads).reshape(-1, 32)
        scales = scales_of(roots, 65504)
        codes = root(roots, scales).ravel()
    for name, got, held in stored("adamw", "v=uint8:32:f16,sqrt", "v", grads, beta2=np.zeros(1)):
        np.testing.assert_array_equal(held, scales.ravel().astype(np.float16).view(np.uint16), err_msg=name)
        np.testing.assert_array_equal(got, codes, err_msg=name)
    assert codes[40] == 0 and codes[70] == codes[71] == 255 and not codes[:32].any()


def test_flashoptims_own_formulas_give_the_same_codes():
    """x / absmax, 2x / (1 + |x|), floor(127y + 0.5) one after the other in f32: but for the last bits of a half."""
    rng = np.random.default_rng(7)
    grads = (rng.standard_normal(32 * 4000) * np.exp2(rng.integers(-9, 9, 32 * 4000))).astype(F)
    blocks = grads.reshape(-1, 32)
    normalized = blocks / scales_of(blocks, 65504)
    bent = F(2) * normalized / (F(1) + np.abs(normalized)) * F(127)
    theirs = np.floor(bent + F(0.5)).astype(np.int8).ravel()
    sure = (np.abs(bent + 0.5 - np.round(bent + 0.5)) > 2e-5).ravel()
    for name, got, _ in stored("sgd{momentum_on}", "buf=int8:32:f16,softsign", "buf", grads,
                               momentum=np.ones(1), dampening=np.zeros(1)):
        assert (got.view(np.int8) == theirs)[sure].all(), name
    assert sure.mean() > 0.999


def test_codes_are_read_as_flashoptim_reads_them():
    """All codes under scales of every kind: SGD with momentum 1, lr -1 and a gradient of 0 adds the state to a 0."""
    codes = np.tile(np.arange(256, dtype=np.uint8), 30)
    units = np.random.default_rng(8).integers(0, 0x7c00, len(codes) // 32).astype(np.uint16)
    units[:3] = 0, 1, 0x7bff
    compiled = program.Program(program.generated("sgd{momentum_on}", "buf=int8:32:f16,softsign"))
    rows = compiled.rows([[len(codes)]])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    values.update(buf=codes, buf_scale=units, g=np.zeros(len(codes), np.uint32), w=np.zeros(len(codes), np.uint32),
                  lr=-np.ones(1), momentum=np.ones(1), dampening=np.zeros(1), decay=np.zeros(1))
    if "t" in values:
        values["t"] = np.ones_like(values["t"])
    y = codes.view(np.int8) / 127
    exact = y / (2 - np.abs(y)) * units.view(np.float16).astype(float).repeat(32)
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        moved = got.streams["w"].get().view(F)
        np.testing.assert_array_equal(moved, exact.astype(F), err_msg=name)
