"""States whose blocks share a scale: which parameters have them, and what their scales are."""

import torch

from .word import word_of

# The dtypes of scales, by how they are stored.
SCALES = {"f32": torch.float32, "f16": torch.float16, "ocp.e8m0": torch.float8_e8m0fnu,
          "ocp.e4m3fn": torch.float8_e4m3fn}


def has_blocks(word, numel):
    """Whether a state with this word has blocks beside a tensor of so many elements."""
    return word_of(word).block > 1 and numel >= word_of(word).min_size


def with_min_size(where, words, least, anew=True):
    """The words with this number of elements from which on states have blocks; `anew`: in the place of one that is there.

    Raises TypeError or ValueError, as of `where`, for what is no number of elements.
    """
    if not isinstance(least, int) or isinstance(least, bool):
        raise TypeError(f"{where}: min_8bit_size is {least!r}, not a whole number of elements")
    if not 0 <= least < 2**31:
        raise ValueError(f"{where}: min_8bit_size is {least}; it is a number of elements below 2147483648")
    return type(words)({name: _from(word, max(1, least), anew) if name != "copy" and word_of(word).block > 1 else word
                        for name, word in words.items()})


def _from(word, least, anew):
    pieces = word.split(",")
    kept = [piece for piece in pieces if not piece.startswith("min_size:")]
    return word if len(kept) < len(pieces) and not anew else ",".join([*kept, f"min_size:{least}"])


def min_sizes(words):
    """From how many elements on states have blocks in a storage: each number once, in order; none without blocks."""
    return sorted({word_of(word).min_size for name, word in words.items() if name != "copy" and word_of(word).block > 1})


# The key in `state` of a further copy whose blocks are of columns.
COLUMNS = "copy_columns"


def is_of_copy(key):
    """Whether a key of a state belongs to a further copy: the copy itself, its scales or its magnitudes."""
    return key == "copy" or key.startswith("copy_")


def span_of(word, key="copy"):
    """(elements of a block, or its rows where it goes over rows; then its columns, else 0)."""
    of = word_of(word)
    return (of.columns, of.columns) if of.columns else (of.block, int(key == COLUMNS))


def rows_of(param):
    """The rows of a tensor as a matrix whose columns are of its last dimension; 1 where it is empty."""
    return param.numel() // param.shape[-1] if param.dim() > 1 and param.numel() else 1


def scale_key(key):
    """The key in `state` of the scales of a state."""
    return key + "_scale"
