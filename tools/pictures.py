#!/usr/bin/env python3
"""Draws pictures of the formats and of training in them. It needs matplotlib and no display.

    formats   the numbers of each 8-bit format, its relative error and its rungs
    states    training with states of 32, 8 and 4 bits: means of several runs
    muon      a small GPT under Muon with AdamW beside it, and under AdamW alone
    rungs     where the weights of a run of GridOptim lie, and how many of them move in a step

It also prints the figures behind each picture.
"""

import argparse
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "runtime" / "python")]
from pictures import draw_formats, draw_muon, draw_rungs, draw_states  # noqa: E402

PICTURES = {"formats": draw_formats, "states": draw_states, "muon": draw_muon, "rungs": draw_rungs}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"pictures to draw, separated by commas (default: {','.join(PICTURES)})", default=",".join(PICTURES))
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "pictures",
                        help="the folder to write to (default build/pictures)")
    parser.add_argument("--runs", type=int, default=4, help="runs with each storage of the states or optimizer, each with another seed (default 4)")
    parser.add_argument("--epochs", type=int, default=12, help="epochs of each training run, of 100,000 letters each (default 12)")
    parser.add_argument("--steps", type=int, default=400, help="steps of each run of the GPT (default 400)")
    options = parser.parse_args()
    wanted = options.only.split(",")
    if unknown := [name for name in wanted if name not in PICTURES]:
        parser.error(f"no picture is called {unknown[0]!r}; there are {', '.join(PICTURES)}")
    for name in ("runs", "epochs", "steps"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} is {getattr(options, name)}; it is at least 1")
    options.out.mkdir(parents=True, exist_ok=True)
    for name in wanted:
        path = options.out / f"{name}.png"
        PICTURES[name](options).savefig(path, dpi=100)
        print(f"wrote {path}")


if __name__ == "__main__":
    main()
