"""Every Python process with this folder on PYTHONPATH takes torch's device $ALTGRAD_STANDS_FOR_CUDA for a CUDA device."""

import os
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import PathFinder


class StandIn(MetaPathFinder):
    """Sets it when the package is imported, and imports nothing before."""

    def find_spec(self, name, path, target=None):
        if name != "altgrad._binding.device_context":
            return None
        spec = PathFinder.find_spec(name, path)
        load = spec.loader.exec_module

        def exec_module(module):
            load(module)
            module.cuda_stand_in = os.environ["ALTGRAD_STANDS_FOR_CUDA"]

        spec.loader.exec_module = exec_module
        return spec


if "ALTGRAD_STANDS_FOR_CUDA" in os.environ:
    sys.meta_path.insert(0, StandIn())
