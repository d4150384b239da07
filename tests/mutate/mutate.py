"""Seeds faults and tells which test notices: in emitted PTX (ptxfaults.py) and in sources (passes.txt, codegen.txt, templates.txt)."""

import argparse
import collections
import hashlib
import json
import pathlib
import random
import sys
import time

import equivalent
import sources

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build-mutate"


class Ledger:
    """What is known of each fault, a line of JSON each: a run that was interrupted goes on where it ended."""

    def __init__(self, path):
        self.path, self.known = path, {}
        path.parent.mkdir(exist_ok=True)
        for line in path.read_text().splitlines() if path.exists() else []:
            entry = json.loads(line)
            self.known[entry["key"]] = entry

    def add(self, **entry):
        self.known[entry["key"]] = entry
        with open(self.path, "a") as file:
            file.write(json.dumps(entry) + "\n")


def _key(*parts):
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:24]


#===-- PTX ---------------------------------------------------------------------===#

def ptx_faults(given):
    """(case, fault, key), of every case and kind at most --sample, in an order that --seed decides."""
    import ptxcases
    import ptxfaults
    for name in given.cases or ptxcases.NAMES:
        case = ptxcases.case(name)
        if broken := case.judge(case.text):
            sys.exit(f"{name} fails without a fault: {broken[0]}: {broken[1]}")
        every = [f for f in ptxfaults.faults(case.text) if not ptxcases.elsewhere(name, f)]
        random.Random(given.seed).shuffle(every)
        taken = collections.Counter()
        for fault in every:
            if given.kinds and fault.kind not in given.kinds or given.sample and taken[fault.kind] >= given.sample:
                continue
            taken[fault.kind] += 1
            yield case, fault, _key(case.text, fault.kind, fault.line, fault.new)


def run_ptx(given, until):
    import ptxcases
    import ptxfaults
    ledger, told = Ledger(FOLDER / "ptx.jsonl"), time.time()
    entries = []
    for case, fault, key in ptx_faults(given):
        known = ledger.known.get(key, {"verdict": ""})["verdict"]
        if not known or given.again and known == "survived":
            if time.time() > until:
                print("out of time: the same command goes on from here")
                break
            text = ptxfaults.seeded(case.text, fault)
            if error := ptxcases.refused(text):
                verdict, by = "invalid", error
            else:
                found = case.judge(text, *(ptxcases.CHEAP if equivalent.reason(case.text, fault) else ()))
                verdict, by = ("caught", ": ".join(found)[:160]) if found else ("survived", "")
            ledger.add(key=key, level="ptx", kind=fault.kind, case=case.name, words=fault.words, verdict=verdict, by=by)
        entries.append(judged(ledger.known[key], case.text, fault))
        if time.time() > told + 60:
            told = time.time()
            print(f"{len(entries)} faults, {case.name}", file=sys.stderr, flush=True)
    return entries


def judged(entry, text, fault):
    """A survivor that equivalent.py knows is told with its reason."""
    reason = entry["verdict"] == "survived" and equivalent.reason(text, fault)
    return {**entry, "verdict": "equivalent", "by": reason} if reason else entry


#===-- Sources -----------------------------------------------------------------===#

def run_source(given, until):
    ledger = Ledger(FOLDER / "source.jsonl")
    tree = sources.Tree(FOLDER)
    entries = []
    for fault in random.Random(given.seed).sample(sources.FAULTS, len(sources.FAULTS)):
        if given.kinds and fault.kind not in given.kinds or given.only and fault.name not in given.only:
            continue
        key = _key(fault, (tree.source / fault.file).read_text())
        entry = ledger.known.get(key)
        survivor = entry and entry["verdict"] == "survived" and not fault.equivalent
        wide = bool(given.wide and survivor and not entry["wide"])
        if not entry or wide or given.again and survivor:
            if time.time() > until:
                print("out of time: the same command goes on from here")
                break
            verdict, by = tree.judge(fault, wide)
            entry = dict(key=key, level="source", kind=fault.kind, case=fault.file, words=fault.name, verdict=verdict,
                         by=by, wide=wide)
            ledger.add(**entry)
        if entry["verdict"] == "survived" and fault.equivalent:
            entry = {**entry, "verdict": "equivalent", "by": fault.equivalent}
        print(f"{entry['verdict']:10} {fault.name}: {entry['by']}", flush=True)
        entries.append(entry)
    return entries


#===-- Table -------------------------------------------------------------------===#

def table(entries):
    counts = collections.defaultdict(collections.Counter)
    for entry in entries:
        counts[entry["level"], entry["kind"]][entry["verdict"]] += 1
        counts["all", ""][entry["verdict"]] += 1
    print(f"\n{'':24}{'caught':>8}{'equivalent':>12}{'survived':>10}{'invalid':>9}{'caught of the rest':>20}")
    for (level, kind), count in counts.items():
        rest = count["caught"] + count["survived"]
        share = f"{100 * count['caught'] / rest:.1f} %" if rest else ""
        print(f"{level + ' ' + kind:24}{count['caught']:8}{count['equivalent']:12}{count['survived']:10}"
              f"{count['invalid']:9}{share:>20}")


def details(entries):
    by = collections.Counter((e["level"], e["case"] if e["level"] == "ptx" else e["kind"], e["by"].split(":")[0])
                             for e in entries if e["verdict"] == "caught")
    print("\ncaught by")
    for words, count in sorted(by.items()):
        print(f"  {count:6}  {' '.join(words)}")
    reasons = collections.Counter(e["by"] for e in entries if e["verdict"] == "equivalent")
    print("\nequivalent because")
    for reason, count in reasons.most_common():
        print(f"  {count:6}  {reason}")
    print("\nsurvived")
    for entry in entries:
        if entry["verdict"] == "survived":
            print(f"  {entry['level']} {entry['kind']}, {entry['case']}: {entry['words']}")


LEVELS = {"ptx": run_ptx, "source": run_source}


def arguments(words=None):
    parser = argparse.ArgumentParser(prog="tools/mutate.sh", description=__doc__)
    parser.add_argument("levels", nargs="*", metavar="ptx|source", help="where faults are seeded; default: both")
    parser.add_argument("--kinds", type=lambda s: s.split(","), help="kinds of faults; default: all")
    parser.add_argument("--cases", type=lambda s: s.split(","), help="ptx: names of ptxcases.py; default: all")
    parser.add_argument("--again", action="store_true", help="judge once more what has survived")
    parser.add_argument("--wide", action="store_true", help="source: all other tests for what survived its own")
    parser.add_argument("--only", action="append", choices=[fault.name for fault in sources.FAULTS], metavar="NAME",
                        help="source: the fault of this name; may be given for several; default: all")
    parser.add_argument("--sample", type=int, default=0, help="ptx: at most so many of a kind and case; default: all")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no further fault after this time")
    parser.add_argument("--seed", type=int, default=0, help="the order of the faults")
    given = parser.parse_args(words)
    if unknown := [level for level in given.levels if level not in LEVELS]:
        parser.error(f"unknown level '{unknown[0]}', expected ptx or source")
    given.levels = given.levels or list(LEVELS)
    return given


def main():
    given = arguments()
    until = time.time() + given.seconds
    entries = []
    for level in given.levels:
        entries += LEVELS[level](given, until)
    details(entries)
    table(entries)
    return any(e["verdict"] == "survived" for e in entries)


if __name__ == "__main__":
    sys.exit(main())
