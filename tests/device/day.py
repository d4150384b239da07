"""The parts of a GPU day, each in a process of its own, and the report that grows with every part.

Checks run several at a time; what is measured, and what fills the card, runs alone.
"""

import importlib
import json
import os
import sys
import time

import gpu_bench
import parts
from gpu import ROOT, STAND_IN, Skipped, find, patience

MODULES = ["checks", "optimizers", "steady", "stress", "refusals", "matrices", "products", "libtorch", "shards", "seeds"]
LONGEST = 240  # seconds of a part on a GPU
SANITIZED = 3  # failed checks that compute-sanitizer looks at: it takes its time
CURVE = "curve-"
# They fill the card, or measure.
ALONE = {"above_two_billion", "little_memory", "refused_out_of_memory", "muon_times", "symmetric_times", "own_product_times"}
LONG = ("mixed_and_stored", "stock_classes", "bytes_equal_host")  # they begin first


class NotHere(Skipped):
    """There is no such device."""


def place(device):
    """Of the machine: {"where": words, "device": what a model needs}."""
    import platform
    import torch
    found = {"python": platform.python_version(), "torch": torch.__version__}
    if device.startswith("cuda"):
        if not torch.version.cuda:
            raise NotHere(f"torch {torch.__version__} is built without CUDA")
        if not torch.cuda.is_available():
            raise NotHere("torch finds no CUDA device")
        p = torch.cuda.get_device_properties(device)
        where = f"{p.name}, {p.multi_processor_count} SMs, {p.total_memory / 1e9:.0f} GB, sm_{p.major}{p.minor}"
    else:
        where = f"host against {device}, {platform.processor() or platform.machine()}"
    where += f", torch {torch.__version__}, Python {platform.python_version()}"
    if device.startswith(("cuda", STAND_IN)):
        found["device"] = find(device).state()
    return found | {"where": where}


