"""Machines that are not here: what altgrad.amp asks of devices, answered by a test."""

from altgrad._precision import Device

T4, V100, P100 = ("T4", (7, 5)), ("V100", (7, 0)), ("P100", (6, 0))
A100, L40, H100, B200 = ("A100", (8, 0)), ("L40", (8, 9)), ("H100", (9, 0)), ("B200", (10, 0))


class Machine:
    """A query with these GPUs, and a CPU with these flags."""

    def __init__(self, *gpus, flags="", current=0):
        self._gpus, self._flags, self._current = gpus, frozenset(flags.split()), current

    def gpus(self):
        return tuple(Device(f"cuda:{index}", *gpu) for index, gpu in enumerate(self._gpus))

    def current(self):
        return self._current

    def cpu(self):
        return Device("cpu", "Old Faithful", flags=self._flags)
