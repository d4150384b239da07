"""The presets of Muon: what the constructor of another library's class has for defaults, as the runtime knows it."""

import ctypes
import math
from ctypes import c_char_p, c_double

from .._core import core
from .._library import Error, struct
from ._newton_schulz import SCALES


class _Numbers(struct("Numbers", lr=c_double, weight_decay=c_double, eps=c_double)):
    """altgrad_core_preset_numbers."""

    def given(self):
        numbers = {name: getattr(self, name) for name, _ in self._fields_}
        return {name: number for name, number in numbers.items() if not math.isnan(number)}


class Preset(struct("Preset", muon=_Numbers, adamw=_Numbers, options=c_char_p)):
    """altgrad_core_preset."""

    def arguments(self):
        """The constructor's arguments that it decides, which the library has as numbers and options of the rule."""
        options = dict(word.partition("=")[::2] for word in self.options.decode().split(",") if word)
        scales = {word: name for name, word in SCALES.items()}
        given = {"nesterov": False} if "plain" in options else {}
        given |= {f"ns_{key}": options[key] for key in ("coefficients", "length") if key in options}
        given |= {"adjust_lr_fn": scales[options["scale"]]} if "scale" in options else {}
        given |= {"flatten": options["flatten"] == "true"} if "flatten" in options else {}
        return given | self.muon.given()


def find_preset(name):
    """The Preset of this name; ValueError lists the known ones."""
    found = Preset()
    try:
        core().altgrad_core_find_preset(str(name).encode(), ctypes.byref(found))
    except Error as error:
        _, none_of, known = str(error).partition(", none of ")  # LibTorch has another word for presets
        if not none_of:
            raise
        raise ValueError(f"altgrad.optim.Muon: preset is {name!r}, none of {known}") from None
    return found
