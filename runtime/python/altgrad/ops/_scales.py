"""Where models that were pickled before look for their AmaxHistory."""

from ..quant import AmaxHistory as AmaxHistory
