"""Every template in every storage: the reference, host code and interpreted PTX agree on every byte."""

import numpy as np
import pytest

import compare
import inputs
import program
import ptxrun
import templatecases

CASES = list(templatecases.all_cases())
MILLION = "adamw mixed", "lamb", "rmsprop copy"  # between them a clip, sums of tensors, masters and copies


def chosen(full):
    """Every template in every storage, with modes that go round, as 5 has no factor of 6 modes; all of them with
    ALTGRAD_DIFFERENTIAL_FULL=1."""
    return CASES if full else CASES[::5]


def sizes_of(index, full):
    """Every third of the small sizes and one of each boundary, in turns."""
    if full:
        return inputs.SIZES
    near = [inputs.SIZES[34 + 3 * group + (index + group) % 3] for group in range(3)]
    return [*range(index % 3, 34, 3), *near, 8197 if index % 4 == 0 else 40]


def check(case, sizes, seed, ptx):
    rng = np.random.default_rng(seed)
    templatecases.use_rule(case[0])
    targets = ("x86-64-v3", "x86-64-v4", *(program.PTX if ptx else ()))
    compiled = program.Program(templatecases.text_of(*case), targets)
    rows = compare.make_rows(sizes, 3, rng)
    shifts = [int(rng.integers(1, 16)) if i % 3 == 0 else 0 for i in range(len(rows.numel))]
    values = templatecases.start_values(compiled, rows, rng)
    compare.run_steps(compiled, rows, shifts, values, templatecases.schedule_for(compiled), rng, ptx)


@pytest.mark.parametrize("rule", templatecases.OPTIONS)
def test_every_storage(rule, full):
    ptx = {"races": False} if ptxrun.available() else None
    mine = [(i, c) for i, c in enumerate(CASES) if c[0] == rule and c in chosen(full)]
    assert len(mine) in ([48] if full else [9, 10])
    assert {c[2] for _, c in mine} == set(templatecases.STORAGES)
    for index, case in mine:
        try:
            check(case, sizes_of(index, full), index, ptx)
        except compare.Different as words:
            pytest.fail(f"{'-'.join(case)}: {words}")


@pytest.mark.parametrize("moving", templatecases.STILL)
@pytest.mark.parametrize("name", templatecases.STEPS)
def test_ties_and_special_codes_reach_every_store(name, moving):
    rule, storage, flags = templatecases.STEPS[name]
    templatecases.use_rule(rule.split("{")[0])
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng = np.random.default_rng(9)
    rows = compiled.rows([[12000, 333]], 1)
    start = compare.Memory(compiled.signature, rows, [0, 1]).fill(templatecases.still_values(compiled, rows, rng, moving))
    expected = start.twin(compare.reference(compiled, rows, start.values()))
    for machine, run in compare.executors(compiled, {"races": False} if ptxrun.available() else None):
        got = start.twin()
        run(got)
        compare.TOTAL.add(rows)
        assert got.difference(expected) is None, machine


@pytest.mark.parametrize("name", templatecases.STEPS)
def test_a_million_elements(name, full):
    """More chunks than a chunk has partial sums; roundings that a narrow format mostly hides."""
    if not full and name not in MILLION:
        pytest.skip("with ALTGRAD_DIFFERENTIAL_FULL=1")
    rule, storage, flags = templatecases.STEPS[name]
    templatecases.use_rule(rule.split("{")[0])
    compiled = program.Program(program.generated(rule, storage, *flags))
    rng = np.random.default_rng(4)
    rows = compiled.rows([[258 * ptxrun.CHUNK + 5, 7, 3]], 3)
    values = templatecases.start_values(compiled, rows, rng)
    templatecases.without_parameters(compiled, values)
    compare.run_steps(compiled, rows, [0, 1, 0], values, [(0.0, {})], rng,
                      {"races": False} if ptxrun.available() else None)
