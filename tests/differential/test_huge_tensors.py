"""Chunks beyond 2^31 and 2^32 elements: chosen ones of a tensor that is too large to exist, in host code and in PTX."""

import ctypes
import functools
import mmap

import numpy as np
import pytest

import compare
import inputs
import phaserun
import program
import ptxrun
import templatecases

CHUNK = ptxrun.CHUNK
NUMEL = (1 << 32) + 3 * CHUNK + 77
# Each has its own place modulo 256: folded, they are like a tensor of 256 chunks with zeros between them.
CHOSEN = [1, (1 << 31) // CHUNK + 4, (1 << 31) // CHUNK + 5, (1 << 32) // CHUNK, NUMEL // CHUNK]
IDLE, UNTOUCHED = 2, 6
NO_RESERVE = 0x4000  # of Linux; the module mmap names it from Python 3.13 on


def sparse(size):
    """Zeros in address space without memory behind it."""
    return np.frombuffer(mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE), np.uint8)


class Stream:
    """One tensor."""

    def __init__(self, form, shift):
        self.size, self.numel, self.code, self.start = form.bits // 8, [NUMEL], form.code, shift * form.bits // 8
        self.bytes = sparse((NUMEL + 64) * self.size)

    def address(self, row):
        return self.bytes.ctypes.data + self.start

    def chunk(self, index):
        first, end = index * CHUNK, min(NUMEL, (index + 1) * CHUNK)
        return self.bytes[self.start + first * self.size:self.start + end * self.size].view(self.code)


class Huge:
    """What a Memory is to ptxrun.Tables; `values` are of the small tensor that looks the same."""

    def __init__(self, compiled, values, shift):
        self.rows, self.signature, self.streams = compare.Rows([NUMEL], [0]), compiled.signature, {}
        self.scalars = {}
        for name, _, _, kind in compiled.signature:
            if kind.startswith("!altgrad.tensors"):
                form = inputs.formats.named(kind.removeprefix("!altgrad.tensors<")[:-1])
                self.streams[name] = Stream(form, shift)
                for index in CHOSEN:
                    to = self.streams[name].chunk(index)
                    to[:] = values[name][index % 256 * CHUNK:][:len(to)]
            else:
                self.scalars[name] = values[name].copy()


class Tables(ptxrun.Tables):
    def __init__(self, manifest, memory):
        space = manifest["workspace"]
        super().__init__({**manifest, "workspace": {**space, "spills": 0}}, memory)
        self.spills = sparse(max(64, len(self.chunk_list) * CHUNK * 4 * space["spills"]))

    def items(self, phase):
        return (self.chunk, self.chunk + 1) if phase["domain"] == "chunks" else super().items(phase)

    def sweep(self, launch, phase):
        """Zeros first: what they leave is what the chunks that nobody runs would leave."""
        sums, _ = phaserun.words(self)
        before = sums[:, IDLE].copy()
        for self.chunk in [IDLE, *CHOSEN]:
            launch(phase["symbol"], self.parameters(phase))
            if self.chunk == IDLE and sums.shape[1]:
                new = before != sums[:, IDLE]
                sums[new] = sums[new, IDLE][:, None]


@functools.cache
def small(compiled):
    """The tensor of 256 chunks: values before and after."""
    rng, rows = np.random.default_rng(7), compare.Rows([256 * CHUNK], [0])
    values = templatecases.start_values(compiled, rows, rng, special=0)
    values = compare.fresh_inputs(compiled, values, rows, rng, 0)
    lived = np.zeros(256 * CHUNK, bool)
    for index in CHOSEN:
        lived[index % 256 * CHUNK:][:min(CHUNK, NUMEL - index * CHUNK)] = True
    for name, code in values.items():
        if len(code) == len(lived):
            code[~lived] = 0
    values = compare.Memory(compiled.signature, rows, [0]).fill(values).values()  # each in its own type
    return values, compare.reference(compiled, rows, values)


def difference(compiled, target, shift, values, expected, *make_plan):
    """What is wrong in the chosen chunks or beside them, in words, or None."""
    memory = Huge(compiled, values, shift)
    tables = Tables(compiled.manifest, memory)
    on = phaserun.machine(compiled, target, *make_plan)
    on.map(tables)
    for phase in compiled.manifest["phases"]:
        if phase["domain"] == "chunks":
            tables.sweep(on.launch, phase)
        else:
            on.launch(phase["symbol"], tables.parameters(phase))
    for name, stream in memory.streams.items():
        for index in CHOSEN:
            got = stream.chunk(index)
            if got.tobytes() != expected[name][index % 256 * CHUNK:][:len(got)].tobytes():
                return f"stream {name}, chunk {index}"
        if stream.chunk(UNTOUCHED).any() or stream.chunk(0).any():
            return f"stream {name}: a chunk that nobody chose was written"
    wrong = [n for n, v in memory.scalars.items() if v.tobytes() != expected[n].tobytes()]
    return f"scalars {wrong}" if wrong else None


@functools.cache
def compiled_step(rule, storage, *flags):
    templatecases.use_rule(rule)
    compiled = program.Program(program.generated(rule, storage, *flags))
    return compiled, small(compiled)


@pytest.mark.parametrize("step, shift", [
    (("adamw", "param=bf16 grad=bf16 master=f32 m=ocp.e5m2 copy=ocp.e4m3fn", "--unscale", "--clip"), 0),
    (("lamb", "param=f32"), 1), (("sgd", "param=bf16 grad=bf16"), 0), (("sgd", "param=bf16 grad=bf16"), 1)],
    ids=["adamw", "lamb", "sgd", "sgd-tail"])
@pytest.mark.parametrize("target", ["x86-64-v3", "x86-64-v4", *program.PTX])
def test_chosen_chunks(target, step, shift):
    if not phaserun.can_run(target):
        pytest.skip(f"{target} does not run here")
    compiled, (values, expected) = compiled_step(*step)
    assert difference(compiled, target, shift, values, expected) is None
