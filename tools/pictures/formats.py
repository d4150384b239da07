"""The numbers of each 8-bit format, how far a number is from the nearest, and their rungs."""

import numpy
import torch
from matplotlib.figure import Figure

import altgrad

# altgrad.e5m2 is OCP's. What is drawn of e7m0 goes from 2^-62 to 2^64.
FORMATS = ["ocp.e4m3fn", "ocp.e5m2", *(f"altgrad.e{e}m{7 - e}" for e in (0, 1, 2, 3, 4, 6, 7))]
SPAN = 2.0 ** -17, 2.0 ** 17


def numbers(name):
    """All positive numbers of a format of up to 8 bits: each of them is a bfloat16, so none is missed."""
    candidates = torch.arange(1, 0x7F80, dtype=torch.int16).view(torch.bfloat16).float()
    found = altgrad.quantize(candidates, name, 1.0).unique()
    return found[(found > 0) & found.isfinite()].double().numpy()


def typical_error(name, least, greatest):
    """The median of |q - x| / x over what lies between, q the format's nearest number to x, x log-uniform."""
    x = torch.from_numpy(numpy.geomspace(least, greatest, 100_001).astype(numpy.float32))
    return ((altgrad.quantize(x, name, 1.0) - x).abs() / x).median().item()


def draw_formats(options=None):
    figure = Figure(figsize=(10, 8.5), layout="constrained")
    grid, relative, rungs = figure.subplots(3, height_ratios=[1.1, 1, 1], sharex=True)
    print(f"{'format':<14}{'numbers > 0':>12}{'least':>12}{'greatest':>12}{'typical error':>15}")
    for row, name in enumerate(FORMATS):
        found, look = numbers(name), {"color": f"C{row}", "linewidth": 1.2}
        below, above = found[:-1], found[1:]
        # A number half-way between two of the format is as far off as it gets.
        relative.step((below + above) / 2, 100 * (above - below) / (above + below), where="mid", **look)
        rungs.step(found, numpy.arange(1, len(found) + 1), where="mid", label=name, **look)
        grid.vlines(found, row - 0.4, row + 0.4, colors=look["color"], linewidth=0.5)
        typical = typical_error(name, found[0], found[-1])
        print(f"{name:<14}{len(found):>12}{found[0]:>12.4g}{found[-1]:>12.4g}{typical:>14.2%}")
    grid.set_yticks(range(len(FORMATS)), FORMATS, fontsize="small")
    grid.invert_yaxis()
    grid.set_title("the positive numbers of each format", fontsize=10)
    relative.set(yscale="log", ylabel="largest error, %")
    relative.set_title("half-way between two numbers: how far off, in per cent", fontsize=10)
    rungs.set(xlim=SPAN, ylabel="rung", xlabel="number")
    rungs.set_xscale("log", base=2)
    rungs.set_title("rungs: which number it is, counted from zero", fontsize=10)
    rungs.legend(fontsize="x-small", ncols=2)
    for axis in (relative, rungs):
        axis.grid(alpha=0.3)
    return figure
