"""The seeding of faults itself: nothing is found where nothing is seeded, one fault of each kind is."""

import json
import random

import pytest

import equivalent
import mutate
import ptxcases
import ptxfaults
import ptxrun
import sources

needs_ptx = pytest.mark.skipif(not ptxrun.available(), reason="no PTX interpreter is built")


@pytest.fixture(scope="module")
def case():
    return ptxcases.case("lion f32")


@needs_ptx
def test_without_a_fault_nothing_is_found(case):
    assert case.judge(case.text) is None


@needs_ptx
@pytest.mark.parametrize("kind", ptxfaults.KINDS)
def test_a_fault_of_each_kind_is_caught(case, kind):
    """Of six that are not known to be equivalent one at least, by what takes no time: more than half of them are."""
    faults = [f for f in ptxfaults.faults(case.text) if f.kind == kind and not equivalent.reason(case.text, f)]
    random.Random(1).shuffle(faults)
    texts = [ptxfaults.seeded(case.text, f) for f in faults[:6]]
    assert any(not ptxcases.refused(t) and case.judge(t, *ptxcases.CHEAP) for t in texts), [f.words for f in faults[:6]]


@needs_ptx
def test_an_endless_loop_ends(case):
    [line] = [n for n, text in enumerate(case.text.splitlines()) if "add.s64" in text and "512" in text][:1]
    lines = case.text.splitlines()
    back = next(n for n in range(line, len(lines)) if " bra" in lines[n] and "@%p" in lines[n])
    label = lines[back].split()[-1]
    stage, words = case.judge("\n".join([*lines[:back], f"\tbra.uni {label}", *lines[back + 1:]]) + "\n", "values")
    assert "step-limit" in words or "out-of-bounds" in words


@needs_ptx
def test_a_reason_is_given_for_the_bound_of_a_shuffle_only_where_it_holds(case):
    shuffles = [f for f in ptxfaults.faults(case.text) if f.kind == "shuffles" and ", 15, -1" in f.new]
    for fault in shuffles:
        assert bool(equivalent.reason(case.text, fault)) == (", 16, 31" not in fault.old), fault.words


def test_names_of_source_faults_and_of_their_tests():
    assert len({f.name for f in sources.FAULTS}) == len(sources.FAULTS)
    known = {*sources.TESTS, "lit", "rule"}
    assert {w.split(":")[0] for f in sources.FAULTS for w in f.tests.split()} <= known


def test_every_fault_still_has_its_place_in_the_sources():
    assert not list(sources.strangers())


def test_a_fault_whose_name_has_a_comma_is_chosen_by_its_name(capsys):
    names = ["partial sums lie chunk by chunk, some over others", "a fold uses 128 lanes"]
    assert mutate.arguments([word for name in names for word in ("--only", name)]).only == names
    with pytest.raises(SystemExit):
        mutate.arguments(["--only", names[0].split(",")[0]])
    assert "invalid choice: 'partial sums lie chunk by chunk'" in capsys.readouterr().err


def test_without_a_level_faults_are_seeded_in_both():
    assert mutate.arguments([]).levels == ["ptx", "source"]
    assert mutate.arguments(["source"]).levels == ["source"]


def test_an_interrupted_run_goes_on(tmp_path):
    mutate.Ledger(tmp_path / "l.jsonl").add(key="k", verdict="caught")
    again = mutate.Ledger(tmp_path / "l.jsonl")
    again.add(key="m", verdict="survived")
    assert [json.loads(line)["key"] for line in again.path.read_text().splitlines()] == ["k", "m"]
    assert set(again.known) == {"k", "m"}
