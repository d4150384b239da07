"""Steps whose PTX is mutated, and the comparisons that must notice: those of tests/differential, cheapest first."""

import copy
import functools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "differential"))

import compare  # noqa: E402
import hostrun  # noqa: E402
import phaserun  # noqa: E402
import program  # noqa: E402
import ptxrun  # noqa: E402
import templatecases  # noqa: E402
import test_huge_tensors  # noqa: E402
import test_reductions  # noqa: E402
from buffers import Memory  # noqa: E402

TARGETS = {"adamw mixed": "sm_80", "lamb": "sm_90", "sgd bf16": "sm_80", "ademamix f16": "sm_90", "rmsprop copy": "sm_90",
           "lion f32": "sm_80"}
TEXTS = {"reductions": (test_reductions.step("bf16"), "sm_80"),
         "two sets": ((program.TEMPLATES / "steps" / "adamw_mixed.mlir").read_text(), "sm_90")}
FUNCTIONS = """altgrad.step @s(in %x: f64 per_tensor, in %n: i64 per_tensor, out %e: f64 per_tensor, out %l: f64 per_tensor,
    out %p: f64 per_tensor, in %a: !altgrad.tensors<f32>, out %b: !altgrad.tensors<f32>) {
  %e1 = math.exp %x : f64
  %l1 = math.log %x : f64
  %p1 = math.fpowi %x, %n : f64, i64
  %v = dequantize %a : !altgrad.tensors<f32>
  commit always %e1 to %e : f64, %l1 to %l : f64, %p1 to %p : f64, %v to %b : !altgrad.tensors<f32>
}
"""
CHEAP = ("values", "still", "sums", "folds", "functions")
NAMES = [*TARGETS, *TEXTS, "functions"]


# What a step rounds away is judged where it is seen, exp and log in f64 by the case `functions`; so are indices of
# 64 bits, which no step of two sets is run with.
def elsewhere(name, fault):
    if name == "ademamix f16":
        return fault.kernel.endswith("_rows")
    if name == "functions":
        return not fault.kernel.endswith("_rows")
    return name == "two sets" and fault.kind in ("narrow", "widths")


EDGES = [2.0**-1022, 709.0, -708.0, 0.0, -0.0, 1.0, 2.0, 708.9, -707.9, -708.1, 709.1, 1e-300, 1e-310, np.inf, -np.inf, np.nan,
         2**0.5, 2**0.5 * 4, 800.0]


def case(name):
    return Functions(name) if name == "functions" else Case(name)


class Library:
    """The interpreter with a limit of steps: a fault may make a loop endless."""

    def __init__(self, library):
        self._library, self.limit, self.most = library, 1 << 32, 0

    def __getattr__(self, name):
        return getattr(self._library, name)

    def ptx_launch(self, vm, kernel, options):
        options._obj.step_limit = self.limit
        done = self._library.ptx_launch(vm, kernel, options)
        self.most = max(self.most, self._library.ptx_steps(vm))
        return done


