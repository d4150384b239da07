"""A step that the compiler made, on a machine of the model: its sweeps, and how long all of it takes."""

import json
import math
import os
import pathlib
import subprocess

import kernels
import sass
import simulate
from machine import BLOCK_WARPS, WARP
from small import Small

ROOT = pathlib.Path(__file__).resolve().parents[2]
CHUNK = kernels.CHUNK
LAST_BLOCK_ROWS = 512  # runtime/cuda/Cuda.cpp launches what a last block could do for more rows than these
WAVES = 3               # twice as many are simulated; what one more takes is known then


def compiler(*arguments):
    command = [os.environ.get("ALTGRAD_OPT", str(ROOT / "build/bin/altgrad-opt")), f"--rule-path={ROOT / 'templates'}"]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=120,
                          env=sass.ENVIRONMENT)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr[:2000]}")
    return done.stdout


class Shape:
    """Tensors of equal size, half of them of each kind where a step has two kinds."""

    def __init__(self, name, tensors, elements):
        self.name, self.tensors, self.elements = name, tensors, elements

    def chunks(self, sets):
        return self.tensors * math.ceil(self.elements / CHUNK) / sets

    def in_chunk(self):
        return min(CHUNK, self.elements)

    def total(self):
        return self.tensors * self.elements


class Step:
    def __init__(self, arguments, machine, folder):
        self.machine, self.name = machine, " ".join(arguments)
        self.manifest = json.loads(compiler(*arguments, "--emit=manifest"))
        cubin = os.path.join(folder, f"{machine.target}.cubin")
        ptx = compiler(*arguments, f"--target={machine.target}", "--emit=ptx")
        sass.assemble(ptx, machine.target, cubin)
        self.functions, self.phases = sass.read(cubin), self.manifest["phases"]
        self.sweeps, self.unaligned, self.faults, self._times = {}, {}, [], {}
        for phase in self.phases:
            if phase["kind"] == "sweep":
                try:
                    function = self.functions[phase["symbol"]]
                    if phase["block"] > 1:  # what unaligned tensors take there is not modelled
                        self.sweeps[phase["symbol"]] = kernels.InBlocks(function, phase, self.shared(phase))
                        self.unaligned[phase["symbol"]] = self.sweeps[phase["symbol"]]
                        continue
                    self.sweeps[phase["symbol"]] = kernels.Sweep(function, phase)
                    self.unaligned[phase["symbol"]] = kernels.Unaligned(function, phase, self.sizes(phase))
                except kernels.NoVectorLoop as fault:
                    self.faults.append((phase, str(fault)))

    def bytes(self, phase):
        return phase["read"] + phase["written"]

    def sizes(self, phase):
        """Bytes of an element in each stream of a sweep's set."""
        return [max(s["bits"] // 8, 1) for s in self.manifest["streams"] if s["set"] == phase["set"] and s["block"] == 1]

    def shared(self, phase):
        """Of an element's block: the bytes loaded and stored of each stream that has a value for all of it."""
        streams = [s for s in self.manifest["streams"] if s["set"] == phase["set"] and s["block"] > 1]
        byte = lambda s: s["bits"] / 8 / s["block"]  # noqa: E731
        return [((s["access"] != "out") * byte(s), (s["access"] != "in") * byte(s)) for s in streams]

    def narrowest(self, phase):
        """Bytes of an element in the narrowest stream that a sweep moves 16 bytes at a time."""
        sizes = self.sizes(phase)
        return phase["read"] if not phase["written"] and phase["read"] in sizes else min(sizes)

    def sweep_seconds(self, phase, shape, unaligned=False):
        """`unaligned`: of tensors that have a stream which is not 16-byte aligned."""
        key = (phase["symbol"], shape.name, unaligned)
        if key not in self._times:
            self._times[key] = self._sweep_seconds((self.unaligned if unaligned else self.sweeps)[phase["symbol"]], phase, shape)
        return self._times[key]

    def _sweep_seconds(self, sweep, phase, shape):
        machine = self.machine
        chunks = shape.chunks(self.manifest["sets"])
        wave = machine.processors * machine.resident_blocks(sweep.registers, sweep.shared) * phase["per_block"]
        if chunks <= 2 * WAVES * wave:
            result = simulate.run([simulate.Job(machine, sweep, chunks, shape.in_chunk())])[0]
            return machine.seconds(result.cycles)
        less, more = (simulate.Job(machine, sweep, n * wave, shape.in_chunk()) for n in (WAVES, 2 * WAVES))
        less, more = (result.cycles for result in simulate.run([less, more]))
        return machine.seconds(more + (more - less) * (chunks / wave / WAVES - 2))

    def small_seconds(self, phase, shape, in_last_block):
        function, machine = self.functions[phase["symbol"]], self.machine
        rows = shape.tensors
        # Since the last step tables have been driven out of the cache, and the first launch fetches them.
        latency = machine.memory_cycles if phase is self.phases[0] else machine.cache_cycles
        small = Small(function, machine, latency)
        if phase["domain"] == "once":
            return machine.seconds(small.once(rows))
        if phase["kind"] == "fold":
            warps = BLOCK_WARPS if in_last_block else 8 * BLOCK_WARPS * machine.processors
            return machine.seconds(small.fold(math.ceil(rows / warps), math.ceil(shape.elements / CHUNK)))
        return machine.seconds(small.rows(math.ceil(rows / (BLOCK_WARPS * WARP)) if in_last_block else 1))

    def launches(self, shape):
        """Lists of phases that one launch does."""
        at = 0
        while at < len(self.phases):
            more = self.phases[at].get("finishes", 0)
            more = more if shape.tensors <= LAST_BLOCK_ROWS else 0
            yield self.phases[at:at + 1 + more]
            at += 1 + more

    def seconds(self, shape, unaligned=False):
        """Of the step: its launches one after the other, with what lies between two, but nothing before the first, which
        no kernel can change. `unaligned`: in every sweep a stream is not 16-byte aligned, as where gradients begin an
        element later."""
        total, launches = 0, 0
        for first, *others in self.launches(shape):
            launches += 1
            if first["kind"] == "sweep":
                total += self.sweep_seconds(first, shape, unaligned)
            else:
                total += self.small_seconds(first, shape, False)
            total += sum(self.small_seconds(phase, shape, True) for phase in others)
        return total + (launches - 1) * self.machine.launch_us * 1e-6

    def measured_seconds(self, shape, unaligned=False):
        """What two events around the step would show: with the time before the first launch begins, and with what an
        H100 takes longer for every sweep than its instructions let expect."""
        machine, sweeps = self.machine, self.of("sweep")
        streams = sum(self.sweep_seconds(phase, shape, unaligned) for phase in sweeps)
        constant = machine.first_launch_us + machine.sweep_us * len(sweeps)
        return self.seconds(shape, unaligned) + streams * (1 / machine.streams - 1) + constant * 1e-6

    def least(self, phase, shape):
        """What a copy of a sweep's bytes takes."""
        moved = self.bytes(phase) * shape.total() / self.manifest["sets"]
        return moved / (self.machine.copy_tb_s * 1e12)

    def of(self, kind):
        return [phase for phase in self.phases if phase["kind"] == kind]

    def share_of_sweeps(self, shape):
        sweeps = self.of("sweep")
        return self.copies(shape) / sum(self.sweep_seconds(p, shape) for p in sweeps)

    def share(self, shape):
        return self.copies(shape) / self.seconds(shape)

    def copies(self, shape):
        """Seconds of a copy of all that the sweeps move."""
        return sum(self.least(p, shape) for p in self.of("sweep"))
