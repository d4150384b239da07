"""Steps of one tensor of 64 elements, in which the kernel takes no time: torch's fused one and another checkout's beside it."""

import statistics
import sys
from importlib import import_module, util
from pathlib import Path

import torch

from . import measure

CASES = {"steps plain": {}, "steps clip": {"max_grad_norm": 1.0}}
_SIZE, _STEPS = 64, 25  # elements; steps of a round


def optimizers(checkout):
    """altgrad.optim of a checkout. It has a name of its own beside altgrad, and the same compiler and libraries."""
    folder, name = Path(checkout) / "runtime" / "python" / "altgrad", "altgrad_of_before"
    if name not in sys.modules:
        spec = util.spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])
        sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return import_module(f"{name}.optim")


def makers(words, before):
    """name -> an optimizer of a parameter of its own."""
    import altgrad
    kinds = {"torch fused": (torch.optim.AdamW, {"fused": True}), "altgrad": (altgrad.optim.AdamW, words)}
    if before:
        kinds["before"] = optimizers(before).AdamW, words
    made = {}
    for name, (kind, given) in kinds.items():
        param = torch.nn.Parameter(torch.ones(_SIZE))
        param.grad = torch.ones(_SIZE)
        made[name] = kind([param], **given)
    return made


def run(name, rounds, clock, progress, before):
    """Medians of microseconds, and of the ratios within each round; prints them. torch's step has no clip."""
    now, made = measure.CLOCKS[clock], makers(CASES[name], before)
    times = {who: [] for who in made}
    for turn in range(rounds * 20):
        progress(turn, rounds * 20)
        for who, optimizer in made.items():
            start = now()
            for _ in range(_STEPS):
                optimizer.step()
            times[who].append((now() - start) * 1e6 / _STEPS)
    found = {who: {"us": statistics.median(series), "best": min(series)} for who, series in times.items()}
    found["of before"] = measure.ratio(times, "before", "altgrad") if before else None
    print(f"\n{name:<34}" + "".join(f"{who} {found[who]['us']:.1f}, best {found[who]['best']:.1f} us; " for who in made)
          + (f"{found['of before']['median']:.2f} of before" if before else ""), flush=True)
    return found
