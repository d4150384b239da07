"""Turns numbers into codes and back on the CPU, as kernels store them. For files, not for steps."""

import hashlib
from functools import cache

import torch

from .._core import dtype_of
from .._library import library
from .blocks import SCALES
from .word import word_of

# The limits of a scale: ScaledBlocks.cpp; in f16 and of bent numbers.
_LEAST, _MOST = 2.0**-120, 2.0**126
_HALF_LEAST, _HALF_MOST, _BENT_LEAST = 2.0**-24, 65504.0, 1e-12
# What a word says where a number above 0 is not stored as 0.
KEEP_POSITIVE = "keep_positive"
# SHA-256 of bitsandbytes' and torchao's 256 float32 begins so; unsigned and signed.
_MAPS = {False: "305f002cc11278fb", True: "e732639a65f497b4"}


def encode(word, numbers, scaled=False):
    """Codes of float32 numbers under a word of storage, rounded to nearest: a tensor of one dimension.

    `scaled`: a scale keeps them within the format. Raises altgrad.Error for no format.
    """
    name, modifiers = word_of(word).format, word.split(",")[1:]
    numbers = numbers.detach().float().cpu().contiguous()
    if name == "f32":
        return numbers.clone()
    codes = torch.empty(numbers.shape, dtype=dtype_of(name), device="cpu")
    numbers = keep_positive(word, numbers)
    narrow = library().altgrad_format_bits(name.encode()) <= 8
    saturates = scaled or "saturate" in modifiers or (narrow and "nonfinite" not in modifiers)
    library().altgrad_format_encode(name.encode(), saturates, numbers.data_ptr(), codes.data_ptr(),
                                    numbers.numel())
    return codes


def decode(word, codes):
    """The float32 numbers of codes, one dimension of them. Raises altgrad.Error for no format."""
    name, codes = word_of(word).format, codes.detach().cpu().contiguous()
    if name == "f32":
        return codes.float()
    numbers = torch.empty(codes.shape, dtype=torch.float32, device="cpu")
    library().altgrad_format_decode(name.encode(), codes.data_ptr(), numbers.data_ptr(),
                                    codes.numel())
    return numbers


def spread(values, block, count):
    """Repeats the value of each block for all its elements, of which there are `count`."""
    return values.repeat_interleave(block)[:count]


def largest(numbers, block):
    """The largest finite magnitude of each block, the last of which may be short."""
    sizes = torch.where(numbers.isfinite(), numbers.abs(), 0.0)
    missing = -len(sizes) % block
    return torch.nn.functional.pad(sizes, (0, missing)).view(-1, block).amax(1)


def encode_blocks(word, numbers, block, by_kernel):
    """(codes, scales) as kernels store a state with a scale for each block.

    `by_kernel` is altgrad.ops' quantize_into, which scales that are powers of two come from.
    """
    name, half = word_of(word).format, word_of(word).scales == "f16"
    if word_of(word).scales not in ("f32", "f16"):
        return _encode_powers(word, numbers, by_kernel)
    most = _HALF_MOST if half else _MOST
    if bent := word_of(word).bent:
        codes, scales = _encode_bent(word, numbers, block, most)
        return codes, scales.half() if half else scales
    top = decode(name, encode(name, torch.tensor([torch.inf], dtype=torch.float32, device="cpu"), scaled=True))
    least = library().altgrad_book_least_scale(name.encode())
    scales = (largest(numbers, block) / top).clamp(least or (_HALF_LEAST if half else _LEAST), most)
    scales = scales.half() if half else scales
    return encode_under(word, numbers, scales, block), scales


def encode_under(word, numbers, scales, block):
    """The codes of numbers under these scales."""
    name, units = word_of(word).format, spread(scales.float(), block, len(numbers))
    numbers = keep_positive(word, _rooted(word, numbers), units)
    if word_of(word).bent:
        return _bend(word, numbers, units)
    least = library().altgrad_book_least_scale(name.encode())
    return encode(name, numbers / units if least else numbers * (1 / units), scaled=True)


