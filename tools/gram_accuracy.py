#!/usr/bin/env python3
"""Prints how far the forms of altgrad.orthogonalize are from the same iteration in float64, in a table for Markdown.

Each row is a set of coefficients and a form, and has the worst of all shapes and spectra: by how much a singular value
is off at most and on average, how far the matrix is in Frobenius' norm, and how often as far as the direct form in bf16
in the case where that compares worst. Operands and results are rounded to the format; sums are float32.
"""
import argparse
import itertools
import pathlib
import re
import subprocess

import torch

ROOT = pathlib.Path(__file__).resolve().parent.parent
COMPILER = ROOT / "build" / "bin" / "altgrad-opt"
SETS = "jordan", "polar_dion", "polar_gns", "polar_emerging", "you", "aol", "cans", "deepseek_v4"
SPECTRA = "gaussian", "power", "1e2", "1e3", "1e4", "low rank"
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32
# What it is, the formats of X, of squares and of Q where X is multiplied by it, and the steps up to a restart.
FORMS = [("direct bf16", BF16, None, None, 0), ("direct f16", F16, None, None, 0)]
FORMS += [(f"Gram {name}, {after}", *formats, steps)
          for name, *formats in [("bf16", BF16, BF16, BF16), ("f16", F16, F16, F16), ("bf16, squares f32", BF16, F32, F32),
                                 ("bf16, squares f32, Q bf16", BF16, F32, BF16)]
          for after, steps in (("restarts after 3", 3), ("restarts after 2", 2), ("no restart", 99))]


def coefficients_of(name):
    text = subprocess.run([COMPILER, "--list-coefficients"], capture_output=True, text=True, check=True).stdout
    line = re.search(rf"^{name} .*?: (.*)$", text, re.M)[1]
    rows = [tuple(map(float, row.split())) for row in re.findall(r"\(([^()]+)\)", line)]
    return rows * 5 if len(rows) == 1 else rows


def matrix(rows, columns, spectrum, made):
    """A matrix in float64 whose norm is 1."""
    draw = lambda *shape: torch.randn(shape, generator=made, dtype=torch.float64)
    x, rank = draw(rows, columns), rows // 8
    if spectrum == "low rank":
        x = draw(rows, rank) @ draw(rank, columns) / rank ** 0.5 + 0.01 * x
    elif spectrum != "gaussian":
        index = torch.arange(rows, dtype=torch.float64)
        values = 1 / (index + 1) if spectrum == "power" else float(spectrum) ** (-index / (rows - 1))
        x = torch.linalg.qr(draw(rows, rows))[0] * values @ torch.linalg.qr(draw(columns, rows))[0].mT
    return x / x.norm()


def direct(x, rows, rounded):
    x = rounded(x)
    for a, b, c in rows:
        square = rounded(x @ x.mT)
        x = rounded(a * x + rounded(b * square + c * (square @ square)) @ x)
    return x


def by_gram(x, rows, formats, restart):
    """altgrad.orthogonalize's Gram form. The shift of a diagonal is rounded by itself, as the libraries add it."""
    of_x, of_square, of_q = (lambda y, to=to: y.to(to).to(y.dtype) for to in formats)
    x, one = of_x(x), torch.eye(len(x), dtype=x.dtype)
    for begin in range(0, len(rows), restart):
        r, q = of_square(x @ x.mT), None
        group = rows[begin:begin + restart]
        for step, (a, b, c) in enumerate(group, 1):
            w = of_square(of_square(b * r + c * (r @ r)) + a * one)
            q = w if q is None else of_square(q @ w)
            if step < len(group):
                r = of_square(w @ of_square(r @ w))
        x = of_x(of_q(q) @ x)
    return x


def measured(x, rows):
    """Of each form, by how much singular values are off at most and on average, and the matrix."""
    exact = direct(x, rows, lambda y: y)
    values_of = lambda y: torch.linalg.eigvalsh(y @ y.mT).clamp(min=0).sqrt()
    wanted, found = values_of(exact), []
    for _, of_x, *formats, restart in FORMS:
        ours = (by_gram(x.float(), rows, (of_x, *formats), restart) if restart else
                direct(x.float(), rows, lambda y: y.to(of_x).float())).double()
        off = (values_of(ours) - wanted).abs() if ours.isfinite().all() else torch.full_like(wanted, torch.inf)
        found.append([off.max(), off.mean(), ((ours - exact).norm() / exact.norm()).nan_to_num(torch.inf)])
    return torch.tensor(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=128, help="the shorter side")
    parser.add_argument("--ratios", type=float, nargs="+", default=[2, 2.7, 4, 8], help="longer sides, over the shorter one")
    parser.add_argument("--spectra", nargs="+", default=SPECTRA, choices=SPECTRA,
                        help="singular values: of random numbers, 1/i, falling by so much, of an eighth of the rank and noise")
    parser.add_argument("--sets", nargs="+", default=SETS, help="names of sets of coefficients")
    parser.add_argument("--each", action="store_true", help="a table for each shape and spectrum, too")
    given = parser.parse_args()
    print("| coefficients | form | singular value, most | mean | matrix | times direct bf16: most | mean | matrix |\n|" + "---|" * 8)

    def show(name, worst, ratio):
        for (form, *_), row, times in zip(FORMS, worst, ratio):
            print(f"| {name} | {form} | " + " | ".join(f"{value:.1g}" for value in row.tolist()) +
                  " | " + " | ".join(f"{value:.2g}" for value in times.tolist()) + " |")

    all_sets = []
    for name in given.sets:
        made, rows, cases = torch.Generator().manual_seed(0), coefficients_of(name), []
        for ratio, spectrum in itertools.product(given.ratios, given.spectra):
            cases.append(measured(matrix(given.rows, int(given.rows * ratio), spectrum, made), rows))
            if given.each:
                show(f"{name}, {ratio:g}, {spectrum}", cases[-1], cases[-1] / cases[-1][0])
        every = torch.stack(cases)
        all_sets.append((every.amax(0), (every / every[:, :1]).amax(0)))
        show(name, *all_sets[-1])
    show("all of these", *(torch.stack(parts).amax(0) for parts in zip(*all_sets)))


if __name__ == "__main__":
    main()
