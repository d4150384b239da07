"""Optimizers of the library under a storage with narrow states. No rule of their own."""

from typing import Any

from .._storage.blocks import with_min_size
from .._storage.storage_line import LINE
from .._storage.streams import in_rule_names
from ._of_papers import Lion
from ._of_torch import Adam, AdamW

__all__ = ["Adam4bit", "Adam8bit", "AdamFp8", "AdamW4bit", "AdamW8bit", "AdamWFp8", "Lion8bit", "LionFp8"]

_MIN_SIZE = "min_8bit_size"
_ARGUMENT = """

    Args:
        min_8bit_size: From how many elements on a parameter has narrow states, 4096 where nothing is said. A group may say
            another number. In a storage line it is `min_size`, as in "m=bnb8:256,min_size:8192".
    """


class _MinSize:
    """Optimizers that take bitsandbytes' `min_8bit_size`, of a group too: it becomes a part of their storage."""

    def __init_subclass__(cls, **arguments: Any) -> None:
        if cls.__module__ == __name__:
            cls.__doc__ = cls.__doc__.rstrip() + _ARGUMENT
        super().__init_subclass__(**arguments)

    @classmethod
    def _new_words(cls, given):
        given = dict(super()._new_words(given))
        if (least := given.pop(_MIN_SIZE, None)) is not None:
            given[LINE] = cls._line_from(f"altgrad.optim.{cls.__name__}", cls._words, given.get(LINE), least)
        return given

    @classmethod
    def _line_from(cls, where, words, own, least):
        """The line of a storage and a user's own words; where these say min_size, that holds."""
        own = in_rule_names(own or "", cls._keys)
        return str(with_min_size(where, words, least) | with_min_size(where, own, least, anew=False))

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Adds a param_group, as torch's optimizers do, which may say a `min_8bit_size` of its own.

        Args:
            param_group: A dict with "params" and whatever differs from the defaults.

        Raises:
            ValueError, TypeError: As Optimizer's, or `min_8bit_size` is no number of elements.
        """
        if isinstance(param_group, dict) and param_group.get(_MIN_SIZE) is not None:
            line = self._line_from(self._next_group(), self._words, param_group.get(LINE), param_group[_MIN_SIZE])
            param_group = {**{key: value for key, value in param_group.items() if key != _MIN_SIZE}, LINE: line}
        super().add_param_group(param_group)


class AdamWFp8(_MinSize, AdamW):
    """AdamW with both moments in 8-bit floating point, and a float32 scale for 256 elements.

    2.03 bytes of state for an element instead of 8. `state` holds `exp_avg` as
    torch.float8_e4m3fn and `exp_avg_sq` as torch.float8_e5m2. Each is to be multiplied by its scales,
    `exp_avg_scale` and `exp_avg_sq_scale`, one for each block of elements that are neighbours in
    memory. A second moment above 0 is stored as at least the smallest code, 2^-31 of its block's
    largest: one that became 0 would make the next update many times the learning rate.
    Parameters of fewer than `min_8bit_size` elements keep float32.

    Rounded to nearest, `exp_avg_sq` lags behind: it grows where a gradient's square is many
    times as large, and falls with its block's largest alone. With
    `storage="v=ocp.e5m2:256,stochastic,keep_positive"` it follows on average, which
    takes a CPU more time. A word of `storage` replaces the class's own word for that state.
    """


class AdamFp8(_MinSize, Adam):
    """Adam with both moments in 8-bit floating point; `state` is laid out as AdamWFp8 describes.
    """


class LionFp8(_MinSize, Lion):
    """Lion with its momentum in 8-bit floating point, laid out as the first moment of AdamWFp8.
    """


class AdamW8bit(_MinSize, AdamW):
    """AdamW with both moments in the dynamic 8-bit maps of bitsandbytes and torchao, 256 elements to a scale.

    `state` holds torch.uint8 codes: `exp_avg` places in the signed map (`bnb8`), `exp_avg_sq`
    and the largest of amsgrad in the unsigned one (`bnb8u`), each beside the largest of every
    block as float32 under `<key>_scale` (Dettmers et al., 8-bit Optimizers via Block-wise Quantization,
    2021). Scales begin at 1e-12. What is not finite is stored as 0 is and has no part in a scale.
    Parameters of fewer than `min_8bit_size` elements keep float32.

    A second moment above 0 is stored as at least the map's smallest number, 3.3e-7 of its block's largest.
    The quantisers of torchao and bitsandbytes store 0 below half of that, and an update then divides
    by `eps` alone. `storage="states=bnb8u:256 m=bnb8:256"` stores torchao's bytes, and warns.
    """


class Adam8bit(_MinSize, Adam):
    """Adam with both moments in dynamic 8-bit maps; `state` is laid out as AdamW8bit describes.
    """


class AdamW4bit(_MinSize, AdamW):
    """AdamW with both moments in torchao's 4-bit maps, 128 elements to a scale.

    1.06 bytes of state for an element instead of 8. `state` holds torch.uint8, two codes to a
    byte: `exp_avg` places in the signed map (`torchao4`), `exp_avg_sq` and the largest of amsgrad
    in the unsigned one (`torchao4u`), which has no 0; each beside the largest of every block
    under `<key>_scale`. Codes and scales are those of torchao.optim.AdamW4bit (OptimState4bit),
    byte for byte: the even element's code is the upper half. A state has the shape of its
    parameter with half of the dimension whose elements are neighbours in memory; where that is
    odd, this dimension has all bytes and the others 1. Parameters of fewer than `min_8bit_size`
    elements keep float32.
    """


class Adam4bit(_MinSize, Adam):
    """Adam with both moments in 4-bit maps; `state` is laid out as AdamW4bit describes.
    """


class Lion8bit(_MinSize, Lion):
    """Lion with its momentum in the dynamic 8-bit map, laid out as the first moment of AdamW8bit.
    """
