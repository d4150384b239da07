"""Which floating-point format a job's devices should compute in, and why. Knows no torch: the
doctor asks, too.

| device | format |
|---|---|
| NVIDIA, capability 8.0 and newer | bfloat16, no loss scale |
| NVIDIA, capability 7.x | float16 with a loss scale: bfloat16 would be emulated |
| NVIDIA, older | float32: float16 is no faster there |
| AMD with bfloat16 matrix units | bfloat16; others float16 |
| CPU with avx512_bf16 or AMX | bfloat16; others float32 |
| anything else | float32 |
"""

from dataclasses import dataclass

# torch's names, the weaker first.
F32, F16, BF16 = FORMATS = ("float32", "float16", "bfloat16")

# In the words of /proc/cpuinfo; AMX counts where its tiles do.
_CPU_BF16 = ("avx512_bf16", "amx_bf16")

# MFMA since gfx908, WMMA since gfx11.
_AMD_BF16 = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")


@dataclass(frozen=True)
class Device:
    """One device; `place` is torch's name. NVIDIA has a capability, AMD an arch, a CPU flags."""

    place: str
    name: str = "unknown"
    capability: tuple[int, int] = (0, 0)
    arch: str = ""
    flags: frozenset[str] = frozenset()

    @property
    def type(self) -> str:
        """What torch calls this kind of device: "cpu", "cuda" or another."""
        return self.place.partition(":")[0]


@dataclass(frozen=True)
class Choice:
    """The format that was chosen, and which device decided it and why."""

    format: str
    why: str
    device: Device

    @property
    def bf16(self):
        return self.format == BF16

    def __str__(self):
        return f"{self.format}: {self.why}"


def choose(device):
    """The Choice for one device."""
    return Choice(*_CHOOSERS.get(device.type, _other)(device), device)


def weakest(choices):
    """The weakest of several Choices, which all their devices can do."""
    choices = list(choices)
    if not choices:
        raise ValueError("a job has at least one device, and no device was given")
    found = min(choices, key=lambda of: (FORMATS.index(of.format), of.device.capability))
    if len(choices) == 1:
        return found
    return Choice(found.format, f"{found.why} (the weakest of {len(choices)} devices)", found.device)


def _cuda(device):
    who = f"{device.place} ({device.name})"
    if device.arch:
        known = device.arch.startswith(_AMD_BF16)
        return ((BF16, f"{who} is {device.arch}") if known else
                (F16, f"{who} is {device.arch}, of which no bfloat16 units are known"))
    who += f" has capability {device.capability[0]}.{device.capability[1]}"
    if device.capability >= (8, 0):
        return BF16, who
    if device.capability >= (7, 0):
        return F16, f"{who}, and bfloat16 needs 8.0"
    return F32, f"{who}, and float16 is fast from 7.0"


def _cpu(device):
    who = f"{device.place} ({device.name})"
    found = [flag for flag in _CPU_BF16 if flag in device.flags]
    if found:
        return BF16, f"{who} has {' and '.join(found)}"
    return F32, f"{who} has neither {' nor '.join(_CPU_BF16)}"


def _other(device):
    return F32, f"{device.place} is a device of which altgrad knows no fast 16-bit format"


_CHOOSERS = {"cuda": _cuda, "cpu": _cpu}