class Day:
    """`bundles`: paths by name; `options` of tools/device_check.py."""

    def __init__(self, bundles, options):
        self.bundles, self.options, self.device = bundles, options, options.device
        self.on_gpu = self.device.startswith(("cuda", STAND_IN))
        self.begun, self.report, self.results = time.monotonic(), {"checks": []}, {}
        self.sanitizings = SANITIZED
        many = max(1, min(8, len(os.sched_getaffinity(0)) // 2)) if self.device.startswith("cuda") else 1
        self.jobs = options.jobs or many

    def checks(self):
        return {check.__name__: check for name in MODULES for check in importlib.import_module(name).CHECKS}

    def bodies(self):
        """name -> body(keep) of each part: facts first, kernels before torch.compile."""
        import facts
        import startup
        found = {"facts": lambda keep: facts.run(self.device, keep)} if self.on_gpu else {}
        for name, check in self.checks().items():
            found[name] = lambda keep, check=check: self.check(check)
        if self.on_gpu:
            found["startup"] = lambda keep: startup.run(self.device)
            for part in gpu_bench.PARTS:
                found[CURVE + part] = lambda keep, part=part: gpu_bench.run(
                    self.device, part, self.options.elements, time.monotonic() + self.limit(0.9), keep)
        return found

    def check(self, check):
        if self.on_gpu:
            find(self.device)  # makes the device known to torch
        return check(self.bundles, self.device)

    def wanted(self):
        bodies, only = self.bodies(), self.options.only
        unknown = [n for n in only if n not in bodies and not any(b.startswith(n + "-") for b in bodies)]
        if unknown:
            raise SystemExit(f"no parts named {', '.join(unknown)}; there are {', '.join(bodies)}")
        measured = lambda name: name == "startup" or name.startswith(CURVE)
        return {name: body for name, body in bodies.items()
                if (any(name == o or name.startswith(o + "-") for o in only) if only else
                    not (self.options.no_bench and measured(name)))}

    def left(self):
        return self.begun + self.options.minutes * 60 - time.monotonic()

    def limit(self, share=1.0):
        return share * max(min(self.left(), LONGEST if self.device.startswith("cuda") else patience(self.device)), 1)

    def keep(self):
        """Writes the report as it is now."""
        self.report["seconds"] = round(time.monotonic() - self.begun, 1)
        self.report |= {"facts": self.results.get("facts")}
        if "startup" in self.results:
            import startup
            rows = self.results["startup"]
            self.report["startup"] = {"rows": rows, "words": startup.words(rows)}
        curve = [result for name, result in self.results.items() if name.startswith(CURVE) and result]
        if curve:
            self.report["curve"] = gpu_bench.merged(curve)
        self.report["results"] = self.results
        self.options.json.parent.mkdir(parents=True, exist_ok=True)
        part = self.options.json.with_suffix(".part")
        part.write_text(json.dumps(self.report, indent=1) + "\n")
        part.rename(self.options.json)

    def resume(self):
        """Takes over what an earlier run has done: everything but what failed or was not run."""
        if self.options.resume and self.options.json.exists():
            before = json.loads(self.options.json.read_text())
            self.report["checks"] = [row for row in before["checks"] if row[1] in ("passed", "skipped")]
            done = {row[0] for row in self.report["checks"]}
            self.results = {name: result for name, result in before["results"].items() if name in done}

    def add(self, name, verdict, words, seconds=0.0):
        self.report["checks"].append((name, verdict, words, seconds))
        print(f"  {name:<36}{verdict:<8} {words} ({seconds} s)", flush=True)
        self.keep()

    def late(self, name):
        """Whether there is no time left for this part; says so."""
        if self.left() < 10:
            self.add(name, "not run", "no time left: --resume goes on from here")
        return self.left() < 10

    def together(self, bodies):
        """Several at a time; what a part prints comes with its verdict."""
        waiting, running = sorted(bodies, key=lambda name: not name.startswith(LONG)), {}
        while waiting or running:
            while waiting and len(running) < self.jobs:
                name = waiting.pop(0)
                if not self.late(name):
                    running[name] = parts.Part(bodies[name], self.limit(), quiet=self.jobs > 1)
            for name, part in list(running.items()):
                if said := part.poll():
                    del running[name]
                    self.ended(name, time.monotonic() - part.begun, *said)
            time.sleep(0.02)

    def ended(self, name, seconds, verdict, words, result):
        if result:
            self.results[name] = result
        if verdict == "FAILED" and self.device.startswith("cuda") and name in self.checks() and self.sanitizings:
            self.sanitizings -= 1
            command = [sys.executable, ROOT / "tools" / "device_check.py", "one", "--only", name, "--device", self.device]
            words += "; " + parts.sanitize(command, self.options.json.parent / f"sanitizer-{name}.txt", self.limit())
        self.add(name, verdict, words, round(seconds, 1))

    def run(self):
        """The rows of the report; None where the device is not here, after it has said so."""
        verdict, words, found = parts.run(lambda keep: place(self.device), self.limit())
        if verdict != "passed":
            print(f"not run on a GPU: {words}")
            return None
        self.report |= found
        self.resume()
        print(f"{found['where']}, {len(self.bundles)} bundles", flush=True)
        done = {row[0] for row in self.report["checks"]}
        bodies = {name: body for name, body in self.wanted().items() if name not in done}
        checks = {name for name in self.checks() if name not in ALONE}
        for stage in stages(bodies, lambda name: self.jobs > 1 and name in checks):
            self.together(stage)
        self.keep()
        return self.report["checks"]


def stages(bodies, beside):
    """The parts in their order, each alone, but for those that may run beside others: one stage, where the first is."""
    shared, found = {name: body for name, body in bodies.items() if beside(name)}, []
    for name, body in bodies.items():
        if name not in shared:
            found.append({name: body})
        elif shared not in found:
            found.append(shared)
    return found


def one(bundles, options):
    """The parts of --only in this process, as compute-sanitizer wants them."""
    day = Day(bundles, options)
    for name, body in day.wanted().items():
        print(name, body(lambda result: None), flush=True)
    os._exit(0)
