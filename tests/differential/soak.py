"""Random specs for as long as it is told: counts cases and elements, leaves each failure as files."""

import argparse
import pathlib
import sys
import tempfile
import time

import compare
import ptxrun
import randomcase
import randomline
import randomstep
import test_ptxas_takes

REGRESSION = pathlib.Path(__file__).resolve().parents[1] / "regression"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("hours", type=float, nargs="?", default=0)
    parser.add_argument("--ptxas", type=int, default=0, metavar="COUNT", help="instead: so many requests through ptxas on every GPU target")
    parser.add_argument("--seed", type=int, help="the first seed; default: the clock")
    parser.add_argument("--cases", type=int, default=0, help="stop after so many specs")
    parser.add_argument("--failures", type=pathlib.Path, default=REGRESSION,
                        help="folder for failing specs; default: tests/regression")
    return parser.parse_args()


def report(cases, failures, start):
    print(f"{time.time() - start:8.0f} s  {cases} specs, {compare.TOTAL.runs} runs, "
          f"{compare.TOTAL.elements} elements, {failures} failures", flush=True)


def assemble(first, count):
    """Requests from a seed on for each GPU target through ptxas; how many it refused."""
    failures, stacks = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, first + count):
            text = randomline.text(randomline.generate(seed))
            for target in test_ptxas_takes.TARGETS:
                words, found = test_ptxas_takes.assembled(text, target, pathlib.Path(folder))
                failures += bool(words)
                stacks += found.values()
                for line in ([words.strip()[:300]] if words else []) + [f"{k}: {v}" for k, v in found.items()]:
                    print(f"seed {seed} {target}: {line}", flush=True)
            print(f"{seed - first + 1} requests from seed {first} on, {len(test_ptxas_takes.TARGETS)} targets, {failures} "
                  f"refused, {len(stacks)} kernels with a stack of {max((s[2] for s in stacks), default=0)} bytes at most", flush=True)
    return failures


def main():
    given = arguments()
    seed = given.seed if given.seed is not None else int(time.time())
    if given.ptxas:
        return 1 if assemble(seed, given.ptxas) else 0
    ptx = {"races": False} if ptxrun.available() else None
    print(f"seeds from {seed}; {'host and PTX' if ptx else 'host only: no interpreter'}", flush=True)
    start = told = time.time()
    cases = failures = 0
    while time.time() - start < given.hours * 3600 and (not given.cases or cases < given.cases):
        spec = (randomstep, randomline)[cases % 2].generate(seed + cases)
        words = randomcase.words_of(spec, ptx=ptx)
        cases += 1
        if words:
            failures += 1
            smaller, words = randomcase.shrink(spec, words, ptx=ptx)
            given.failures.mkdir(parents=True, exist_ok=True)
            path = randomcase.save(smaller, words, given.failures)
            print(f"FAILED seed {spec['seed']}, smallest spec in {path}\n  {words[:600]}", flush=True)
        if time.time() - told > 60:
            told = time.time()
            report(cases, failures, start)
    report(cases, failures, start)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
