"""Rounding by a direction or by a draw, and the draws: exact fractions in f64, Philox in integers.

Written from definitions 6.1 and 6.2, by search in the table of a format's numbers: nothing here adds to bits.
"""

import numpy as np

import formats

_MULTIPLIERS, _INCREMENTS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)


def philox(counter, key, rounds=10):
    """The four words of Philox4x32: `counter` are four arrays of words, `key` two words."""
    c = [np.asarray(word, np.uint64) & _LOW for word in counter]
    k = [int(word) for word in key]
    for _ in range(rounds):
        first, second = c[0] * np.uint64(_MULTIPLIERS[0]), c[2] * np.uint64(_MULTIPLIERS[1])
        c = [(second >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), second & _LOW,
             (first >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), first & _LOW]
        k = [(word + more) & 0xFFFFFFFF for word, more in zip(k, _INCREMENTS)]
    return c


def counter(indices, step, tag, store, bits=16):
    """Four words: of the index >> 3 (of draws of 32 bits >> 2) in 64 bits, of the step, of the tag below the store's number."""
    call = np.asarray(indices).astype(np.uint64) >> np.uint64(3 if bits == 16 else 2)
    word = (np.asarray(tag).astype(np.uint64) & np.uint64(0xFFFFFF)) | np.uint64(store << 24)
    return np.broadcast_arrays(call & _LOW, call >> np.uint64(32), np.asarray(step).astype(np.uint64) & _LOW, word)


def draws(indices, seed, step, tag, store, bits=16):
    """16 bits for each global index: the lane index & 7 of the call index >> 3; 32: the word index & 3 of index >> 2."""
    indices = np.asarray(indices).astype(np.uint64)
    seed = int(seed) & 0xFFFFFFFFFFFFFFFF
    words = np.stack(philox(counter(indices, step, tag, store, bits), (seed & 0xFFFFFFFF, seed >> 32)))
    if bits == 32:
        place = (indices & np.uint64(3)).astype(int)
        return words[place, np.arange(len(indices))].astype(np.uint32) if len(indices) else np.empty(0, np.uint32)
    lane = (indices & np.uint64(7)).astype(int)
    word = words[lane >> 1, np.arange(len(indices))] if len(indices) else np.empty(0, np.uint64)
    return (word >> (np.uint64(16) * (lane & 1).astype(np.uint64)) & np.uint64(0xFFFF)).astype(np.uint16)


def encode(form, numbers, overflow, draw=None):
    """Codes toward zero, or away from it where 65536ths of the way to the next code and a draw reach 65536; or 2^32."""
    whole = 2.0**32 if draw is not None and draw.dtype == np.uint32 else 65536
    numbers = np.asarray(numbers, np.float32)
    negative, nan, infinite = np.signbit(numbers), np.isnan(numbers), np.isinf(numbers)
    values = formats._table(form)
    finite = int(np.flatnonzero(np.isfinite(values)).max())
    grid = np.concatenate([[] if form.zero else [0.0], values[:finite + 1],
                           [formats._plain(form, finite + 1), formats._plain(form, finite + 2)]])
    with np.errstate(all="ignore"):
        x = np.abs(numbers.astype(np.float64))
        low = np.clip(np.searchsorted(grid, x, side="right") - 1, 0, len(grid) - 2)
        way = np.floor((x - grid[low]) / (grid[low + 1] - grid[low]) * whole)
        way = np.where(np.isfinite(way), way, 0)
    if draw is not None:
        low = low + (way + draw.astype(np.int64) >= whole)
    code = np.clip(low - (not form.zero), 0, finite + (form.complement & negative))
    if form.complement:
        code = np.where(negative, -code, code) & ((1 << form.bits) - 1)
    elif form.signed:
        code = code | np.where(negative, form.magnitudes, 0)
    if overflow == "nonfinite" and form.nan != "none":
        top = (((1 << form.exponent) - 1) << form.mantissa) | np.where(negative, form.magnitudes, 0)
        code = np.where(infinite, top if form.inf else form.nan_code, code)
        nan = nan | (negative & (not form.signed) & (low > 0))
    elif not form.signed:
        code = np.where(negative, 0, code)
    return np.where(nan, form.nan_code, code).astype(form.code)


def move(form, codes, changes, draw=None, nearest=False):
    """The new code, and whether its place in the order of the form's numbers is another one, a higher one, and beyond the
    last number before it was cut there. Changes are rounded as the codes of whole numbers up to 511."""
    whole = formats.Format(0, 9, -9, False, "none")
    by = formats.encode(whole, changes, "saturate") if nearest else encode(whole, changes, "saturate", draw)
    size, negative = codes.astype(int) % form.magnitudes, (codes & form.magnitudes) > 0
    last = int(np.flatnonzero(np.isfinite(formats._table(form))).max())
    old = np.where(negative, -size, size)
    goal = old + formats.decode(whole, by).astype(int)
    new = np.where(size > last, old, np.clip(goal, -last, last))
    after = np.abs(new) + np.where(new < 0, form.magnitudes, 0)
    return after.astype(form.code), new != old, new > old, np.abs(goal) > last
