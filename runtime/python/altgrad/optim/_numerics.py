"""What an optimizer says of its rounding, and what it said of it under an older name."""

from .._warn import renamed, warn_renamed


def numerics_of(word):
    """`word`; raises ValueError unless it is None or "torch"."""
    if word not in (None, "torch"):
        raise ValueError(f"Invalid numerics value: {word}; it has to be None or 'torch'")
    return word


class Numerics:
    """How a step rounds beside the storage."""

    _numerics: str | None = None
    # An old keyword -> its new name.
    _renamed = {"profile": "numerics"}

    @property
    def numerics(self) -> str | None:
        """"torch", or None, as the constructor takes it. It can be changed between steps."""
        return self._numerics

    @numerics.setter
    def numerics(self, word: str | None) -> None:
        self._numerics = numerics_of(word)

    @property
    def profile(self) -> str | None:
        """The old name of `numerics`."""
        warn_renamed("optimizer.profile", "optimizer.numerics")
        return self.numerics

    @profile.setter
    def profile(self, word: str | None) -> None:
        warn_renamed("optimizer.profile", "optimizer.numerics")
        self.numerics = word

    @classmethod
    def _new_words(cls, given):
        """These keywords with new names for old ones."""
        return renamed(f"altgrad.optim.{cls.__name__}", given, cls._renamed)
