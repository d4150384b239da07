"""Finds altgrad._native, which is built for one minor version of torch and of Python."""

import ctypes
import importlib.util
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader

import torch

from ._library import Error, find_library, library

_NAME = "altgrad._native"
_STEM = "altgrad_native.torch"


@cache
def native():
    """The module. Raises Error if there is none for this torch and this Python."""
    folder = find_library().parent
    minor = ".".join(torch.__version__.split(".")[:2])
    path = folder / f"{_STEM}{minor}{EXTENSION_SUFFIXES[0]}"
    if not path.is_file():
        others = ", ".join(sorted(found.name for found in folder.glob(_STEM + "*"))) or "none"
        raise Error(f"altgrad's native module for torch {minor} and this Python, {path.name}, is "
                    f"not in {folder}, which has {others}: build it against this torch with "
                    "tools/build.sh, or leave ALTGRAD_BINDER unset", "NOT_FOUND")
    runtime = ctypes.cast(library().altgrad_version, ctypes.c_void_p).value
    loader = ExtensionFileLoader(_NAME, str(path))
    try:
        module = importlib.util.module_from_spec(importlib.util.spec_from_loader(_NAME, loader))
        loader.exec_module(module)
    except ImportError as error:
        raise Error(f"{path} does not load beside torch {torch.__version__}: {error}",
                    "BROKEN") from error
    if module.runtime != runtime:
        raise Error(f"{path} found another libaltgrad.so than {find_library()}", "BROKEN")
    module.set_error(lambda words, status: Error(words, Error.NAMES[status]))
    return module
