"""Results depend on nothing but the data: alignment, order of tensors, threads, blocks, what ran before."""

import numpy as np
import pytest

import compare
import hostrun
import inputs
import program
import ptxrun
import templatecases
from buffers import Memory

needs_ptx = pytest.mark.skipif(not ptxrun.available(), reason="no PTX interpreter is built")


def compiled_case(rule, storage, *flags):
    templatecases.use_rule(rule)
    return program.Program(program.generated(rule, storage, *flags))


def prepared(compiled, sizes, groups=2, shifts=None, seed=3):
    rng = np.random.default_rng(seed)
    rows = compare.Rows(list(sizes), [i % groups for i in range(len(sizes))])
    values = templatecases.start_values(compiled, rows, rng)
    values = compare.fresh_inputs(compiled, values, rows, rng, 0.0)
    return Memory(compiled.signature, rows, shifts or [0] * len(sizes)).fill(values)


def expected_of(compiled, memory):
    return memory.twin(compare.reference(compiled, memory.rows, memory.values()))


def agree(compiled, memory, run, expected):
    got = memory.twin()
    run(got)
    compare.TOTAL.add(memory.rows)
    assert got.difference(expected) is None


@pytest.fixture(scope="module")
def mixed():
    return compiled_case("adamw", "param=bf16 grad=bf16 master=f32 m=ocp.e5m2 copy=ocp.e4m3fn",
                         "--unscale", "--clip")


@pytest.mark.parametrize("size", [40, 300, 4200])
def test_every_misalignment(mixed, size):
    """Views that begin 0 to 15 elements behind a 64-byte boundary, each stream elsewhere."""
    memory = prepared(mixed, [size] * 16, shifts=list(range(16)))
    expected = expected_of(mixed, memory)
    for name, run in compare.executors(mixed, {} if not ptxrun.available() else {"races": False}):
        agree(mixed, memory, run, expected)


@pytest.mark.parametrize("sizes", [[0], [0, 0, 0], [0, 5, 0], [1], [4096 * 3], [256] * 40])
def test_empty_and_even_tensors(mixed, sizes):
    memory = prepared(mixed, sizes)
    expected = expected_of(mixed, memory)
    for name, run in compare.executors(mixed, {"races": False} if ptxrun.available() else None):
        agree(mixed, memory, run, expected)


@pytest.mark.parametrize("level", program.HOST)
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_threads(mixed, level, threads):
    memory = prepared(mixed, [70000, 3, 4097, 0, 12288])
    if not hostrun.runs(level):
        pytest.skip(f"this CPU is not x86-64-{level}")
    agree(mixed, memory, hostrun.HostPlan(mixed, level, threads).run, expected_of(mixed, memory))


@needs_ptx
@pytest.mark.parametrize("target", program.PTX)
@pytest.mark.parametrize("blocks", [1, 2, 3, 7])
@pytest.mark.parametrize("order", [0, 1, 2], ids=["forward", "backward", "shuffled"])
def test_blocks(mixed, target, blocks, order):
    memory = prepared(mixed, [9000, 3, 4097, 0, 129])
    plan = ptxrun.PtxPlan(mixed, target, (blocks,), races=True, order=order)
    agree(mixed, memory, plan.run, expected_of(mixed, memory))


@needs_ptx
@pytest.mark.parametrize("target", program.PTX)
@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_each_row_is_done_by_one_block(target, blocks):
    """More rows than the threads of two blocks; a row done twice would count its step twice."""
    compiled = compiled_case("lamb", "param=f32")
    memory = prepared(compiled, [1] * 700 + [0, 9])
    plan = ptxrun.PtxPlan(compiled, target, (blocks,), races=True)
    agree(compiled, memory, plan.run, expected_of(compiled, memory))


@needs_ptx
@pytest.mark.parametrize("rule", templatecases.OPTIONS)
def test_no_races(rule):
    """The interpreter's race check over every template, with every reduction a step can have."""
    compiled = compiled_case(rule, "grad=bf16", "--unscale", "--clip")
    memory = prepared(compiled, [5000, 1, 0, 300])
    expected = expected_of(compiled, memory)
    for target in program.PTX:
        agree(compiled, memory, ptxrun.PtxPlan(compiled, target, (2,), races=True).run, expected)


def test_one_tensor_does_not_see_the_others(mixed):
    """Without a norm over all, a tensor's bytes are the same alone and among others."""
    compiled = compiled_case("lamb", "param=bf16 master=f32")
    memory = prepared(compiled, [300, 5000, 17], groups=1)
    together = memory.twin()
    run = hostrun.HostPlan(compiled, "v3").run
    run(together)
    start = 0
    for row, size in enumerate(memory.rows.numel):
        values = memory.values()
        part = {n: v[start:start + size] if n in memory.streams else
                (v[row:row + 1] if n == "t" else v) for n, v in values.items()}
        alone = Memory(compiled.signature, compare.Rows([size], [0]), [0]).fill(part)
        run(alone)
        for name, buffer in alone.streams.items():
            assert buffer.view(0).tobytes() == together.streams[name].view(row).tobytes(), name
        start += size


def test_order_of_tensors_does_not_matter_without_a_norm():
    compiled = compiled_case("adam", "m=bf16")
    sizes = [5, 4096, 0, 777]
    memory = prepared(compiled, sizes, groups=1)
    run = hostrun.HostPlan(compiled, "v4" if hostrun.runs("v4") else "v3").run
    plain = memory.twin()
    run(plain)
    parts = {n: np.split(v, np.cumsum(sizes)[:-1]) for n, v in memory.values().items()
             if n in memory.streams}
    turned = {n: (np.concatenate(parts[n][::-1]) if n in parts else (v[::-1] if n == "t" else v))
              for n, v in memory.values().items()}
    other = Memory(compiled.signature, compare.Rows(sizes[::-1], [0] * 4), [1, 0, 0, 3]).fill(turned)
    run(other)
    for name in memory.streams:
        for row in range(4):
            assert (plain.streams[name].view(row).tobytes()
                    == other.streams[name].view(3 - row).tobytes())


def test_specials_are_there():
    """The inputs hold what they promise."""
    rng = np.random.default_rng(0)
    codes = inputs.codes(rng, inputs.formats.KNOWN["f32"], 20000, 0.1)
    numbers = codes.view(np.float32)
    tiny = np.finfo(np.float32).tiny
    assert np.isnan(numbers).any() and np.isposinf(numbers).any() and np.isneginf(numbers).any()
    assert ((np.abs(numbers) < tiny) & (numbers != 0)).any() and (codes == 0x80000000).any()
    assert len(set(codes[np.isnan(numbers)])) > 1, "NaN payloads"


def test_the_interpreter_is_built():
    if not ptxrun.available():
        pytest.skip(f"{ptxrun.LIBRARY} is not there: PTX was not run at all")
