"""Several lists of different tensors in one step: one norm, one condition, one program."""

import ctypes

import numpy as np
import pytest

import compare
import hostrun
import program
import ptxrun
import templatecases

MIXED = (program.TEMPLATES / "steps" / "adamw_mixed.mlir").read_text()
ALL = {"races": True} if ptxrun.available() else None


def agree(compiled, parts, schedule, seed=5):
    """The last values, after every machine has agreed with the reference."""
    rng = np.random.default_rng(seed)
    rows = compiled.rows(parts, groups=2)
    shifts = [int(s) for s in rng.choice([0, 0, 1, 3, 15], len(rows.numel))]
    values = templatecases.start_values(compiled, rows, rng)
    return compare.run_steps(compiled, rows, shifts, values, schedule, rng, ALL)


@pytest.fixture(scope="module")
def mixed():
    templatecases.use_rule("adamw")
    return program.Program(MIXED)


@pytest.mark.parametrize("parts", [([5000, 3, 0, 257], [7, 4096]), ([9], []), ([], [4099, 1]),
                                   ([], []), ([0], [0, 0]), ([1] * 40, [8192])], ids=str)
def test_lists_of_different_lengths_share_a_norm(mixed, parts):
    if not sum(parts, []):
        parts = (parts[0] or [0], parts[1])  # a plan without rows has no groups
    agree(mixed, parts, templatecases.schedule_for(mixed))


def test_the_norm_is_over_both_lists(mixed):
    """Against plain NumPy: 3 and 4 make 5."""
    rng = np.random.default_rng(0)
    rows = mixed.rows([[1], [1]])
    values = templatecases.start_values(mixed, rows, rng, special=0)
    values |= {"weight_grads": np.array([0x4040], np.uint16),  # 3.0 in bf16
               "vector_grads": np.array([4.0], np.float32).view(np.uint32)}
    memory = compare.Memory(mixed.signature, rows, [0, 0]).fill(values)
    for name, run in compare.executors(mixed, ALL):
        got = memory.twin()
        run(got)
        assert got.scalars["norm"][0] == 5.0, name


def test_rows_come_set_by_set(mixed):
    rows = mixed.rows([[5], [6]])
    rng = np.random.default_rng(0)
    memory = compare.Memory(mixed.signature, rows, [0, 0])
    memory.fill(templatecases.start_values(mixed, rows, rng))
    rows.set = [1, 0]
    with pytest.raises(hostrun.Failed, match=r"tensors\[1\].set is 0, not in \[1, 1\]: tensors come set by"):
        hostrun.HostPlan(mixed, "v3").bind(memory)


def test_a_set_that_the_step_has_not_is_refused(mixed):
    plan = hostrun.HostPlan(mixed, "v3")
    with pytest.raises(hostrun.Failed, match=r"tensors\[1\].set is 2, not in \[0, 1\]"):
        plan._call("bind_tensors", plan.plan, hostrun.tensors(compare.Rows([5, 6], [0, 0], [0, 2])),
                   ctypes.c_int64(2), ctypes.c_int64(1))


def test_what_a_tensor_decides_stays_in_its_set():
    """A norm per tensor scales its own list; its count is written in rows of its set alone."""
    compiled = program.Program("""
      altgrad.step @s(inout %a: !altgrad.tensors<f32>, inout %b: !altgrad.tensors<f32> set 1,
                      inout %t: i64 per_tensor, out %total: f32) {
        %x = dequantize %a : !altgrad.tensors<f32>
        %xe = element %x
        %sum = reduce sumsq %xe over tensor : f32
        %scaled = arith.divf %xe, %sum : f32
        %x1 = collect %scaled : f32 to !altgrad.reals
        %ticks = arith.fptosi %sum : f32 to i64
        %y = dequantize %b : !altgrad.tensors<f32>
        %ye = element %y
        %most = reduce max %ye over step : f32
        %ym = arith.mulf %ye, %most : f32
        %y1 = collect %ym : f32 to !altgrad.reals
        commit always %x1 to %a : !altgrad.tensors<f32>, %y1 to %b : !altgrad.tensors<f32>,
            %ticks to %t : i64, %most to %total : f32
      }""")
    rng = np.random.default_rng(1)
    rows = compiled.rows([[300, 4097], [5, 0, 6000]])
    values = templatecases.start_values(compiled, rows, rng, special=0)
    after = compare.run_steps(compiled, rows, [0, 1, 0, 2, 0], values, [(0.0, {})] * 2, rng, ALL)
    assert (after["t"][2:] == values["t"][2:]).all()
    assert (after["t"][:2] != values["t"][:2]).any()

def test_generated_sets_have_groups_and_scalars_of_their_own():
    """AdamW in bf16 beside Lion in f32: hyper-parameters and counts of a set share words
    with those of the other, and one norm clips both."""
    text = program.call("--set=rule=adamw param=bf16 grad=bf16 states=param",
                        "--set=rule=lion", f"--rule-path={program.TEMPLATES}", "--clip",
                        "--print-step")
    compiled = program.Program(text)
    shared = [(s["slot"], s["set"]) for s in compiled.manifest["scalars"] if s["scope"] == "group"]
    assert {slot for slot, which in shared if which == 0} & {slot for slot, which in shared if which}
    rng = np.random.default_rng(3)
    rows = compiled.rows([[5000, 3, 0], [7, 4097]], groups=2)
    values = templatecases.start_values(compiled, rows, rng)
    compare.run_steps(compiled, rows, [0, 3, 0, 1, 0], values, [(0.0, {})] * 3, rng, ALL)