class Case:
    """One step for one target, and per comparison the memories before and after it."""

    def __init__(self, name):
        self.name = name
        if name in TEXTS:
            templatecases.use_rule("adamw")
            text, self.target = TEXTS[name]
        else:
            rule, storage, flags = templatecases.STEPS[name]
            templatecases.use_rule(rule.split("{")[0])
            text, self.target = program.generated(rule, storage, *flags), TARGETS[name]
        self.compiled = program.Program(text, (self.target,))
        self.text = self.compiled.ptx(self.target)
        self.reduces = self.compiled.manifest["workspace"]["chunk_words"] > 0
        self.stages = {"values": self._values, "still": self._still, "sums": self._sums, "folds": self._folds,
                       "placement": self._placement, "million": self._million, "huge": self._huge}
        self.limits, self.kinds = {}, None

    def judge(self, text, *stages):
        """The first comparison that notices the text, with its words; None: nobody does."""
        mutant = copy.copy(self.compiled)
        mutant.ptx = lambda target: text
        for stage in stages or self.stages:
            if stage not in self.stages:
                continue
            try:
                words = self.stages[stage](mutant)
            except ptxrun.Fault as fault:
                words = str(fault)
            if words:
                return stage, words
        return None

    def _plan(self, mutant, key, **options):
        """A plan whose launches may take a few times what they took without a fault."""
        plan = ptxrun.PtxPlan(mutant, self.target, **options)
        plan.lib = Library(plan.lib)
        plan.lib.limit = self.limits.get(key, 1 << 28)
        return plan

    def _agrees(self, mutant, key, pairs, **options):
        plan = self._plan(mutant, key, **options)
        for number, (start, expected) in enumerate(pairs, 1):
            got = start.twin()
            plan.run(got)
            if words := got.difference(expected):
                return f"step {number}: {words}"
        self.limits.setdefault(key, 4 * plan.lib.most + 100000)
        return None

    def _parts(self, *sizes):
        """These sizes for the first set of tensors, fewer for each other."""
        return [list(sizes[k:]) for k in range(self.compiled.manifest["sets"])]

    def _pairs(self, parts, seed, shift, schedule):
        rng = np.random.default_rng(seed)
        rows = self.compiled.rows(parts, 3)
        shifts = [int(rng.integers(1, 16)) if shift and i % 3 == 0 else 0 for i in range(len(rows.numel))]
        values = templatecases.start_values(self.compiled, rows, rng)
        for special, scalars in schedule:
            values = {**compare.fresh_inputs(self.compiled, values, rows, rng, special), **scalars}
            start = Memory(self.compiled.signature, rows, shifts).fill(values)
            expected = start.twin(compare.reference(self.compiled, rows, values))
            yield start, expected
            values = expected.values()

    @functools.cached_property
    def _plain(self):
        return list(self._pairs(self._parts(300, 1, 17, 0, 4103, 33), 1, True,
                                templatecases.schedule_for(self.compiled)))

    @functools.cached_property
    def _crowded(self):
        schedule = templatecases.schedule_for(self.compiled)
        many = self._parts(*([1, 2, 0] * 200), 257, 4097)
        sizes = self._parts(*range(34), 255, 256, 1023, 1025, 4095, 4096, 8197)
        one = [self._misaligned(stream["name"]) for stream in self.compiled.manifest["streams"]]
        return [*self._pairs(many, 2, True, schedule[:1]), *self._pairs(sizes, 3, True, schedule[:2]), *one]

    def _misaligned(self, stream):
        rng = np.random.default_rng(10)
        rows = self.compiled.rows(self._parts(40, 300), 1)
        return self._pair(rows, templatecases.start_values(self.compiled, rows, rng), {stream: 1})

    def _values(self, mutant):
        """As test_templates_agree.py: steps that follow each other, grids of 1, 3 and 2 blocks."""
        return self._agrees(mutant, "values", self._plain)

    def _placement(self, mutant):
        """As test_placement.py: races, another order of blocks, every small size, more rows than threads."""
        return self._agrees(mutant, "placement", self._crowded, blocks=(2, 3), races=True, order=2)

    def _limited(self, key):
        return lambda mutant, target, *blocks: self._plan(mutant, key, **({"blocks": blocks[0]} if blocks else {}))

    @functools.cached_property
    def _unmoved(self):
        rng = np.random.default_rng(9)
        rows = self.compiled.rows(self._parts(12000, 333, 1), 1)
        if self.name == "reductions":
            return [self._pair(rows, test_reductions.one_wrong(self.compiled, rows, rng, wrong, infinite))
                    for wrong in (None, 0, 1234, 12001) for infinite in (False, True)]
        return [self._pair(rows, templatecases.still_values(self.compiled, rows, rng, moving))
                for moving in templatecases.STILL]

    def _pair(self, rows, values, shifts=None):
        start = Memory(self.compiled.signature, rows, shifts or [i % 2 for i in range(len(rows.numel))]).fill(values)
        return start, start.twin(compare.reference(self.compiled, rows, start.values()))

    def _still(self, mutant):
        """As test_templates_agree.py, ties and special codes; as test_reductions.py, what hangs on one element."""
        return self._agrees(mutant, "still", self._unmoved)

    @functools.cached_property
    def _summed(self):
        return [(memory, *phaserun.recorded(self.compiled, memory)) for memory in (
            test_reductions.many_tensors(self.compiled, spoiled) for spoiled in (False, True))]

    def _sums(self, mutant):
        """As test_reductions.py: partial sums of chunks and tensors in the workspace."""
        if not self.reduces:
            return None
        return next(filter(None, (phaserun.sums_missing(mutant, self.target, *memory, self._limited("sums"))
                                  for memory in self._summed)), None)

    def _folds(self, mutant):
        """As test_reductions.py: tensors of any number of chunks."""
        if not self.reduces:
            return None
        kinds = list(test_reductions.folded(mutant, self.target, self._limited("folds")))
        self.kinds = self.kinds or kinds
        return f"{kinds}, not {self.kinds}" if kinds != self.kinds else None

    @functools.cached_property
    def _many(self):
        rng = np.random.default_rng(4)
        rows = self.compiled.rows(self._parts(120 * ptxrun.CHUNK + 5, 7, 3, 0), 3)
        values = templatecases.start_values(self.compiled, rows, rng)
        templatecases.without_parameters(self.compiled, values)
        return [self._pair(rows, values)]

    def _million(self, mutant):
        """As test_templates_agree.py, half of it: roundings that a narrow format mostly hides."""
        return self._agrees(mutant, "million", self._many, blocks=(3,))

    @functools.cached_property
    def _small(self):
        return test_huge_tensors.small(self.compiled)

    def _huge(self, mutant):
        """As test_huge_tensors.py, which has one tensor."""
        if self.compiled.manifest["sets"] > 1:
            return None
        return test_huge_tensors.difference(mutant, self.target, 0, *self._small, self._limited("huge"))