def _encode_powers(word, numbers, by_kernel):
    """The same with scales that are powers of two, by the kernel itself."""
    numbers = numbers.detach().float().cpu().contiguous()
    codes = torch.empty(numbers.shape, dtype=dtype_of(word_of(word).format), device="cpu")
    scales = torch.empty(-(-len(numbers) // word_of(word).block), dtype=SCALES[word_of(word).scales], device="cpu")
    modifiers = [part for part in word.split(",") if part not in ("stochastic", KEEP_POSITIVE)]
    by_kernel(numbers, codes, scales, ",".join(modifiers))
    if KEEP_POSITIVE in word.split(","):
        kept = keep_positive(word, numbers, spread(scales.float(), word_of(word).block, len(numbers)))
        by_kernel(kept, codes, scales, ",".join(modifiers))
    return codes, scales


@cache
def _least_share(name, bent):
    """What a number is over its scale where it has the smallest positive code; 0 where no code is 0."""
    if bent:
        return 1 / (255 if bent == "sqrt" else 253)
    codes = torch.arange(256, device="cpu").to(torch.uint8)
    dtype = dtype_of(name)
    codes = codes[:2**min(8, library().altgrad_format_bits(name.encode()))]
    numbers = decode(name, codes.view(dtype) if dtype.itemsize == 1 else codes.to(torch.int16).view(dtype))
    return numbers[numbers > 0].min().item() if (numbers == 0).any() else 0


def keep_positive(word, numbers, units=None):
    """Where a word says so, numbers above 0 are at least what the smallest positive code stands for
    (dialect/frontend/BlockCodec.cpp). `units` are the scales of each element; None where there are none."""
    share = _least_share(word_of(word).format, word_of(word).bent) if KEEP_POSITIVE in word.split(",") else 0
    if not share:
        return numbers
    share = torch.tensor(share, dtype=torch.float32, device="cpu") * torch.tensor(1.001, dtype=torch.float32, device="cpu")
    least = share if units is None else (units * share).clamp(2.0**-126)
    return torch.where(numbers > 0, torch.maximum(numbers, least), numbers)


def decode_blocks(word, codes, scales, block):
    """The numbers of codes with scales."""
    numbers, units = decode(word, codes), spread(scales.cpu().float(), block, len(codes))
    bent = word_of(word).bent
    if bent == "softsign":
        return numbers * units / (254 - numbers.abs())
    return (numbers * units * (1 / 255)).square() if bent else numbers * units


def _encode_bent(word, numbers, block, most):
    """FlashOptim's companding, as dialect/frontend/Companding.cpp has it."""
    floored = KEEP_POSITIVE in word.split(",") and word_of(word).scales == "f16"
    scales = largest(_rooted(word, numbers), block).clamp(_HALF_LEAST if floored else _BENT_LEAST, most)
    units = spread(scales, block, len(numbers))
    return _bend(word, keep_positive(word, _rooted(word, numbers), units), units), scales


def _rooted(word, numbers):
    # In float64: torch's root of a float32 is off by a place in one case of five.
    return numbers.double().sqrt().float() if word_of(word).bent == "sqrt" else numbers


def _bend(word, numbers, units):
    """The codes of numbers, or of their roots."""
    within = torch.minimum(numbers, units)
    if word_of(word).bent == "sqrt":
        places, dtype = within / units * 255, torch.uint8
    else:
        within = torch.maximum(within, -units)
        places, dtype = within / (units + within.abs()) * 254, torch.int8
    return (places + 0.5).floor().nan_to_num(0).to(dtype)


@cache
def dynamic_map(signed, exponents=7):
    """bitsandbytes' and torchao's dynamic map: 256 float32 in order, or torchao's 16 of 3 exponents.

    create_dynamic_map of bitsandbytes/functional.py: means of neighbours in linspace(0.1, 1, n),
    in float32, times powers of ten. Raises RuntimeError if this torch gives other bits.
    """
    numbers = [0.0, 1.0]
    for i in range(exponents):
        ends = torch.linspace(0.1, 1, 2**(i if signed else i + 1) + 1, dtype=torch.float32, device="cpu")
        means = (10**(i - exponents + 1) * ((ends[:-1] + ends[1:]) / 2.0)).tolist()
        numbers += means + [-mean for mean in means] * signed
    made = torch.tensor(sorted(numbers), dtype=torch.float32, device="cpu")
    digest = hashlib.sha256(made.numpy().tobytes()).hexdigest()
    if exponents == 7 and not digest.startswith(_MAPS[signed]):
        raise RuntimeError("altgrad.transcode: torch.linspace gives other bits here than those of "
                           "which bitsandbytes' code book is made")
    return made


def book_codes(numbers, book):
    """The place of the nearest entry of an ordered book in float32; from the middle on the upper
    one, as in torchao's quantize_8bit_with_qmap."""
    below = (torch.searchsorted(book, numbers, right=True) - 1).clamp(0, len(book) - 1)
    above = (below + 1).clamp(max=len(book) - 1)
    near = numbers - book[below] >= (book[above] - book[below]) * 0.5
    return torch.where(near, above, below).to(torch.uint8)


def encode_book(numbers, book, block, least=0.0):
    """(places, scales) of finite numbers: a scale is its block's largest magnitude, and `least`."""
    scales = largest(numbers, block).clamp(min=least)
    units = torch.where(scales > 0, scales, 1.0)
    return book_codes(numbers / spread(units, block, len(numbers)), book), scales


def decode_book(places, book, scales, block):
    """The numbers of places in a book."""
    return book[places.long()] * spread(scales, block, len(places))
