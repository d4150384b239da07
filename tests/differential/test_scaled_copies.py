"""Copies in MX formats, written by the sweep of the update: every byte on every path, and against NumPy."""

import numpy as np
import pytest

import compare
import mx
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [8193, 1, 33, 0, 4096, 320]
CASES = [("adamw", "copy=mxfp8", ["--clip"]),
         ("adamw", "param=bf16 grad=bf16 master=f32 copy=mxfp8e5m2,floor", ["--unscale", "--clip"]),
         ("lion", "copy=mxfp6e3m2,even m=mxfp8,ceil", ["--loss-scaler=torch"]),
         ("adamw", "param=bf16,stochastic copy=mxfp8,stochastic states=ocp.e5m2:32:ocp.e8m0", []),
         ("adamw", "param=bf16 grad=bf16 master=f32 copy=ocp.e4m3fn,delayed", ["--scaler", "--clip"]),
         ("lion", "copy=ocp.e5m2,delayed,pow2 m=ocp.e4m3fn:128", []),
         ("adamw", "copy=ocp.e4m3fn,current", ["--clip"]),
         ("lion", "param=bf16 grad=bf16 master=f32 copy=ocp.e5m2,current,pow2 m=ocp.e4m3fn:128", ["--scaler"]),
         ("adamw", "copy=ocp.e4m3fn,delayed:16", []),
         ("adam{amsgrad}", "param=bf16 grad=bf16 master=f32 copy=ocp.e4m3fn,bounded,pow2", ["--unscale", "--clip"]),
         ("sgd{momentum_on,nesterov}", "copy=ocp.e4m3fn:128 buf=int8:128:ocp.e8m0", ["--statistics"])]


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng = np.random.default_rng(12)
    rows = compiled.rows([SIZES])
    rows.offset = [256 * i * 2**26 for i in range(len(SIZES))]
    for shifts in ([0] * len(SIZES), [1, 0, 3, 0, 15, 2]):
        values = templatecases.start_values(compiled, rows, rng, 0.01)
        compare.run_steps(compiled, rows, shifts, values, [(0.01, {}), (0.0, {})], rng, ALL)


def quantized(numbers, form, rule):
    """(name of the path, codes, scales) of a copy of a parameter that its step does not move."""
    compiled = program.Program(program.generated("sgd", f"copy={form}:32:ocp.e8m0,{rule}"))
    rows = compiled.rows([[len(numbers)]])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    values.update(w=numbers.view(np.uint32), g=np.zeros(len(numbers), np.uint32), lr=np.zeros(1), decay=np.zeros(1))
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        yield name, got.streams["copy"].get(), got.streams["copy_scale"].get()


@pytest.mark.parametrize("rule", mx.RULES)
@pytest.mark.parametrize("form", mx.FORMATS)
def test_codes_and_scales_against_numpy(form, rule):
    """Scales are those of TransformerEngine's float_to_e8m0 or of OCP's rules, of every exponent."""
    numbers = mx.numbers_of_all_kinds(600, 3)[:-12]
    with np.errstate(all="ignore"):
        codes, scales = mx.encoded(numbers, rule, form)
    for name, got, units in quantized(numbers, form, rule):
        np.testing.assert_array_equal(units, scales, err_msg=name)
        np.testing.assert_array_equal(got, codes, err_msg=name)
    assert scales[40] == 0 and scales[41] == scales[44] == 255 and scales[42] == scales[43] == 254


@pytest.mark.parametrize("rule", mx.RULES)
def test_torchao_has_the_same_bytes_where_it_follows_the_rules(rule):
    """torchao 0.18 has another RCEIL (a logarithm, not a product) just above some powers of two."""
    to_mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor").to_mx
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    rng = np.random.default_rng(7)
    numbers = (rng.standard_normal(32 * 4000) * np.exp2(rng.integers(-60, 60, 32 * 4000))).astype(np.float32)
    scales, codes = to_mx(torch.from_numpy(numbers), torch.float8_e4m3fn, 32, ScaleCalculationMode[rule.upper()])
    for name, got, units in quantized(numbers, "ocp.e4m3fn", rule):
        np.testing.assert_array_equal(units, scales.view(torch.uint8).numpy().ravel(), err_msg=name)
        np.testing.assert_array_equal(got, codes.view(torch.uint8).numpy().ravel(), err_msg=name)


