"""The last block of a launch goes on to the phases after it: how many launches there are, and what it must see."""

import re

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

needs_ptx = pytest.mark.skipif(not ptxrun.available(), reason="no PTX interpreter is built")
FENCE, TICKET, BARRIER = "fence.acq_rel.gpu;", "atom.global.inc.u32", "bar.sync \t0;"


def compiled_case(rule, storage, *flags):
    templatecases.use_rule(rule)
    return program.Program(program.generated(rule, storage, *flags), program.PTX)


@pytest.mark.parametrize("rule", templatecases.OPTIONS)
@pytest.mark.parametrize("flags, most", [((), 2), (("--clip",), 2), (("--scaler", "--clip"), 3)], ids=["plain", "clip", "scaler"])
def test_launches(rule, flags, most):
    """LAMB sums twice, and its update's registers leave the second fold to a launch of its own."""
    manifest = compiled_case(rule, "", *flags).manifest
    sweeps = sum(phase["kind"] == "sweep" for phase in manifest["phases"])
    assert len(list(ptxrun.launches(manifest, True))) <= most + 2 * (sweeps > (2 if flags else 1))


@pytest.fixture(scope="module")
def clipped():
    compiled = compiled_case("adamw", "param=bf16", "--unscale", "--clip")
    rng, rows = np.random.default_rng(2), compiled.rows([[20000, 3, 0, 9 * 4096, *[5] * 300]], 2)
    values = templatecases.start_values(compiled, rows, rng)
    memory = compare.Memory(compiled.signature, rows, [0] * len(rows.numel)).fill(values)
    return compiled, memory, memory.twin(compare.reference(compiled, rows, memory.values()))


def outcome(clipped, target, edit=lambda text: text, order=0):
    """What a run of an edited module ends with: "right", "wrong" or the words of a fault."""
    compiled, memory, expected = clipped

    class Edited:
        manifest, keeps_old = compiled.manifest, compiled.keeps_old

        def ptx(self, target):
            return edit(compiled.ptx(target))

    got = memory.twin()
    try:
        ptxrun.PtxPlan(Edited(), target, (3,), races=True, order=order).run(got)
    except ptxrun.Fault as fault:
        return str(fault)
    return "wrong" if got.difference(expected) else "right"


@needs_ptx
@pytest.mark.parametrize("target", program.PTX)
@pytest.mark.parametrize("order", [0, 1, 2], ids=["forward", "backward", "shuffled"])
def test_whichever_block_is_the_last(clipped, target, order):
    assert outcome(clipped, target, order=order) == "right"


def without(what, number):
    """Takes the number-th of some lines out of the sweep that counts its blocks."""
    def edit(text):
        head, tail = text.split("_reduce0(", 1)
        before, after = tail.split(TICKET, 1)
        if number < 0:
            at = before.rindex(what)
            before = before[:at] + before[at + len(what):]
        else:
            after = after.replace(what, "", 1)
        return head + "_reduce0(" + before + TICKET + after
    return edit


@needs_ptx
@pytest.mark.parametrize("edit, words", [
    (without(FENCE, -1), "global-race"), (without(FENCE, 1), "global-race"),
    (without(BARRIER, -1), "global-race"), (without(BARRIER, 1), "shared memory"),
    (lambda text: text.replace(FENCE, "fence.acq_rel.cta;"), "global-race"),
    (lambda text: re.sub(r"\.inc(\.u32 .*), %r\d+;", r".add\1, 1;", text), "finished blocks"),
], ids=["no release", "no acquire", "no barrier before", "no barrier after", "too narrow", "no reset"])
@pytest.mark.parametrize("target", program.PTX)
def test_planted_faults_are_reported(clipped, target, edit, words):
    assert words in outcome(clipped, target, edit)


@needs_ptx
@pytest.mark.parametrize("target", program.PTX)
def test_no_launch_goes_beyond_an_exchange(target):
    """The totals that others join are there when the launch before ends, and nothing that depends on them."""
    templatecases.use_rule("adamw")
    compiled = program.Program(program.generated("adamw", "", "--clip"), program.PTX, ["--exchange"])
    point, = compiled.manifest["exchanges"]
    heads = [compiled.manifest["phases"].index(phase) for phase, _ in ptxrun.launches(compiled.manifest, True)]
    assert point["phase"] in heads
    rng, rows = np.random.default_rng(3), compiled.rows([[5000, 7]])
    values = templatecases.start_values(compiled, rows, rng)
    memory = compare.Memory(compiled.signature, rows, [0, 1]).fill(values)
    expected, got = memory.twin(compare.reference(compiled, rows, memory.values())), memory.twin()
    ptxrun.PtxPlan(compiled, target, (2,), races=True).run(got)
    assert got.difference(expected) is None
