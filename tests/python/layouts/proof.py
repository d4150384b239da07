"""The same 30 steps in every layout of a cluster, and checkpoints from each into each: tools/soak.sh meshes [CASE...].

With `reproducible=True` parameters and norms have the bits of one process; without it they are within BOUNDS.
"""

import functools
import itertools
import pathlib
import sys
import tempfile

import ranks
import torch
import torch.distributed.checkpoint as dcp
from layouts import LAYOUTS, UNLIKE, Model, is_here, whole_of
from torch.distributed.checkpoint.state_dict import (StateDictOptions, get_model_state_dict, get_optimizer_state_dict,
                                                     set_model_state_dict, set_optimizer_state_dict)

import altgrad

STEPS, HALF = 30, 15
FLAT = StateDictOptions(flatten_optimizer_state_dict=True)
CASES = {
    "AdamW": (altgrad.optim.AdamW, dict(lr=0.01, max_grad_norm=1.0)),
    "LAMB": (altgrad.optim.LAMB, dict(lr=0.01, max_grad_norm=1.0)),
    "Adafactor": (altgrad.optim.Adafactor, dict(lr=0.01, eps=(1e-7, 1e-3))),  # one eps for both dtypes
    # Blocks of 64, because rows are multiples of it: DTensors whose rows end within blocks keep float32 states.
    "AdamW8bit": (altgrad.optim.AdamW, dict(lr=0.01, max_grad_norm=1.0, storage="m=bnb8:64 v=bnb8u:64,keep_positive")),
    "Muon": (altgrad.optim.Muon, dict(lr=0.02)),
    "NorMuon": (altgrad.optim.NorMuon, dict(lr=0.02)),
}
BOUNDS = dict(rtol=1e-4, atol=1e-4)  # of parameters; of bfloat16 one bit more
NORM = 1e-6  # relative


def optimizer_of(kind, layout, model, reproducible, words):
    groups = list(model.parameters())
    if issubclass(kind, altgrad.optim.Muon):
        split = [[param for param in groups if (param.dim() > 1) is matrix] for matrix in (True, False)]
        groups = [{"params": split[0]}, {"params": split[1], "use_muon": False, "lr": 0.01}]
    if layout == "ZeRO-2" or reproducible and layout not in ("alone", "DDP"):
        return altgrad.distributed.Sharded(kind, groups, reproducible=reproducible, **words)
    return kind(groups, **words)


def made(case, layout, reproducible):
    kind, words = CASES[case]
    model = LAYOUTS[layout][1](Model())
    return model, optimizer_of(kind, layout, model, reproducible, words)


def train(model, optimizer, first, last):
    """The norms of these steps."""
    norms = []
    for step in range(first, last):
        optimizer.zero_grad()
        model(step).backward()
        optimizer.step()
        norms.append(None if optimizer.grad_norm is None else optimizer.grad_norm.item())
    return norms


def found(model, norms):
    return {"norms": norms, **{name.removeprefix("module."): whole_of(param) for name, param in model.named_parameters()
                               if is_here(param)}}


def state_of(model, optimizer):
    return {"model": get_model_state_dict(model), "optim": get_optimizer_state_dict(model, optimizer, options=FLAT)}


def saved(folder, cases, layouts, reproducible, rank, group):
    """Trains in each layout of so many ranks, and leaves a checkpoint in the middle and what was found at the end."""
    for case, layout in itertools.product(cases, layouts):
        if LAYOUTS[layout][0] == group.size():
            model, optimizer = made(case, layout, reproducible)
            norms = train(model, optimizer, 0, HALF)
            dcp.save(state_of(model, optimizer), checkpoint_id=folder / case / layout)
            norms += train(model, optimizer, HALF, STEPS)
            torch.save(found(model, norms), folder / case / f"{layout}.{rank}.pt")


def resumed(folder, cases, layouts, reproducible, rank, group):
    """Goes on from each checkpoint in each layout of so many ranks."""
    for case, layout, source in itertools.product(cases, layouts, layouts):
        if LAYOUTS[layout][0] == group.size():
            model, optimizer = made(case, layout, reproducible)
            state = state_of(model, optimizer)
            dcp.load(state, checkpoint_id=folder / case / source)
            set_model_state_dict(model, state["model"])
            set_optimizer_state_dict(model, optimizer, state["optim"], options=FLAT)
            torch.save(found(model, train(model, optimizer, HALF, STEPS)), folder / case / f"{source} in {layout}.{rank}.pt")


def check(got, expected, where, exact):
    norms = expected["norms"][-len(got["norms"]):]
    near = exact or all(a is b or abs(a - b) <= NORM * b for a, b in zip(got["norms"], norms))
    assert got["norms"] == norms or not exact and near, f"{where}: norms {got['norms']}, not {norms}"
    assert len(got) > 7, f"{where}: {list(got)}"
    for name in got.keys() - {"norms"}:
        ours, theirs = got[name], expected[name]
        bounds = BOUNDS if ours.dtype == torch.float32 else dict(rtol=2.0 ** -7, atol=1e-2)
        least = dict(rtol=0.0, atol=0.0) if exact else bounds
        torch.testing.assert_close(ours, theirs, **least, msg=lambda text: f"{where}, {name}: {text}")


def prove(folder, cases, layouts=LAYOUTS, reproducible=True):
    """The number of layouts. Raises AssertionError where one, or a run that goes on in another one, differs from one process."""
    for case in cases:
        (folder / case).mkdir()
    wholes = any([CASES[case][0]._steps_wholes for case in cases])
    layouts = [layout for layout in layouts if not (reproducible or wholes) or layout not in UNLIKE]
    counts = sorted({LAYOUTS[layout][0] for layout in layouts})
    for number, (part, count) in enumerate(itertools.product((saved, resumed), counts)):
        place = folder / f"store{number}"
        place.mkdir()
        answers, = ranks.run([functools.partial(part, folder, cases, layouts, reproducible)], place, count)
        assert all(answer is None for answer in answers), "\n".join(map(str, answers))
    for case in cases:
        expected = torch.load(folder / case / "alone.0.pt")
        for file in sorted((folder / case).glob("*.pt")):
            check(torch.load(file), expected, f"{case}, {file.stem}", reproducible)
    return len(layouts)


def main(cases):
    ranks.WAIT = 3600  # of 100 runs, which other processes may hold up
    for case, reproducible in itertools.product(cases or CASES, (True, False)):
        with tempfile.TemporaryDirectory() as place:
            count = prove(pathlib.Path(place), [case], reproducible=reproducible)
        print(f"{case}: {count} layouts, and checkpoints of each in each: "
              + ("the bits of one process" if reproducible else "within the bounds"), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