LARGEST = [1.0, 448.0, 3e-38, 1e-45, 3.4e38, 0.0, np.inf, np.nan, 449.0, 1.9999999]


def delayed_scale(largest, top, pow2):
    """TransformerEngine's compute_scale_from_amax: the mantissa is cut off for the power of two."""
    largest = np.float32(largest)
    scale = np.float32(1) if not 0 < largest < np.inf else min(np.float32(top) / largest, np.finfo(np.float32).max)
    return (np.float32(scale).view(np.uint32) & np.uint32(0xff800000)).view(np.float32) if pow2 else np.float32(scale)


@pytest.mark.parametrize("pow2", ["", ",pow2"])
@pytest.mark.parametrize("form, top", [("ocp.e4m3fn", 448), ("ocp.e5m2", 57344)])
def test_a_delayed_scale_is_that_of_the_step_before(form, top, pow2):
    """Codes, the scale that they are multiplied by, and the largest magnitude for the next step."""
    compiled = program.Program(program.generated("sgd", f"copy={form},delayed{pow2}"))
    rng, size = np.random.default_rng(4), 5000
    rows = compiled.rows([[size] * len(LARGEST)])
    numbers = (rng.standard_normal((len(LARGEST), size)) * np.exp2(rng.integers(-20, 9, (len(LARGEST), 1)))).astype(np.float32)
    numbers[8, 17], numbers[9, 4097] = np.nan, -np.inf
    values = templatecases.start_values(compiled, rows, rng, 0)
    values.update(w=numbers.ravel().view(np.uint32), g=np.zeros(numbers.size, np.uint32), lr=np.zeros(1),
                  decay=np.zeros(1), copy_amax=np.array(LARGEST, np.float32))
    with np.errstate(all="ignore"):
        scales = np.array([delayed_scale(x, top, pow2) for x in LARGEST])
        scaled = np.clip(numbers * scales[:, None], -top, top)
        codes = scaled.astype(mx.FORMATS[form][0]).view(np.uint8)
        codes[np.isnan(scaled)] = 0x7F
        memory = compare.Memory(compiled.signature, rows, [0] * len(LARGEST)).fill(values)
        for name, run in compare.executors(compiled, ALL):
            got = memory.twin()
            run(got)
            np.testing.assert_array_equal(got.streams["copy"].get(), codes.ravel(), err_msg=name)
            np.testing.assert_array_equal(got.scalars["copy_scale"], 1 / scales, err_msg=name)
            np.testing.assert_array_equal(got.scalars["copy_amax"], np.abs(numbers).max(1), err_msg=name)


def stepped(rule, storage, numbers, **given):
    """(path, memory) after a step of parameters in rows; what is not given is 0 for a step that moves nothing."""
    compiled = program.Program(program.generated(rule, storage))
    rows = compiled.rows([[numbers.shape[1]] * len(numbers)])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(4), 0)
    values.update(w=numbers.ravel().view(np.uint32), decay=np.zeros(1), **given)
    memory = compare.Memory(compiled.signature, rows, [0] * len(numbers)).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        yield name, got


def scaled(numbers, scales, form, top):
    product = np.clip(numbers * scales[:, None], -top, top)
    codes = product.astype(mx.FORMATS[form][0]).view(np.uint8)
    codes[np.isnan(product)] = 0x7F
    return codes.ravel()


@pytest.mark.parametrize("pow2", ["", ",pow2"])
@pytest.mark.parametrize("form, top", [("ocp.e4m3fn", 448), ("ocp.e5m2", 57344)])
def test_a_current_scale_is_that_of_what_is_written(form, top, pow2):
    rng = np.random.default_rng(5)
    numbers = (rng.standard_normal((6, 5000)) * np.exp2(rng.integers(-20, 9, (6, 1)))).astype(np.float32)
    numbers[2, 17], numbers[3, 4097], numbers[4] = np.nan, -np.inf, 0
    with np.errstate(all="ignore"):
        scales = np.array([delayed_scale(row, top, pow2) for row in np.abs(numbers).max(1)])
        codes = scaled(numbers, scales, form, top)
        for name, got in stepped("sgd", f"copy={form},current{pow2}", numbers, g=np.zeros(numbers.size, np.uint32),
                                 lr=np.zeros(1)):
            np.testing.assert_array_equal(got.streams["copy"].get(), codes, err_msg=name)
            np.testing.assert_array_equal(got.scalars["copy_scale"], 1 / scales, err_msg=name)


