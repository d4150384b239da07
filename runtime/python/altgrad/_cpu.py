"""The CPU of this machine in the words of /proc/cpuinfo."""

import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Cpu:
    name: str
    machine: str
    flags: frozenset


def parse(text, machine):
    """The Cpu that the text of /proc/cpuinfo describes; its processors are alike."""
    facts = dict([part.strip() for part in line.split(":", 1)]
                 for line in text.splitlines() if ":" in line)
    return Cpu(facts.get("model name", "unknown CPU"), machine,
               frozenset(facts.get("flags", "").split()))


def read():
    """The Cpu of this machine."""
    return parse(Path("/proc/cpuinfo").read_text(errors="replace"), platform.machine())
