"""The codec of MX formats in NumPy, on the bits of numbers: scales by the four rules, and codes."""

import ml_dtypes
import numpy as np

# dtype, exponent of the largest number, largest number, bits of the mantissa
FORMATS = {"ocp.e4m3fn": (ml_dtypes.float8_e4m3fn, 8, 448.0, 3), "ocp.e5m2": (ml_dtypes.float8_e5m2, 15, 57344.0, 2),
           "ocp.e3m2": (ml_dtypes.float6_e3m2fn, 4, 28.0, 2), "ocp.e2m3": (ml_dtypes.float6_e2m3fn, 2, 7.5, 3),
           "ocp.e2m1": (ml_dtypes.float4_e2m1fn, 2, 6.0, 1)}
RULES = "rceil", "floor", "ceil", "even"


def scale_byte(largest, rule, form):
    """The byte of ocp.e8m0 for a block whose largest magnitude is `largest`, an f32."""
    _, top, most, mantissa = FORMATS[form]
    if np.isnan(largest) or np.isinf(largest):
        return 255 if np.isnan(largest) else 254
    if rule == "rceil":  # TransformerEngine's float_to_e8m0 of a product
        bits = int((np.float32(largest) * np.float32(1 / most)).view(np.uint32))
        exponent, rest = bits >> 23, bits & 0x7fffff
        return exponent + (rest > 0 and exponent != 254 and not (exponent == 0 and rest <= 0x400000))
    if largest == 0:
        return 0
    bits = int(np.float32(largest).view(np.uint32))
    number = float(largest)
    if rule == "even":
        number = float(np.uint32(bits + (1 << (22 - mantissa))).view(np.float32))
        number = 2.0**128 if np.isinf(number) or np.isnan(number) else number
    fraction, exponent = np.frexp(number)  # number = fraction * 2^exponent, from 1/2 on
    power = int(exponent) - 1 + (rule == "ceil" and fraction != 0.5)
    return int(np.clip(power - top + 127, 0, 254))


def codes_of(block, byte, form):
    dtype, _, most, _ = FORMATS[form]
    if byte == 255:
        scaled = np.full(len(block), np.nan)
    else:
        scaled = np.clip(np.ldexp(block.astype(np.float64), 127 - byte), -most, most)
    codes = np.where(np.isnan(scaled), 0, scaled).astype(np.float32).astype(dtype).view(np.uint8)
    return np.where(np.isnan(scaled), 0 if form in ("ocp.e3m2", "ocp.e2m3", "ocp.e2m1") else 0x7F, codes).astype(np.uint8)


def encoded(numbers, rule, form, size=32, finite=False):
    """(codes, scale bytes); `finite`: what is not finite has no part in a scale."""
    codes, scales = [], []
    for start in range(0, len(numbers), size):
        block = numbers[start:start + size]
        sizes = np.abs(block)
        scales.append(scale_byte((np.where(np.isfinite(block), sizes, 0) if finite else sizes).max(), rule, form))
        codes.append(codes_of(block, scales[-1], form))
    return np.concatenate(codes), np.array(scales, np.uint8)


