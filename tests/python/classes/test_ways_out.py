"""What an error or a warning tells the user to write exists: every name of altgrad and torch in our messages, every
keyword, tool and variable. And where matrices are refused because ranks have parts of them, the way that is named works."""
import ast
import importlib
import inspect
import os
import re
import subprocess
from pathlib import Path

import altgrad
import altgrad.amp
import altgrad.distributed
import altgrad.language
import pytest
import stock
import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "runtime" / "python" / "altgrad"
WARNS = "warn", "warn_once"
OF_RULES = {"altgrad.rule"}
# Keywords of torch's classes and functions that messages name.
OF_TORCH = {"sparse", "differentiable", "error_if_nonfinite"}


def words(node):
    """The text of a string; what is computed in it is {}."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(words(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return words(node.left) + words(node.right)
    return "{}"


def messages():
    """(place, text) of what is raised and warned of."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            call = node.exc if isinstance(node, ast.Raise) else node
            if isinstance(call, ast.Call) and (call is not node or getattr(call.func, "id", "") in WARNS):
                yield f"{path.name}:{node.lineno}", " ".join(map(words, call.args))


MESSAGES = list(messages())


def named(pattern):
    return sorted({found for _, text in MESSAGES for found in re.findall(pattern, text)})


def found(dotted):
    """What a dotted name is; AttributeError or ModuleNotFoundError where there is nothing of it."""
    *folder, name = dotted.split(".")
    try:
        return getattr(importlib.import_module(".".join(folder)) if len(folder) == 1 else found(".".join(folder)), name)
    except AttributeError:
        return importlib.import_module(dotted)


def keywords():
    """Every keyword of a public class, function or method."""
    modules = altgrad, altgrad.optim, altgrad.amp, altgrad.distributed, altgrad.ops, altgrad.quant, altgrad.matrices, altgrad.language
    public = [getattr(module, name) for module in modules for name in module.__all__]
    ours = [one for one in public if inspect.isroutine(one) or isinstance(one, type)]
    methods = [method for one in ours if isinstance(one, type) for name, method in inspect.getmembers(one, inspect.isroutine)
               if not name.startswith("_") and str(getattr(method, "__module__", "")).startswith("altgrad")]
    return {name for one in [*ours, *methods] for name in inspect.signature(one).parameters}


def formats():
    listed = subprocess.run([stock.COMPILER, "--list-formats"], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in listed.stdout.splitlines()}


@pytest.mark.parametrize("name", named(r"(?<![\w/.])((?:altgrad|torch)(?:\.[A-Za-z_]\w*)+)(?![\w(]*\{)"))
def test_a_name_in_a_message_exists(name):
    assert name in OF_RULES | formats() or found(name) is not None


def test_keywords_in_messages_exist():
    words = keywords() | OF_TORCH
    told = [(where, name) for where, text in MESSAGES for name in re.findall(r"(?<![\w'{.:@%$-])([a-z]\w+)=(?!=)", text)]
    assert [one for one in told if one[1] not in words] == []


@pytest.mark.parametrize("tool", named(r"\btools/\w+\.\w+"))
def test_a_tool_in_a_message_exists(tool):
    assert os.access(ROOT / tool, os.X_OK)


@pytest.mark.parametrize("variable", named(r"\bALTGRAD_\w+"))
def test_a_variable_in_a_message_is_in_a_guide(variable):
    assert variable in (ROOT / "runtime/python/guide/Machines.md").read_text()


@pytest.fixture
def group(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_a_rule_of_whole_matrices_steps_a_dtensor_as_a_plain_matrix(group):
    kind, mesh = altgrad.optim.FromRule("muon"), dist.device_mesh.init_device_mesh("cpu", (1,))
    torch.manual_seed(0)
    whole, grad = torch.randn(4, 8), torch.randn(4, 8)
    part, plain = torch.nn.Parameter(distribute_tensor(whole, mesh, [Shard(0)])), torch.nn.Parameter(whole.clone())
    part.grad, plain.grad = distribute_tensor(grad, mesh, [Shard(0)]), grad.clone()
    for param in (part, plain):
        kind([param]).step()
    assert torch.equal(part.full_tensor(), plain) and not torch.equal(plain, whole)
