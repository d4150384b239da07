"""Each rule of the gate notices a kernel that was made to break it."""

import re
import tempfile

import pytest

import machine
import rules
import sass
import steps
from exceptions import Exceptions
from steps import Shape, Step

MACHINE = machine.machines()["H200"]
REQUEST = ("--rule=sgd", "--storage=param=f32")
LOAD = re.compile(r"\t(ld\.global(?:\.nc)?)\.v4\.b32 \t\{(%\w+), (%\w+), (%\w+), (%\w+)\}, \[(%\w+)(?:\+(\d+))?\];")


def spoilt(monkeypatch, change, request=REQUEST, on=MACHINE):
    """Misses of a step whose PTX `change` has made worse."""
    emit = steps.compiler

    def compiler(*arguments):
        text = emit(*arguments)
        if "--emit=ptx" not in arguments:
            return text
        changed = change(text)
        assert changed != text
        return changed

    monkeypatch.setattr(steps, "compiler", compiler)
    with tempfile.TemporaryDirectory() as folder:
        return Step(request, on, folder)


def broken(step, simulated=False):
    return {miss.rule for miss in rules.misses(step, simulated)}


@pytest.fixture(autouse=True)
def tools():
    try:
        sass.tool("ptxas"), sass.tool("cuobjdump"), sass.tool("nvdisasm")
    except sass.MissingTool as missing:
        pytest.skip(f"{missing}: nothing is planted")


def after_loads(text, code):
    """`code` behind every wide load; {0} is its first register."""
    return LOAD.sub(lambda m: m[0] + "\n" + code.format(m[2]), text)


def test_a_load_in_halves(monkeypatch):
    def halves(text):
        return LOAD.sub(lambda m: f"\t{m[1]}.v2.b32 \t{{{m[2]}, {m[3]}}}, [{m[6]}+{int(m[7] or 0)}];\n"
                                  f"\t{m[1]}.v2.b32 \t{{{m[4]}, {m[5]}}}, [{m[6]}+{int(m[7] or 0) + 8}];", text)
    assert "accesses" in broken(spoilt(monkeypatch, halves))


def test_a_word_beside_the_streams(monkeypatch):
    found = spoilt(monkeypatch, lambda text: LOAD.sub(
        lambda m: m[0] + f"\n\tld.volatile.global.b32 \t{m[2]}, [{m[6]}];", text))
    assert "accesses" in broken(found)


def hold(text, count):
    """Keeps so many words in registers through the kernel."""
    names = [f"%kept{n}" for n in range(count)]
    first = re.search(r"\tld\.param\.b64 \t(%\w+), \[.*param_0\];", text)
    loads = "".join(f"\n\tld.volatile.global.b32 \t{n}, [{first[1]}+{4 * i}];" for i, n in enumerate(names))
    stores = "".join(f"\tst.volatile.global.b32 \t[{first[1]}+{4 * i}], {n};\n" for i, n in enumerate(names))
    text = text.replace(first[0], f"\t.reg .b32 \t{', '.join(names)};\n" + first[0] + loads, 1)
    head, tail = text[:first.start()], text[first.start():]
    return head + tail.replace("\tret;", stores + "\tret;", 1)


def test_too_many_registers(monkeypatch):
    def more(text):
        return re.sub(r"\.minnctapersm \d+", "", hold(text, 70))
    assert "registers" in broken(spoilt(monkeypatch, more))


def test_registers_that_do_not_fit(monkeypatch):
    def bounded(text):
        return re.sub(r"(\.maxntid[^\n]*)", r"\1\n.maxnreg 64", re.sub(r"\.minnctapersm \d+", "", hold(text, 70)))
    assert "stack" in broken(spoilt(monkeypatch, bounded))


def test_few_loads_on_their_way(monkeypatch):
    def large(text):
        return text.replace("{\n", "{\n\t.shared .align 16 .b8 \tlarge[48000];\n\t.reg .b32 \t%use;\n"
                            "\tmov.b32 \t%use, large;\n\tst.volatile.shared.b32 \t[%use], 0;\n")
    assert "flight" in broken(spoilt(monkeypatch, large))


