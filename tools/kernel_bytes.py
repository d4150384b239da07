#!/usr/bin/env python3
"""Records the bytes that the compiler makes, and compares two recordings. Equal recordings show that a change of the
compiler changed no instruction.

    tools/kernel_bytes.py record before.json
    tools/kernel_bytes.py compare before.json after.json

Every template in every usual storage and mode, matrices, and 300 random requests, each as assembly for two CPUs, as
PTX for two GPUs and as a manifest for all of them. A recording has a SHA-256 of each, or what the compiler says.
"""

import argparse
import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import step_bytes

ROOT = Path(__file__).resolve().parents[1]
PRODUCTS = {"v3": ["--emit=asm", "--target=x86-64-v3"], "v4": ["--emit=asm", "--target=x86-64-v4"],
            "sm_80": ["--emit=ptx", "--target=sm_80"], "sm_90": ["--emit=ptx", "--target=sm_90"],
            "manifest": ["--emit=manifest", "--target=x86-64-v3,x86-64-v4,sm_80,sm_90"]}
MATRICES = [[f"--rule={rule}", f"--storage={storage}", *flags] for rule in ("muon", "normuon")
            for storage in ("param=f32", "param=bf16", "param=bf16 master=f32")
            for flags in ([], ["--clip"], ["--loss-scaler=torch", "--clip", "--statistics"],
                          ["--clip", "--exchange", "--expect-remote-products"])]


def requests(seeds):
    """Lists of options, without what is emitted."""
    sys.path.insert(0, str(ROOT / "tests/differential"))
    sys.path.insert(0, str(ROOT / "tests/reference"))
    import randomline
    import templatecases
    for rule, options, storage, mode in templatecases.all_cases():
        words = templatecases.storage_words(rule, options, storage)
        yield [f"--rule={rule}{{{options}}}" if options else f"--rule={rule}", f"--storage={words}", *templatecases.MODES[mode]]
    yield from MATRICES
    for seed in range(seeds):
        spec = randomline.generate(seed)
        yield [f"--set=rule={one['rule']}{{{','.join(one['options'])}}} {' '.join(one['words'])}"
               for one in spec["sets"]] + spec["flags"]


def recorded(compiler, request):
    """{product: digest or message} of one request."""
    found = {}
    for product, words in PRODUCTS.items():
        done = subprocess.run([compiler, *request, *words, f"--rule-path={ROOT}/templates"], capture_output=True)
        found[product] = (f"refused: {done.stderr.decode()}" if done.returncode else
                          hashlib.sha256(done.stdout).hexdigest())
    return found


def record(file, compiler, seeds, jobs, stride):
    every = list(requests(seeds))[::stride]
    with ThreadPoolExecutor(jobs) as pool:
        made = pool.map(lambda request: recorded(compiler, request), every)
        found = {f"{' '.join(request)} {product}": digest
                 for request, products in zip(every, made) for product, digest in products.items()}
    step_bytes.write(file, found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("record", help="make a recording")
    one.add_argument("file", help="the recording to write, as JSON")
    one.add_argument("--compiler", type=Path, default=ROOT / "build/bin/altgrad-opt",
                     help="the compiler to record (default: build/bin/altgrad-opt)")
    one.add_argument("--seeds", type=int, default=300, help="how many random requests (default 300)")
    one.add_argument("--jobs", type=int, default=2, help="compilers at a time (default 2)")
    one.add_argument("--stride", type=int, default=1, help="record each N-th request alone (default 1: all)")
    two = commands.add_parser("compare", help="compare two recordings; exit code 1 where they differ")
    two.add_argument("before", help="one recording")
    two.add_argument("after", help="the other one")
    given = parser.parse_args()
    if given.command == "compare":
        return step_bytes.compare(given.before, given.after)
    record(given.file, given.compiler, given.seeds, given.jobs, given.stride)
    return 0


if __name__ == "__main__":
    sys.exit(main())
