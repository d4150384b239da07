"""Makes the modules of this folder importable, and says at the end how much was compared."""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))


def pytest_terminal_summary(terminalreporter):
    compare = sys.modules.get("compare")
    if compare and compare.TOTAL.runs:
        import hostrun
        import ptxrun
        words = "" if ptxrun.available() else "; NO interpreter: PTX was not run"
        words += "" if hostrun.runs("v4") else "; NO x86-64-v4 here: its code was compiled, not run"
        terminalreporter.write_line(
            f"{compare.TOTAL.runs} runs of compiled steps, {compare.TOTAL.elements} elements, "
            f"equal byte for byte to the reference{words}"
            if not terminalreporter.stats.get("failed") else
            f"{compare.TOTAL.runs} runs of compiled steps before the failures")


def pytest_generate_tests(metafunc):
    if "full" in metafunc.fixturenames:
        metafunc.parametrize("full", [bool(os.environ.get("ALTGRAD_DIFFERENTIAL_FULL"))])