def test_a_delayed_scale_looks_back_as_far_as_is_said():
    """The largest finite one of three steps; they move on by one, and this step's is the newest."""
    past = np.array([[1, 5, 2], [7, 0, 0], [np.nan, 3, np.inf], [0, 0, 0], [np.inf] * 3], np.float32)
    numbers = np.random.default_rng(6).standard_normal((5, 300)).astype(np.float32)
    numbers[0, 0] = np.inf
    scales = np.array([delayed_scale(x, 448, "") for x in (5, 7, 3, 0, 0)])
    names = ["copy_amax", "copy_amax_1", "copy_amax_2"]
    with np.errstate(all="ignore"):
        for name, got in stepped("sgd", "copy=ocp.e4m3fn,delayed:3", numbers, g=np.zeros(numbers.size, np.uint32),
                                 lr=np.zeros(1), **dict(zip(names, past.T))):
            np.testing.assert_array_equal(got.scalars["copy_scale"], 1 / scales, err_msg=name)
            np.testing.assert_array_equal(got.streams["copy"].get(), scaled(numbers, scales, "ocp.e4m3fn", 448))
            after = np.stack([np.abs(numbers).max(1), past[:, 0], past[:, 1]])
            np.testing.assert_array_equal([got.scalars[key] for key in names], after, err_msg=name)


def farthest(beta1, beta2, t):
    """Definitions 1.1: how far a step of Adam goes, in rates."""
    r = beta1 * beta1 / beta2
    return (1 - beta1) / (1 - beta1**t) * np.sqrt((1 - beta2**t) / (1 - beta2) * (1 - r**t) / (1 - r))


@pytest.mark.parametrize("rule, decay", [("adam", 0.3), ("adamw", 0.0), ("adamw", 0.3), ("adamw", 30.0)])
def test_a_bounded_scale_is_by_what_no_step_passes(rule, decay):
    """(1 - lr decay) of the largest number before and lr C_t, and what rounding may add to that."""
    rng = np.random.default_rng(7)
    numbers = rng.standard_normal((4, 700)).astype(np.float32)
    times, before, grads = np.array([1, 10, 1000, 100000]), np.abs(numbers).max(1), rng.standard_normal(2800).astype(np.float32)
    bound = before * (abs(1 - 0.1 * decay) if rule == "adamw" else 1) + 0.1 * farthest(0.9, 0.999, times)
    compiled = program.Program(program.generated(rule, "copy=ocp.e4m3fn,bounded"))
    rows = compiled.rows([[700] * 4])
    values = templatecases.start_values(compiled, rows, rng, 0)
    values.update(w=numbers.ravel().view(np.uint32), g=grads.view(np.uint32), m=(0.1 * grads).view(np.uint32),
                  v=(grads**2).view(np.uint32), lr=np.array([0.1]), beta1=np.array([0.9]), beta2=np.array([0.999]),
                  eps=np.array([1e-8]), decay=np.array([decay]), t=times - 1, copy_amax=before)
    memory = compare.Memory(compiled.signature, rows, [0] * 4).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        run(got)
        share = got.scalars["copy_scale"] * 448 / bound
        assert (share >= 1).all() and (share < 1.016).all(), name
        after = np.abs(got.streams["w"].get().view(np.float32)).reshape(4, -1).max(1)
        np.testing.assert_array_equal(got.scalars["copy_amax"], after, err_msg=name)


@pytest.mark.parametrize("beta1, beta2", [(0.9, 0.999), (0.9, 0.95), (0.0, 0.9), (0.5, 0.3)])
def test_gradients_that_take_adam_farthest_stay_within_the_bound(beta1, beta2):
    """Those that Cauchy and Schwarz make an equation of: g_i = (beta1 / beta2)^-i; the bound is reached, not passed."""
    for t in (1, 2, 10, 100, 300):
        i = np.arange(1, t + 1)
        grads = (beta1 / beta2) ** (t - i) if beta1 else (i == t).astype(float)
        m = ((1 - beta1) * beta1 ** (t - i) * grads).sum() / (1 - beta1**t)
        v = ((1 - beta2) * beta2 ** (t - i) * grads**2).sum() / (1 - beta2**t)
        assert m / np.sqrt(v) <= farthest(beta1, beta2, t) * (1 + 1e-12)
        assert m / np.sqrt(v) > farthest(beta1, beta2, t) * (1 - 1e-9)
