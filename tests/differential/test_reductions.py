"""Many reductions in one sweep: more sums than shared memory holds, and words whose order does not matter."""

import functools
import itertools

import numpy as np
import pytest

import compare
import formats
import phaserun
import program
import ptxrun
import softmath
import templatecases

FORMATS = ("f32", "bf16", "ocp.e4m3fn")
ALL = {"races": True} if ptxrun.available() else None


def step(form):
    """Five sums in order, two maxima and a conjunction of the same two streams."""
    tensors = f"!altgrad.tensors<{form}>"
    kinds = {"a": "add", "b": "sumsq", "c": "add", "d": "sumsq", "e": "add", "f": "max", "g": "max"}
    signature = "".join(f", out %{name}: f32" for name in kinds)
    folds = "".join(f"%{name}1 = reduce {kind} %{v} over step : f32\n"
                    for (name, kind), v in zip(kinds.items(), "xxyyzxz"))
    commits = "".join(f", %{name}1 to %{name} : f32" for name in kinds)
    return f"""
      altgrad.step @s(in %p: {tensors}, in %q: !altgrad.tensors<f32>, out %h: f32{signature}) {{
        %pr = dequantize %p : {tensors}
        %qr = dequantize %q : !altgrad.tensors<f32>
        %x = element %pr
        %y = element %qr
        %z = arith.mulf %x, %y : f32
        {folds}
        %less = arith.cmpf ole, %x, %y : f32
        %every = reduce and %less over step : i1
        %h1 = arith.select %every, %a1, %b1 : f32
        commit always %h1 to %h : f32{commits}
      }}"""


@pytest.mark.parametrize("form", FORMATS)
def test_many_reductions_in_one_sweep(form):
    compiled = program.Program(step(form))
    rng = np.random.default_rng(11)
    rows = compiled.rows([[9000, 5, 4096, 257]])
    for shifts, special in ([0, 0, 0, 0], 0), ([0, 1, 3, 0], 0), ([0, 0, 1, 0], 0.1):
        values = templatecases.start_values(compiled, rows, rng, special)
        compare.run_steps(compiled, rows, shifts, values, templatecases.schedule_for(compiled), rng, ALL)


@pytest.mark.parametrize("infinite", [False, True])
def test_a_conjunction_hangs_on_one_element_of_all(infinite):
    """Rows in a number that four divides, after others; an infinity makes sums infinite and no NaN."""
    compiled = program.Program(step("bf16"))
    rng = np.random.default_rng(12)
    for wrong in (None, 0, 4100, 9005):
        rows = compiled.rows([[9000, 5, 0, 4096]])
        values = one_wrong(compiled, rows, rng, wrong, infinite)
        memory = compare.Memory(compiled.signature, rows, [0, 1, 0, 0]).fill(values)
        expected = memory.twin(compare.reference(compiled, rows, values))
        for machine, run in compare.executors(compiled, ALL):
            got = memory.twin()
            run(got)
            assert got.difference(expected) is None, (machine, wrong)


def one_wrong(compiled, rows, rng, wrong, infinite):
    values = templatecases.start_values(compiled, rows, rng, 0)
    values["q"] = bounds(values["p"], rows, rng)
    p = (values["p"].astype(np.uint32) << 16).view(np.float32)
    q = np.maximum(p, values["q"].view(np.float32))
    if infinite:
        p[7] = q[7] = np.inf
    if wrong is not None:
        q[wrong] = p[wrong] - 1
    return {**values, "p": (p.view(np.uint32) >> 16).astype(np.uint16), "q": q.view(np.uint32)}


#===-- The workspace: sums that a result may round away ----------------------------===#

TARGETS = ["x86-64-v3", "x86-64-v4", *program.PTX]


@functools.cache
def case(name):
    """A step of templatecases.py, or the one above, with tensors of many lengths."""
    if name not in templatecases.STEPS:
        compiled = program.Program(step("bf16"))
    else:
        rule, storage, flags = templatecases.STEPS[name]
        templatecases.use_rule(rule.split("{")[0])
        compiled = program.Program(program.generated(rule, storage, *flags))
    return compiled, [(memory, *phaserun.recorded(compiled, memory)) for memory in map(
        functools.partial(many_tensors, compiled), (False, True))]


def many_tensors(compiled, spoiled):
    """With an infinity in most gradients of `spoiled` ones, with few elements other than 0 in some of the others."""
    rng = np.random.default_rng(5)
    sizes = [9000, 5, 0, *range(250, 262), *[4096] * 20, *[256] * 300, 4097, 33]
    rows = compiled.rows([sizes[k:] for k in range(compiled.manifest["sets"])], 2)
    values = templatecases.start_values(compiled, rows, rng, special=0)
    values = compare.fresh_inputs(compiled, values, rows, rng, 0)
    for stream in compiled.manifest["streams"]:
        if stream["access"] == "in":
            for codes in np.split(values[stream["name"]], np.cumsum(rows.sizes(stream["name"]))[:-1]):
                form = formats.named(stream["format"])
                if spoiled and len(codes) and rng.random() < 0.8:
                    codes[rng.integers(len(codes))] = formats.encode(form, np.array([np.inf], np.float32))[0]
                elif len(codes) == 256 and rng.random() < 0.5:
                    codes[rng.permutation(256)[:248]] = 0
    if {"p", "q"} <= set(values) and not spoiled:
        values["q"] = bounds(values["p"], rows, rng)
    shifts = [row % 5 * (row % 2) for row in range(len(rows.numel))]
    return compare.Memory(compiled.signature, rows, shifts).fill(values)


