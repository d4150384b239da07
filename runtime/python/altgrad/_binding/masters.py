"""Master copies, and what was written from outside into the parameters that they stand for."""

from operator import attrgetter

import torch

from .._library import library
from .layout import FORMATS, is_dense, same_order


class Masters:
    """`pairs`: (parameter, master) of tensors on the device of the Where `where`.

    `take(stepped)` takes edits of the parameters whose ids are among `stepped` into their masters, and `note(stepped)`
    is told after the step; version counters show in between that a parameter was edited.
    """

    def __init__(self, pairs, where):
        self._pairs, self._where = pairs, where
        self._params = [param for param, _ in pairs]
        self._version = _version_of if any([param.is_inference() for param in self._params]) else attrgetter("_version")
        self._versions, self._ids = [None] * len(pairs), set(map(id, self._params))

    def __bool__(self):
        return bool(self._pairs)

    def _now(self):
        return list(map(self._version, self._params))

    def note(self, stepped):
        now = self._now()
        self._versions = now if self._ids.issubset(stepped) else [
            version if id(param) in stepped else known
            for param, version, known in zip(self._params, now, self._versions)]

    def take(self, stepped):
        """Element by element: where the parameter still is the rounded master, the master
        keeps the bits that the parameter has no room for."""
        now = self._now()
        if now == self._versions:
            return
        for (param, master), version, known in zip(self._pairs, now, self._versions):
            if version == known or id(param) not in stepped:
                continue
            half = FORMATS.get(param.dtype) in ("bf16", "f16") and master.dtype == torch.float32
            if self._where.on_host and half and same_order(param, master.stride()) and is_dense(param):
                library().altgrad_take_edits(FORMATS[param.dtype].encode(), param.data_ptr(),
                                             master.data_ptr(), param.numel())
                continue
            edited = param != master.to(param.dtype)
            # Elsewhere this would wait for the device.
            if not self._where.on_host or edited.any():
                master.copy_(torch.where(edited, param.to(master.dtype), master))


def _version_of(tensor):
    return 0 if tensor.is_inference() else tensor._version
