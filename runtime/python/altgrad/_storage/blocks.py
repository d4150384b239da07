"""States whose blocks share a scale: which parameters have them, and what their scales are."""

import torch

from .word import word_of

# The dtypes of scales, by how they are stored.
SCALES = {"f32": torch.float32, "f16": torch.float16, "ocp.e8m0": torch.float8_e8m0fnu,
          "ocp.e4m3fn": torch.float8_e4m3fn}


def unblocked(words):
    """The words of a storage for a tensor that is too small for scales: float32 states, and the copy as asked."""
    return {name: "f32" if word_of(word).block > 1 and name != "copy" else word
            for name, word in words.items()}


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
