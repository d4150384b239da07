"""Every stock kernel keeps to the rules that its machine code can show, but for what exceptions.py names.

Of the cases each eleventh is looked at; ALTGRAD_GATE=all takes all of them, ALTGRAD_GATE=N each Nth."""

import os
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

import cases
import machine
import rules
import sass
from exceptions import Exceptions
from steps import Step

WANTED = os.environ.get("ALTGRAD_GATE", "11")
CASES = cases.some(1 if WANTED == "all" else int(WANTED))
EXCEPTIONS = Exceptions()
MACHINES = machine.strictest(machine.machines())


def look_at(request, target):
    with tempfile.TemporaryDirectory(prefix="altgrad-gate-") as folder:
        return rules.misses(Step(request, MACHINES[target], folder))


@pytest.fixture(scope="module")
def looks():
    """What is found in each case; both cores work ahead of the tests."""
    with ThreadPoolExecutor(2) as pool:
        pending = [pool.submit(look_at, *case) for case in CASES]
        yield lambda number: pending[number].result()
        for one in pending:
            one.cancel()


@pytest.fixture(autouse=True)
def tools():
    try:
        for name in ("ptxas", "cuobjdump", "nvdisasm"):
            sass.tool(name)
    except sass.MissingTool as missing:
        pytest.skip(f"{missing}: machine code was not looked at")


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: " ".join((*CASES[n][0], CASES[n][1])))
def test_kernels_keep_to_the_rules(looks, number):
    broken = [str(miss) for miss in looks(number) if not EXCEPTIONS.excuses(miss)]
    assert broken == []


def test_every_exception_is_still_needed():
    if WANTED != "all":
        pytest.skip("only all cases together show which exceptions are needed")
    assert EXCEPTIONS.unused() == []
