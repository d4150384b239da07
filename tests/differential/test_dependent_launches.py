"""Launches that overlap: the lint finds a kernel that does not wait, or too late, and its promises hold in the interpreter."""

import re

import numpy as np
import pytest

import compare
import lint
import program
import ptxrun
import templatecases

STEPS = (("adamw", "", "--clip"), ("lamb", ""), ("adamw", "param=bf16 grad=bf16 master=f32", "--clip", "--scaler"))
WAIT = "griddepcontrol.wait;"
LETS = "griddepcontrol.launch_dependents;"


def _compiled(step, *targets):
    rule, storage, *flags = step
    templatecases.use_rule(rule)
    return program.Program(program.generated(rule, storage, *flags), targets or ("sm_90",))


def _edited(ptx, symbol, edit):
    start = ptx.index(f".entry {symbol}(")
    end = ptx.index("\n}", start)
    return ptx[:start] + edit(ptx[start:end]) + ptx[end:]


PLANTED = {
    "never waits": lambda text: text.replace(WAIT, ""),
    "before it has waited": lambda text: text.replace(WAIT, "").replace("ret;", WAIT + "\n\tret;"),
    "exits on a path": lambda text: text.replace(WAIT, "@%p1 ret;\n\t" + WAIT),
    "lets the next launch begin before": lambda text: text.replace(WAIT, LETS + "\n\t" + WAIT),
    "st.global": lambda text: text.replace(WAIT, "st.global.b64 [%rd1], %rd1;\n\t" + WAIT, 1),
    "does not let|lets nobody in": lambda text: text.replace(LETS, "") if LETS in text else text + "\n\t" + LETS,
}


@pytest.mark.parametrize("step", STEPS, ids=lambda step: "-".join(step))
def test_planted_orders_are_found(step):
    compiled = _compiled(step, "sm_80", "sm_90")
    ptx, manifest = compiled.ptx("sm_90"), compiled.manifest
    assert lint.complaints(ptx, manifest) == []
    assert "griddepcontrol" not in compiled.ptx("sm_80") and "altgrad_kernels_wait" not in compiled.ptx("sm_80")
    for phase in manifest["phases"][1:]:
        for words, edit in PLANTED.items():
            found = lint.complaints(_edited(ptx, phase["symbol"], edit), manifest)
            assert any(re.search(words, complaint) for complaint in found), (phase["symbol"], words, found)
    weak = ptx.replace("ld.relaxed.gpu.global", "ld.global")
    assert any("may be answered by a cache" in complaint for complaint in lint.complaints(weak, manifest))
    assert any("missing" in c for c in lint.complaints(re.sub(r"\.visible \.global.*\n", "", ptx), manifest))


@pytest.mark.parametrize("rule", ["adafactor", "came", "sm3", "sinkgd"])
def test_a_sweep_of_columns_reads_rows_of_the_tables_past_the_cache(rule):
    """How many rows a matrix has is asked before the wait, too."""
    compiled = _compiled((rule, ""), "sm_90")
    assert lint.complaints(compiled.ptx("sm_90"), compiled.manifest) == []


@pytest.mark.skipif(not ptxrun.available(), reason="no PTX interpreter is built")
def test_the_interpreter_looks_at_what_comes_before_the_wait():
    """Of every thread that runs, in launches of their own and in the last block's."""
    compiled = _compiled(STEPS[0])
    rows = compiled.rows([[20000, 3, 0]])
    memory = compare.Memory(compiled.signature, rows, [0] * 3)
    memory.fill(templatecases.start_values(compiled, rows, np.random.default_rng(4)))
    last = compiled.manifest["phases"][-1]["symbol"]

    def outcome(edit):
        class Edited:
            manifest, keeps_old = compiled.manifest, compiled.keeps_old

            def ptx(self, target):
                return _edited(compiled.ptx(target), last, edit)
        try:
            plan = ptxrun.PtxPlan(Edited(), "sm_90")
            for _ in range(2):
                plan.run(memory.twin())
        except ptxrun.Fault as fault:
            return str(fault)
        return "right"

    assert outcome(lambda text: text) == "right"
    assert "the thread exits and has not waited" in outcome(lambda text: text.replace(WAIT, "ret;"))
    assert "before the thread has waited" in outcome(PLANTED["before it has waited"])
    assert "three would overlap" in outcome(PLANTED["lets the next launch begin before"])