class Functions(Case):
    """exp, log and powers in f64, against the host's, as test_functions.py compares them."""

    def __init__(self, name):
        self.name, self.target = name, "sm_80"
        self.compiled = program.Program(FUNCTIONS, ("x86-64-v3", self.target))
        self.text = self.compiled.ptx(self.target)
        self.stages, self.limits = {"functions": self._scattered}, {}

    def _scattered(self, mutant):
        return self._agrees(mutant, "functions", self._plain, blocks=(3,))

    @functools.cached_property
    def _plain(self):
        rng = np.random.default_rng(8)
        x = np.concatenate([rng.uniform(-1, 1, 6000), rng.uniform(-720, 720, 2000), np.exp(rng.uniform(-650, 650, 3000)),
                            1 + rng.normal(0, 1e-7, 50), EDGES])
        return [self._matched(x, rng), self._matched(x[-5:], rng)]

    def _matched(self, x, rng):
        count = len(x)
        values = {"x": x, "n": rng.choice([0, 1, 2, 3, -1, -7, 1000, 2**31, 2**40 + 1], count),
                  **{n: np.zeros(count) for n in "elp"}, **{n: np.zeros(count, np.uint32) for n in "ab"}}
        start = Memory(self.compiled.signature, compare.Rows([1] * count, [0] * count), [0] * count).fill(values)
        expected = start.twin()
        hostrun.HostPlan(self.compiled, "v3").run(expected)
        return start, expected


def refused(text):
    """Why this is no PTX, or None: no compiler would have emitted it."""
    library = ptxrun._library()
    vm = library.ptx_create(text.encode())
    if not vm:
        return library.ptx_error().decode()
    library.ptx_destroy(vm)
    return None
