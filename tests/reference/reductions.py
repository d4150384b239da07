"""Sums over tensors in altgrad's one fixed shape (architecture 7.3), in NumPy f32.

chunk = 4096 elements of one tensor; lane = element mod 256, each in order; a
tree of strides 128 ... 1; the chunks' partials again over 256 lanes by plain
addition and the same tree; then tensor by tensor, in order.
"""

import numpy as np

from softfma import fma

CHUNK = 4096
LANES = 256


def _tree(lanes):
    lanes = lanes.copy()
    stride = LANES // 2
    while stride:
        lanes[..., :stride] = lanes[..., :stride] + lanes[..., stride:2 * stride]
        stride //= 2
    return lanes[..., 0]


def _lanes(values, accumulate):
    """256 elements after 256; lanes without an element keep what they have."""
    lanes = np.zeros(LANES, np.float32)
    for start in range(0, len(values), LANES):
        row = values[start:start + LANES]
        lanes[:len(row)] = accumulate(row, lanes[:len(row)])
    return lanes


def _add(x, acc):
    return acc + x


def chunk_partials(x, kind="sumsq"):
    """One partial sum per chunk of a tensor: of x ("add") or of x * x ("sumsq")."""
    x = np.ravel(x)
    accumulate = {"sumsq": lambda row, acc: fma(row, row, acc), "add": _add}[kind]
    with np.errstate(all="ignore"):
        sums = [_tree(_lanes(x[i:i + CHUNK], accumulate)) for i in range(0, len(x), CHUNK)]
    return np.array(sums, np.float32)


def over_tensor(x, kind="sumsq"):
    """altgrad.reduce add | sumsq %x over tensor."""
    with np.errstate(all="ignore"):
        return _tree(_lanes(chunk_partials(x, kind), _add))


def global_norm(tensors):
    """The L2 norm of a list of tensors: one square root at the end."""
    total = np.float32(0)
    with np.errstate(all="ignore"):
        for x in tensors:
            total = total + over_tensor(x)
        return np.sqrt(total)
