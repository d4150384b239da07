"""What an approximate reciprocal is off by changes no byte."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

RULES = {"adamw": "", "adam": "param=bf16 grad=bf16 m=bf16 v=bf16", "adopt": "", "ademamix": "",
         "rmsprop": "", "adagrad": "param=bf16 master=f32", "lamb": "param=bf16 grad=bf16 m=bf16 v=bf16"}


@pytest.mark.skipif(not ptxrun.available(), reason="no interpreter: PTX was not run")
@pytest.mark.parametrize("target", program.PTX)
@pytest.mark.parametrize("rule", RULES)
def test_perturbed_results(rule, target):
    templatecases.use_rule(rule)
    compiled = program.Program(program.generated(rule, RULES[rule]), (target,))
    text = compiled.ptx(target)
    assert ".approx.ftz.f32" in text
    rng = np.random.default_rng(3)
    rows = compiled.rows([[4099, 65, 260]], 2)
    start = compare.Memory(compiled.signature, rows, [0, 0, 1]).fill(templatecases.start_values(compiled, rows, rng))
    expected = start.twin(compare.reference(compiled, rows, start.values()))
    for perturbation in range(12):
        got = start.twin()
        ptxrun.PtxPlan(compiled, target, perturbation=perturbation).run(got)
        compare.TOTAL.add(rows)
        assert got.difference(expected) is None, perturbation


@pytest.mark.skipif(not ptxrun.available(), reason="no interpreter: PTX was not run")
def test_zeros_and_uncommon_numbers():
    """Of a row of zeros the quick body does all; of tiny, huge and infinite numbers none."""
    compiled = program.Program(program.generated("adamw", ""), ("sm_80",))
    steps = {}
    for name, number in {"zeros": 0.0, "common": 0.25, "tiny": 1e-40, "huge": 1e38, "infinite": np.inf}.items():
        rng = np.random.default_rng(3)
        rows = compiled.rows([[4096]], 1)
        values = templatecases.start_values(compiled, rows, rng)
        for stream in ("g", "w", "m", "v"):
            values[stream] = np.full(4096, number, np.float32)
        start = compare.Memory(compiled.signature, rows, [0]).fill(values)
        expected = start.twin(compare.reference(compiled, rows, start.values()))
        plan, got = ptxrun.PtxPlan(compiled, "sm_80"), start.twin()
        plan.run(got)
        assert got.difference(expected) is None, name
        steps[name] = plan.lib.ptx_steps(plan.vm)
    assert steps["zeros"] == steps["common"]
    assert min(steps["tiny"], steps["huge"], steps["infinite"]) > 1.3 * steps["common"]