def bounds(codes, rows, rng):
    """For the bf16 codes of %p numbers that are as large or larger, but for one in most tensors."""
    p = (codes.astype(np.uint32) << 16).view(np.float32)
    q = p + np.where(rng.random(len(p)) < 0.5, 0, np.abs(p)).astype(np.float32)
    starts = np.cumsum([0, *rows.numel[:-1]])
    less = [s + rng.integers(n) for s, n in zip(starts, rows.numel) if n and rng.random() < 0.8]
    q[less] = p[less] - 1
    return q.view(np.uint32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["reductions", "adamw mixed", "lamb"])
def test_every_partial_sum_is_the_references(name, target):
    if not phaserun.can_run(target):
        pytest.skip(f"{target} does not run here")
    compiled, memories = case(name)
    for memory in memories:
        assert phaserun.sums_missing(compiled, target, *memory) is None


COUNTS = [0, 1, 2, 7, 8, 9, 31, 32, 33, 63, 64, 65, 96, 97, 130, 161, 193, 225, 255, 256, 257, 300, 513, 0, 7, *range(257, 300, 2),
          1023, 1024, 1025, 2303, 16384, 16385, 20011, 3]
FOLDS = {"sum": ("add", np.float32), "maximum": ("max", np.float32), "conjunction": ("and", np.int32)}


def partials(rng, starts):
    """Random words; ascending ones, whose maximum is a tensor's last; ones that lack a bit at both ends of a tensor."""
    yield rng.standard_normal(starts[-1]).astype(np.float32).view(np.int32)
    yield np.arange(1, starts[-1] + 1, dtype=np.float32).view(np.int32)
    bits = np.full(starts[-1], -1, np.int32)
    for row, (first, end) in enumerate(zip(starts, starts[1:])):
        if first < end:
            bits[first] &= ~(1 << row % 2)
            bits[end - 1] &= ~(1 << 2 + row % 29)
    yield bits


def folded(compiled, target, *make_plan):
    """Per word of a chunk what the fold phases make of such words: a sum, a maximum, a conjunction or None. On a GPU
    they are a grid's, then the last block's of a sweep over nothing."""
    manifest = {**compiled.manifest, "workspace": {**compiled.manifest["workspace"], "spills": 0}}
    rows = compiled.rows([[n * ptxrun.CHUNK for n in COUNTS]] * compiled.manifest["sets"])
    nothing = compare.Rows([0] * len(rows.numel), rows.group, rows.set, rows.streams)
    memory = compare.Memory(compiled.signature, nothing, [0] * len(rows.numel))
    nothing.numel = rows.numel
    tables = ptxrun.Tables(manifest, memory)
    chunks, _ = phaserun.words(tables)
    starts = np.searchsorted([r for r, _ in tables.chunk_list], np.arange(len(rows.numel) + 1))
    on = phaserun.machine(compiled, target, *make_plan)
    on.map(tables)
    names = [set(FOLDS) for _ in chunks]
    for fill, by_last in itertools.product(partials(np.random.default_rng(6), starts), (False, True)):
        chunks[:] = fill.view(np.uint32)
        tables.row_words[:] = 0xA5
        for phase, goes_on in ptxrun.launches(tables.manifest, by_last and target.startswith("sm_")):
            if goes_on or phase["name"].startswith("fold"):
                words = tables.parameters(phase, goes_on)
                if phase["kind"] == "sweep":
                    words[-2:] = 0
                on.launch(phase["symbol"], words)
        _, sums = phaserun.words(tables)
        for number, known in enumerate(names):
            known &= {name for name, (kind, dtype) in FOLDS.items() if any(
                phaserun.holds(sums[number:number + 1, own], _folds(kind, fill.view(dtype), starts)[own])
                for own in map(rows.own, range(compiled.manifest["sets"])))}
    return [known.pop() if len(known) == 1 else None for known in names]


def _folds(kind, numbers, starts):
    parts = [numbers[a:b] for a, b in zip(starts, starts[1:])]
    if kind == "and":
        return np.array([np.bitwise_and.reduce(part, initial=-1) for part in parts], np.int32)
    return np.array([softmath.fold_chunks(kind, part) for part in parts], np.float32)


@pytest.mark.parametrize("target", TARGETS)
def test_folds_of_tensors_with_any_number_of_chunks(target):
    if not phaserun.can_run(target):
        pytest.skip(f"{target} does not run here")
    assert sorted(folded(program.Program(step("bf16"), (target,)), target)) == (
        ["conjunction"] + 2 * ["maximum"] + 5 * ["sum"])
