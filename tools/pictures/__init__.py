"""The pictures of tools/pictures.py: each function takes the options of the command and gives a matplotlib Figure."""

from .formats import draw_formats
from .muon import draw_muon
from .rungs import draw_rungs
from .states import draw_states

__all__ = ["draw_formats", "draw_muon", "draw_rungs", "draw_states"]
