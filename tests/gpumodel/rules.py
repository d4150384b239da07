"""What a GPU's kernels have to keep to, read from their machine code; and the steps that are looked at."""

import flow
import kernels
from machine import BLOCK_WARPS
from steps import Shape

REGISTERS, FLIGHT, SHARE = 64, 40 << 10, 0.95
TABLES = 4  # a chunk's row and begin, its tensor's length and a pointer at the least
UNALIGNED = {4: 1.15, 2: 1.3, 1: 1.3}  # by bytes of the narrowest stream: of the time that aligned streams take
PLAIN = [Shape("2 M", 1, 2_000_000)]
REDUCING = [Shape("8 M", 1, 8_000_000)]


class Miss:
    """A rule that a step breaks: by `value`, which is worse the further it is from `bound`."""

    def __init__(self, step, rule, where, value, bound):
        self.request, self.target, self.rule, self.where = step.name, step.machine.target, rule, where
        self.value, self.bound = value, bound

    def __str__(self):
        return f"{self.request} on {self.target}: {self.where}: {self.rule} {self.value:.4g}, bound {self.bound:.4g}"


def _sweep(step, phase):
    sweep, machine, where = step.sweeps[phase["symbol"]], step.machine, phase["name"]
    loop = [i for i, _ in sweep.loop]
    # The wide accesses are all that a chunk takes. Outside a loop the others are those of tables.
    narrow = sum(0 < i.bytes() != sweep.width and not sweep.unrolled for i in loop)
    yield Miss(step, "accesses", where, narrow, sweep.narrow()), narrow <= sweep.narrow()
    resident = machine.resident_blocks(sweep.registers, sweep.shared)
    code = sweep.before + 2 * sweep.loop + sweep.after
    flight = kernels.in_flight(code, sweep.width, sweep.moved) * BLOCK_WARPS * resident
    yield Miss(step, "flight", where, flight, FLIGHT), flight >= FLIGHT
    issued, budget = sweep.instructions_per_byte(), machine.instructions_per_byte() / 2
    yield Miss(step, "instructions", where, issued, budget), issued <= budget
    accesses = max(1, sweep.elements() * step.narrowest(phase) / flow.WIDE)
    regions = sum(i.base == "BSSY" for i in loop) / accesses
    yield Miss(step, "regions", where, regions, 1), regions <= 1
    # Tables are loaded before a sweep waits for the launch before; ptxas moves what it may behind that.
    way = [i for i, _ in sweep.before] + loop
    wait = next((n for n, i in enumerate(way) if i.base == "ACQBULK"), None)
    early = sum(i.base == "LDG" for i in way[:wait])
    yield Miss(step, "wait", where, early, TABLES), wait is None or early >= TABLES


def _function(step, function):
    yield Miss(step, "registers", function.name, function.registers, REGISTERS), function.registers <= REGISTERS
    memory = function.stack + function.local
    yield Miss(step, "stack", function.name, memory, 0), memory == 0


def _shares(step):
    bound = UNALIGNED[min(min(step.sizes(phase)) for phase in step.of("sweep"))]
    for shape in REDUCING if step.of("fold") else PLAIN:
        slower = step.seconds(shape, unaligned=True) / step.seconds(shape)
        yield Miss(step, "unaligned", shape.name, slower, bound), slower <= bound
        for rule, share in (("sweeps", step.share_of_sweeps(shape)), ("step", step.share(shape))):
            yield Miss(step, rule, shape.name, share, SHARE), share >= SHARE


def misses(step, simulated=True):
    """Every rule that a step breaks."""
    found = [Miss(step, "accesses", phase["name"], 1, 0) for phase, _ in step.faults]
    checks = [check for function in step.functions.values() for check in _function(step, function)]
    checks += [c for phase in step.of("sweep") if phase["symbol"] in step.sweeps for c in _sweep(step, phase)]
    if simulated and not step.faults:
        checks += _shares(step)
    return found + [miss for miss, good in checks if not good]