def by_columns(numbers, rule, form):
    """Codes and scales of a matrix: those of its columns as rows, filled up with zeros, which are no block's largest."""
    filled = np.zeros((numbers.shape[1], -(-numbers.shape[0] // 32) * 32), np.float32)
    filled[:, :numbers.shape[0]] = numbers.T
    codes, scales = encoded(filled.ravel(), rule, form)
    return codes.reshape(filled.shape).T[:numbers.shape[0]].ravel(), scales.reshape(len(filled), -1).T.ravel()


def squares_of(numbers, side=128):
    """(number, slices) of the square blocks of a matrix, row by row."""
    across = -(-numbers.shape[1] // side)
    for i in range(0, numbers.shape[0], side):
        for j in range(0, numbers.shape[1], side):
            yield i // side * across + j // side, (slice(i, i + side), slice(j, j + side))


def by_squares(numbers, form, rule=None, pow2=False, side=128):
    """Codes and scales of a matrix in square blocks: f32 by TransformerEngine's formula (definitions 4.7), or bytes."""
    _, _, most, _ = FORMATS[form]
    codes, scales = np.empty(numbers.shape, np.uint8), {}
    for number, place in squares_of(numbers, side):
        block = numbers[place]
        largest = np.abs(block).max()
        if rule:
            scales[number] = scale_byte(largest, rule, form)
            codes[place] = codes_of(block.ravel(), scales[number], form).reshape(block.shape)
            continue
        factor = np.float32(1)
        if 0 < largest < np.inf:
            factor = min(np.float32(most) / largest, np.finfo(np.float32).max)
        if pow2:
            factor = np.float32(np.ldexp(0.5, np.frexp(factor)[1]))
        scales[number] = np.float32(1) / factor
        codes[place] = codes_of((block * factor).ravel(), 127, form).reshape(block.shape)
    held = np.array([scales[number] for number in range(len(scales))], np.uint8 if rule else np.float32)
    return codes.ravel(), held if rule else held.view(np.uint32)


def numbers_of_all_kinds(blocks, seed):
    """Blocks of 32 f32 of every exponent, powers of two and their neighbours, zeros, NaN, infinities."""
    rng = np.random.default_rng(seed)
    exponents = rng.integers(-149, 128, blocks)
    exponents[:277] = np.arange(-149, 128)[:blocks]
    largest = np.ldexp(rng.uniform(1, 2, blocks), exponents)
    for place, factor in ((1, 1.0), (2, 1 - 2.0**-24), (3, 1 + 2.0**-23), (4, 1.75), (5, 1.75 * (1 + 2.0**-23)),
                          (6, 1.9375), (7, 1.875)):
        largest[place::9] = np.ldexp(factor, exponents[place::9])
    with np.errstate(all="ignore"):
        made = (rng.uniform(-1, 1, (blocks, 32)) * np.exp2(-rng.integers(0, 12, (blocks, 32)))
                * largest[:, None]).astype(np.float32)
        made[np.arange(blocks), rng.integers(0, 32, blocks)] = largest
    made[40], made[41, 5], made[42, 7], made[43, 8], made[44, :2] = 0, np.nan, np.inf, -np.inf, (np.nan, np.inf)
    made[45] = np.float32(1e-45)
    return made.ravel()


def two_levels(numbers, largest):
    """NVFP4 by TransformerEngine's formula (definitions 4.6): (bytes of codes, scales of blocks, scale of the tensor).

    `largest` is the tensor's, of a step before.
    """
    blocks = np.pad(numbers, (0, -len(numbers) % 16)).reshape(-1, 16)
    levels, inverse, unit = _levels(np.abs(blocks).max(1), largest)
    return packed(_e2m1(blocks, inverse[:, None]).ravel()[:len(numbers)]), levels, unit


def two_levels_by_squares(matrix, largest, side=16):
    """The same of squares: TransformerEngine's blocks of weights, which its NVFP4QuantizerRef
    (pytorch/custom_recipes/reference_nvfp4.py, quant_tile_shape=(16, 16)) says once for each row."""
    tops = {number: np.abs(matrix[place]).max() for number, place in squares_of(matrix, side)}
    levels, inverse, unit = _levels(np.array([tops[number] for number in range(len(tops))], np.float32), largest)
    codes = np.empty(matrix.shape, np.uint8)
    for number, place in squares_of(matrix, side):
        codes[place] = _e2m1(matrix[place], inverse[number])
    return packed(codes.ravel()), levels, unit


def _levels(tops, largest):
    """The bytes of blocks' scales, what their numbers are multiplied by, and the tensor's scale."""
    most, f32 = np.finfo(np.float32).max, np.float32
    scale = min(f32(448 * 6) / f32(largest), most) if 0 < largest < np.inf else f32(1)
    unit = f32(1) / f32(scale)
    wanted = tops * (f32(scale) * f32(1 / 6))
    levels = np.clip(wanted, None, f32(448)).astype(ml_dtypes.float8_e4m3fn)
    inverse = np.minimum(f32(1) / (levels.astype(np.float32) * unit), most)
    return np.where(np.isnan(wanted), 0x7F, levels.view(np.uint8)).astype(np.uint8), inverse, unit


def _e2m1(numbers, inverse):
    scaled = np.clip(numbers * inverse, -6, 6)
    return np.where(np.isnan(scaled), 0, scaled).astype(ml_dtypes.float4_e2m1fn).view(np.uint8)


def packed(codes):
    """Two codes to a byte, the first one below."""
    codes = np.append(codes, np.zeros(len(codes) % 2, np.uint8))
    return codes[::2] | codes[1::2] << 4