def test_too_many_instructions(monkeypatch):
    step = spoilt(monkeypatch, lambda text: after_loads(text, "\tfma.rn.f32 \t{0}, {0}, {0}, {0};\n" * 120))
    assert "instructions" in broken(step)


def test_regions_of_divergence(monkeypatch):
    step = spoilt(monkeypatch, lambda text: after_loads(text, "\tdiv.rn.f32 \t{0}, 0f3F800000, {0};\n" * 3))
    assert "regions" in broken(step)


def test_tables_behind_the_wait(monkeypatch):
    def constant(text):
        text = re.sub(r"\tprefetch\.global\.L2 [^\n]*\n", "", text)  # which holds the loads of its addresses
        return re.sub(r"ld\.relaxed\.gpu\.global\.b64", "ld.global.nc.b64", text)
    assert "wait" in broken(spoilt(monkeypatch, constant, ("--rule=adamw", "--storage=param=f32")))


def test_work_that_takes_longer_than_the_copy(monkeypatch):
    shape = Shape("8 M", 1, 8_000_000)
    with tempfile.TemporaryDirectory() as folder:
        whole = Step(REQUEST, MACHINE, folder).share_of_sweeps(shape)
    monkeypatch.setattr(rules, "PLAIN", [shape])
    step = spoilt(monkeypatch, lambda text: after_loads(text, "\tsin.approx.f32 \t{0}, {0};\n" * 80))
    assert step.share_of_sweeps(shape) < whole / 2
    assert {"sweeps", "step"} <= broken(step, simulated=True)


def test_elements_of_unaligned_streams_that_take_longer(monkeypatch):
    one = re.compile(r"(\tld\.global(?:\.nc)?\.b32 \t(%\w+), \[%\w+(?:\+\d+)?\];)")
    step = spoilt(monkeypatch, lambda text: one.sub(r"\1" + "\n\tsin.approx.f32 \t\\2, \\2;" * 80, text))
    assert "unaligned" in broken(step, simulated=True)


def test_time_between_launches(monkeypatch):
    slow = machine.machines()["H200"]
    slow.launch_us = 1000.0
    with tempfile.TemporaryDirectory() as folder:
        assert "step" in broken(Step(("--rule=adamw", "--clip"), slow, folder), simulated=True)


def test_small_phases_take_longer_for_more():
    with tempfile.TemporaryDirectory() as folder:
        step = Step(("--rule=adamw", "--clip"), MACHINE, folder)
    one, large, many = Shape("1", 1, 10**6), Shape("2", 1, 10**9), Shape("3", 1000, 1024)
    for kind, less, more in (("fold", one, large), ("scalars", one, many)):
        phases = [phase for phase in step.of(kind) if kind == "fold" or phase["domain"] == "once"]
        times = [sum(step.small_seconds(phase, shape, True) for phase in phases) for shape in (less, more)]
        assert 0 < 2 * times[0] < times[1]


def test_what_is_loaded_again_is_not_more_of_a_chunk():
    """A guard that says no: without a store to tell the ways apart, loading again would pass for getting on faster."""
    with tempfile.TemporaryDirectory() as folder:
        step = Step(("--rule=lamb", "--storage=param=bf16 grad=bf16 states=param"), MACHINE, folder)
    sweep = step.sweeps[step.of("sweep")[0]["symbol"]]
    assert not any(i.again() for i, _ in sweep.loop)
    assert sum(i.again() for i, _ in sweep.exact()) == 2 * sum(i.bytes() == 16 for i, _ in sweep.loop)
    assert len(sweep.exact()) > 1.5 * len(sweep.loop)


def test_an_exception_has_an_end():
    class Step:
        name, machine = "--rule=sgd", MACHINE
    known = Exceptions([("regions", "sgd on sm_90", 2, "reason"), ("step", "sgd", 0.7, "reason")])
    assert known.excuses(rules.Miss(Step, "regions", "update", 2, 1))
    assert not known.excuses(rules.Miss(Step, "regions", "update", 3, 1))
    assert not known.excuses(rules.Miss(Step, "registers", "update", 1, 64))
    assert not known.excuses(rules.Miss(Step, "step", "2 M", 0.69, 0.95))
    assert [row[0] for row in known.unused()] == ["step"]
