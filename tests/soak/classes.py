"""from_torch on every class of pytorch_optimizer: which become rules, and what stops the others.

    tools/soak.sh classes [NAME...] [--package FOLDER] [--write]

Each class that becomes one is stepped 30 times beside its original, on odd shapes in two groups of different rates. --write puts the list into the guide.
"""

import argparse
import contextlib
import importlib
import inspect
import io
import re
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import torch

import altgrad
from altgrad.language import RuleError

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python" / "language"))
from exactroots import ExactRoots  # noqa: E402

STEPS, SHAPES = 30, ((33, 17), (5, 7), (9,))
GUIDE = Path(__file__).resolve().parents[2] / "runtime" / "python" / "FromTorch.md"
MARK = "<!-- written by tools/soak.sh classes --write -->\n", "<!-- end -->"


def classes():
    """The package's own classes by name: torch's, and those that it cannot name itself, are left out."""
    package = importlib.import_module("pytorch_optimizer")
    return {name: kind for name, kind in sorted(vars(package).items()) if inspect.isclass(kind) and issubclass(kind, torch.optim.Optimizer)
            and name != "BaseOptimizer" and not kind.__module__.startswith("torch.")}


def compared(kind, given):
    """(largest difference by the way that a parameter went, the original's own from float64): two groups, matrices and a vector."""
    draws = torch.Generator().manual_seed(0)
    first = [torch.randn(shape, generator=draws) for shape in SHAPES]
    grads = [[torch.randn(shape, generator=draws) for shape in SHAPES] for _ in range(STEPS)]
    ours = stepped(altgrad.optim.from_torch(kind, **given), given, first, grads)
    theirs = stepped(kind, given, first, grads)
    try:
        widths = {name: torch.float64 for name, one in inspect.signature(kind.__init__).parameters.items() if one.default is torch.float32}
        wide = stepped(kind, given | widths, [one.double() for one in first], grads)
    except Exception:  # some mix widths
        wide = theirs
    moved = [(one - begun).abs().max() for one, begun in zip(theirs, first)]
    return [max(((one - other).abs().max() / way).item() for one, other, way in zip(theirs, others, moved)) for others in (ours, wide)]


def stepped(kind, given, first, grads):
    params = [torch.nn.Parameter(one.clone()) for one in first]
    optimizer = kind([dict(params=params[:-1]), dict(params=params[-1:])], **given)
    if isinstance(optimizer.param_groups[1].get("lr"), float):
        optimizer.param_groups[1]["lr"] *= 0.5
    for step in grads:
        for param, grad in zip(params, step):
            param.grad = grad.to(param.dtype)
        with ExactRoots():
            optimizer.step()
    return [param.detach().double() for param in params]


def outcome(kind):
    """("same bits", "exact", "rounded", "WRONG" or "not", the figure or the reason)"""
    wants = inspect.signature(kind.__init__).parameters
    given = {"weight_decay": 0.01} if "weight_decay" in wants else {}
    if "foreach" in wants:
        given["foreach"] = False
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            worst, own = compared(kind, given)
    except RuleError as error:
        place = re.sub(r"^.*/(?=pytorch_optimizer/|torch/)", "", error.filename or "")
        return "not", f"{error.msg} ({place.removeprefix('pytorch_optimizer/optimizer/')}:{error.lineno})"
    except Exception as error:
        return "not", f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    word = "same bits" if worst == 0 else "exact" if worst <= 1e-5 else "rounded" if worst <= min(3 * own, 1e-3) else "WRONG"
    return word, f"{worst:.1e}, the original from float64 {own:.1e}"


# Kinds of reasons, by words of the refusals; the first that fits.
REASONS = [
    ("sums over all tensors, and numbers that groups share", "sums? over all|which is no number|noted of its groups|depends on other|of its group, which"),
    ("states of other shapes, and parts of rows", "another shape|reduction over|reshape\\(\\)|len\\(\\)|sizes of"),
    ("matrix multiplications, decompositions and narrow formats in the step", "matmul|svd|tensordot|eye|bfloat16|float16|x\\.T"),
    ("functions of elements that there are not yet", "of elements yet|no power|norm of order|torch's allclose"),
    ("random numbers", "random|normal"),
    ("a second input, such as a Hessian's diagonal", "never changes it"),
    ("states that are lists, dicts or objects, or belong to no parameter", "state '.*' is a|belongs to no parameter|by its index"),
    ("the step leaves the parameter as it is, at the defaults", "as it is"),
    ("wrappers, closures, models, and arguments that are needed", ""),
]


def table(rows):
    """The outcome of every class as rows of the guide."""
    def named(word):
        return ", ".join(name for name, (said, _) in rows.items() if said in word)
    lines = [f"Rules are {sum(said != 'not' for said, _ in rows.values())} of {len(rows)} classes of version {version('pytorch_optimizer')}.", "",
             "| outcome | classes |", "|---|---|", f"| same bits | {named(['same bits'])} |", f"| close | {named(['exact', 'rounded'])} |"]
    left = {name: said for name, (word, said) in rows.items() if word == "not"}
    for title, pattern in REASONS:
        found = [name for name, said in left.items() if re.search(pattern, said)]
        left = {name: said for name, said in left.items() if name not in found}
        lines += [f"| not: {title} | {', '.join(found)} |"] if found else []
    return "\n".join(lines) + "\n"


def write(rows):
    """Puts the table into the guide."""
    text = GUIDE.read_text()
    start, end = text.index(MARK[0]) + len(MARK[0]), text.index(MARK[1])
    GUIDE.write_text(f"{text[:start]}\n{table(rows)}\n{text[end:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--package", help="where pytorch_optimizer is installed")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    if given.package:
        sys.path.insert(0, given.package)
    warnings.simplefilter("ignore")
    rows = {}
    for name, kind in classes().items():
        if not given.names or name in given.names:
            rows[name] = outcome(kind)
            print(f"{name:24} {': '.join(rows[name])}", flush=True)
    tally = {word: sum(one == word for one, _ in rows.values()) for word in ("same bits", "exact", "rounded", "WRONG", "not")}
    print(", ".join(f"{count} {word}" for word, count in tally.items()), f"of {len(rows)}")
    if given.write:
        write(rows)
    sys.exit(bool(tally["WRONG"]))


if __name__ == "__main__":
    main()
