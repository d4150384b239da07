"""help() and type checkers know everything public: every argument is described, shown with its default, and typed."""

import inspect
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import altgrad

MODULES = altgrad, altgrad.amp, altgrad.distributed, altgrad.matrices, altgrad.ops, altgrad.optim, altgrad.quant
PUBLIC = {f"{module.__name__}.{name}": getattr(module, name) for module in MODULES for name in module.__all__}
CALLABLE = {name: value for name, value in PUBLIC.items() if callable(value)}
SHARED = {"max_grad_norm": None, "fused_amp": False, "process_group": None, "statistics": False,
          "norm_in_backward": False, "offload": False, "numerics": None, "storage": "", "ema": None, "seed": None}


@pytest.mark.parametrize("name", CALLABLE)
def test_every_argument_is_described_and_typed(name):
    thing = CALLABLE[name]
    doc = inspect.getdoc(thing)
    first, *rest = doc.split("\n")
    assert first.endswith((".", ":")) and len(first) <= 120 and (not rest or rest[0] == ""), first
    if isinstance(thing, type) and issubclass(thing, (tuple, Exception)):
        assert "Attributes:" in doc
        return
    shared = SHARED.keys() | {"fallback"} if isinstance(thing, type) and issubclass(thing, altgrad.optim.Optimizer) else ()
    for parameter in inspect.signature(thing).parameters.values():
        if parameter.name in shared and not re.search(rf"^    {parameter.name}: ", doc, re.MULTILINE):
            # What all classes share is described once, in their base, and named in each.
            named, = re.findall(r"help\(altgrad.optim.Optimizer\) describes them:\n(.*)\.$", doc, re.MULTILINE)
            assert parameter.name in named.split(", ") and thing is not altgrad.optim.Optimizer
        elif "arguments are those of" not in doc and len(inspect.signature(thing).parameters) > 1:
            assert re.search(rf"^    \**{parameter.name}(, \*\*\w+)?: \S", doc, re.MULTILINE), parameter.name
        if thing is not altgrad.optim.FromRule or parameter.name != "options":
            assert parameter.annotation is not parameter.empty, parameter.name


@pytest.mark.parametrize("name", altgrad.optim.__all__)
def test_the_shared_keywords_are_in_every_constructor(name):
    cls = getattr(altgrad.optim, name)
    if isinstance(cls, type) and issubclass(cls, altgrad.optim.Optimizer):
        shown = inspect.signature(cls).parameters
        assert {key: shown[key].default for key in SHARED} == SHARED
        assert inspect.signature(cls.__init__).parameters.keys() == {"self", *shown}
        assert f">>> optimizer = altgrad.optim.{name}(" in cls.__doc__ or cls is altgrad.optim.Optimizer
        with pytest.raises(TypeError, match=f"altgrad.optim.{name}.*'momentom'"):
            cls([], **{"defaults": {}} if cls is altgrad.optim.Optimizer else {}, momentom=0.9)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_what_completion_lists_is_what_is_public(module):
    """Each module that has a name of its own, too, and no function or class twice."""
    assert dir(module) == sorted(module.__all__) and all(hasattr(module, name) for name in module.__all__)
    homes = [other.__name__ for other in MODULES for name in other.__all__
             if name in module.__all__ and not inspect.ismodule(getattr(other, name))]
    assert set(homes) <= {module.__name__}
    folders = {path.parent.name for path in Path(altgrad.__file__).parent.glob("[a-z]*/__init__.py")}
    assert module is not altgrad or folders <= set(dir(altgrad))


@pytest.mark.skipif("ALTGRAD_STANDS_FOR_CUDA" in os.environ, reason="a type checker needs no GPU")
def test_a_type_checker_knows_the_type_of_everything_public():
    if not find_spec("basedpyright"):
        assert "CI" not in os.environ, "CI has to have basedpyright, which tools/packages.sh installs"
        pytest.skip("basedpyright is not installed")
    folders = str(Path(sys.executable).parent) + os.pathsep + os.environ["PATH"]
    done = subprocess.run(["basedpyright", "--verifytypes", "altgrad", "--ignoreexternal"], text=True,
                          capture_output=True, env={**os.environ, "PATH": folders,
                                                    "PYTHONPATH": str(Path(altgrad.__file__).parents[1])})
    score = float(re.search(r"Type completeness score: ([\d.]+)%", done.stdout)[1])
    assert score >= 99, done.stdout
    assert "Functions without docstring: 0" in done.stdout
