"""Sums of rules over the step, such as Prodigy's: an all-reduce of what each set, device and rank has of them."""

from itertools import groupby
from operator import itemgetter

import torch

from .._binding.device_context import on_device_of
from .._bundle import ADD, ALL, SUMSQ


def of_rules(points, ranks, steps):
    """Puts the total of each sum of a rule in the place of its shares, for (Share, words) of all tables at one stop. Returns
    a number above 0 if this or another rank `steps`, that is has a gradient; None where there is no such sum.

    Shares of one name are of one sum. Of an addition the first word of each table gets the total and the others 0,
    because the kernels add the words of their sets. The kernels take the largest, or the conjunction, of the others.
    """
    named = sorted([(name, kind, place, word) for place, (_, words) in enumerate(points) for kind, word, name in words if name],
                   key=itemgetter(0, 2))
    sums = {name: [entry[1:] for entry in entries] for name, entries in groupby(named, key=itemgetter(0))}
    added = [entries for entries in sums.values() if entries[0][0] in (ADD, SUMSQ)]
    others, anyone = [entries for entries in sums.values() if entries[0][0] not in (ADD, SUMSQ)], None
    if added:
        *totals, anyone = _totals(added, [share for share, _ in points], ranks, steps).unbind()
        for entries, total in zip(added, totals):
            firsts = {place: at for at, (_, place, _) in reversed([*enumerate(entries)])}
            for at, (_, place, word) in enumerate(entries):
                word.copy_(total) if firsts[place] == at else word.zero_()
    if others:
        *largest, anyone = _largest(others, ranks, steps).unbind()
        for entries, most in zip(others, largest):
            for kind, _, word in entries:
                word.copy_(most == 0.0 if kind == ALL else most)
    return anyone


def _totals(sums, shares, ranks, steps):
    """A float32 of each sum over all tables and ranks, which counts what several of them have once, and of ranks that step."""
    totals = [[torch.zeros_like(entries[0][2]) for entries in sums] for _ in range(max(1, len(ranks.tops)))]
    for at, entries in enumerate(sums):
        for _, place, word in entries:
            if shares[place].counted:
                total = totals[shares[place].top][at]
                total += on_device_of(word, total)
    return ranks.sum([torch.stack([*of, of[0].new_full((), float(steps))]) for of in totals]).float()


def _largest(sums, ranks, steps):
    """A float32 of each sum over all tables and ranks: the largest number, NaN if one is; of conjunctions 0 where all hold. At
    the end 1 if a rank steps."""
    device = sums[0][0][2]
    mine = torch.stack([torch.stack([on_device_of((word == 0).float() if kind == ALL else word, device)
                                     for kind, _, word in entries]).amax() for entries in sums]
                       + [device.new_full((), float(steps))])
    if not ranks:
        return mine
    broken = mine.isnan()  # what a process group says of the larger of a number and NaN depends on their order
    least = mine.new_full((), -float("inf"))
    most, broken = ranks.worst(torch.stack([mine.where(~broken, least), broken.float()])).float().unbind()
    return most.where(broken == 0.0, mine.new_full((), float("nan")))
