"""tests/reference made importable, and one bundle per rule and options, compiled once."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "reference"))

import optimizers  # noqa: E402
import runner  # noqa: E402


def pytest_collection_modifyitems(items):
    missing = [str(p) for p in (runner.COMPILER, runner.LIBRARY) if not p.exists()]
    here = pathlib.Path(__file__).parent
    for item in items:  # of the whole run, not only of this folder
        if missing and here in item.path.parents:
            item.add_marker(pytest.mark.skip(reason="not built: " + ", ".join(missing)))


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    """bundle(rule, options): all in f32, for both host levels; the step count as asked."""
    made, folder = {}, tmp_path_factory.mktemp("bundles")

    def get(rule, options, count=""):
        key = "_".join([rule, *sorted(k for k, on in options.items() if on), count])
        if key not in made:
            streams = ["param", "grad", *optimizers.states(rule, **options)]
            storage = " ".join([f"{s}=f32" for s in streams] + [count])
            made[key] = runner.compile_rule(rule, options, storage, folder / f"{key}.so")
        return made[key]
    return get


@pytest.fixture
def run(bundle):
    """run(rule, options, device): a Runner, or a skip where this CPU has no such level."""
    def get(rule, options, device, *count):
        try:
            return runner.Runner(bundle(rule, options, *count), device, threads=2)
        except runner.Refused as refused:
            if refused.status == runner.UNAVAILABLE:
                pytest.skip(str(refused))
            raise
    return get
