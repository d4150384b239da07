"""Files that somebody has changed: loaded and stepped, or refused before anything is."""

import copy
import io

import torch

import altgrad
from lives import REFUSALS

MAKES = {
    "AdamW": lambda ps: altgrad.optim.AdamW(ps, lr=0.01, weight_decay=0.0),
    "master": lambda ps: altgrad.optim.AdamW(ps, lr=0.01, weight_decay=0.0, storage="master=f32 states=bf16"),
    "8 bits": lambda ps: altgrad.optim.AdamW8bit(ps, lr=0.01, weight_decay=0.0),
    "4 bits": lambda ps: altgrad.optim.AdamW4bit(ps, lr=0.01, weight_decay=0.0),
    "fp8": lambda ps: altgrad.optim.AdamWFp8(ps, lr=0.01, weight_decay=0.0),
    "drawn": lambda ps: altgrad.optim.AdamW(ps, lr=0.01, weight_decay=0.0, storage="states=bf16,stochastic", seed=1),
    "clipped": lambda ps: altgrad.optim.AdamW(ps, lr=0.01, weight_decay=0.0, max_grad_norm="percentile:50"),
    "Lion": lambda ps: altgrad.optim.Lion8bit(ps, lr=0.01),
    "SGD": lambda ps: altgrad.optim.SGD(ps, lr=0.01, momentum=0.9),
}
# A step of these rules moves an element by a few rates at the most; after a file of another history by more.
BOUND = 30


def odd(dice, value):
    """Something else in the place of `value`."""
    if isinstance(value, dict) and dice.random() < 0.5:  # codes
        return {key: odd(dice, codes) for key, codes in value.items()}
    others = [None, "x", -1, 1.5, [], {}, torch.ones(3), torch.tensor(float("nan")), torch.tensor(-5.0), 7]
    if isinstance(value, torch.Tensor):
        others += [value.double(), value.half(), value[:0] if value.dim() else value, value.to("meta"),
                   torch.zeros_like(value), value.clone().resize_(0), value.to(torch.int64),
                   value.to_sparse() if value.dim() and value.itemsize > 1 else value]
    return dice.choice(others)


def change(dice, file):
    """Changes one thing of a file; says what."""
    place = dice.choice(["lost", "other", "more", "group", "key", "params"])
    states = [entry for entry in file["state"].values() if entry]
    entry, group = dice.choice(states), dice.choice(file["param_groups"])
    key = dice.choice(list(entry))
    if place == "lost":
        del entry[key]
    elif place == "other":
        entry[key] = odd(dice, entry[key])
    elif place == "more":
        entry[dice.choice([7, None, ("a",), "copy", "master", "exp_avg_scale", "remainder"])] = odd(dice, entry[key])
    elif place == "group":
        key = dice.choice([key for key in group if key != "params"])
        group[key] = odd(dice, group[key])
    elif place == "key":
        file["state"][dice.choice([99, "x"])] = entry
    else:
        group["params"] = dice.choice([[], group["params"] * 2, group["params"][::-1], None])
    return f"{place} {key}" if place in ("lost", "other", "group") else place


def live(life):
    dice = life.dice
    kind = dice.choice(list(MAKES))
    dtype = dice.choice([torch.float32, torch.bfloat16]) if kind == "AdamW" else (
        torch.bfloat16 if kind == "master" else torch.float32)
    shapes = [(dice.choice([5, 4096, 4099, 9000]),) for _ in range(dice.randint(1, 3))]
    make = lambda: [torch.nn.Parameter(torch.randn(shape).to(dtype)) for shape in shapes]
    first, params = make(), make()
    optimizer, other = MAKES[kind](first), MAKES[kind](params)
    for _ in range(dice.randint(1, 4)):
        for p in first:
            p.grad = torch.randn_like(p)
        optimizer.step()
    saved = io.BytesIO()
    torch.save(optimizer.state_dict(), saved)
    saved.seek(0)
    file = torch.load(saved, weights_only=True)
    what = change(dice, file)
    before, about = copy.deepcopy(other.state_dict()), f"{what} in a file of {kind}"
    try:
        other.load_state_dict(file)
    except REFUSALS as error:
        assert str(error).strip(), about
        now = other.state_dict()
        assert repr(before) == repr(now), f"{about}: refused ({error}), and the optimizer has changed"
        life.said[f"refused at load: {what}"] += 1
        return
    for _ in range(2):
        for p in params:
            p.grad = torch.randn_like(p)
        old = [p.detach().clone() for p in params]
        if life.refused(other.step, params, what):
            return
        for p, q in zip(params, old):
            assert p.isfinite().all(), f"{about}: parameters that are no numbers"
            # Another rate, or other numbers of a state, are the user's.
            if not what.startswith(("group", "other")):
                moved = (p.float() - q.float()).abs().max().item() / 0.01
                assert moved <= BOUND or dtype == torch.bfloat16, f"{about}: an element moves by {moved:.3g} rates"
