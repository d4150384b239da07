"""What is known to break a rule of the gate, with how far it may and why. A row that nothing needs any more can go."""

import re

# rule, pattern of "request on target: where", the worst value that is accepted, reason
ENDS = "an access that a tensor's end cuts has a region, and every four elements have a guard"
SUMS = "its norms need the moments' update, with all its divisions, of which nothing is stored: work for half the bytes"
FRAME = "a number or two too many for 64 registers; ptxas keeps them on the stack"
LITTLE = "elements of 16 bits: work for few bytes"
START = "the first loads' latency and the last blocks' wait: of 12 MB a bare copy has 0.85 in the model"
THREADS = "2048 resident threads have 16 bytes of the one stream on their way; a second access each would be needed"
ONLY = "gradients alone: nothing else is moved behind which other accesses could hide, and few bytes"
BETWEEN = "a first launch for rows, or a last block for folds, the norm and rows, and the gap to the next launch"
SCALES = "a block's largest is found before its codes are made: what leads to it is computed twice"
BOOKS = SCALES + "; each code is looked for in its book"
HALVED = BOOKS + ", and beside a master in halves divisions and roots have the slow path's branches"
MORE = "more than 64 registers want; three blocks are resident, and nothing is on the stack"
DRAWN = "a thread calls the generator for every element of its own where tensors are not aligned"
ROUNDED = "a draw and a change of codes for each element"
EIGHT = "with sums a thread has eight elements at a time, 8 bytes of a stream of bytes: the model knows 16-byte accesses alone"
PACKED = "a thread's sixteen codes of 4 bits are 8 bytes of their streams: the model knows 16-byte accesses alone"
KNOWN = [
    ("accesses", r"torchao4.*update", 1, PACKED),
    ("accesses", r"(copy=ocp.e4m3fn,delayed|param=ocp.e4m3fn .*rungs=)", 1, EIGHT),
    ("registers", r"(:256|:128|copy=mxfp8|rungs=).*update", 80, MORE),
    ("flight", r"(:256|:128|copy=mxfp8|rungs=).*update", 36864, MORE),
    ("regions", r"bf16\+i16 .*bnb8.*update", 55, HALVED),
    ("regions", r"(:256|:128|copy=mxfp8).*update", 15, SCALES),
    ("regions", r"rungs=.*--statistics.*update", 2, ENDS),
    ("instructions", r"rule=adamw.*bnb8.*update", 13.8, BOOKS),
    ("instructions", r"rule=lion.*bnb8.*update", 10.4, BOOKS),
    ("instructions", r"ocp\.e4m3fn:256.*update", 8.5, SCALES),
    ("instructions", r"rungs=.*update", 8.4, ROUNDED),
    ("sweeps", r"bnb8", 0.27, BOOKS),
    ("sweeps", r"ocp\.e4m3fn:256", 0.49, SCALES),
    ("sweeps", r"(copy=mxfp8|:128)", 0.86, SCALES),
    ("sweeps", r"rungs=", 0.67, ROUNDED),
    ("step", r"bnb8", 0.23, BOOKS),
    ("step", r"ocp\.e4m3fn:256", 0.4, SCALES),
    ("step", r"(copy=mxfp8|:128)", 0.69, SCALES),
    ("step", r"rungs=", 0.51, ROUNDED),
    ("unaligned", r"rungs=", 2, DRAWN),
    ("stack", r"rule=gridoptim.*--statistics.*sm_90: .*update", 32, FRAME),
    ("stack", r"rule=adamw --storage=rungs=.*--statistics.*update", 56, FRAME),
    ("regions", r": update", 2, ENDS),
    ("regions", r"copy=ocp.*: update", 9, ENDS + ", of 16 in an access"),
    ("regions", r"rule=lamb.*: reduce", 2, ENDS),
    ("instructions", r"rule=lamb.*sm_80: reduce", 7.25, SUMS),
    ("instructions", r"rule=lamb.*sm_90: reduce", 7.19, SUMS),
    ("instructions", r"rule=lamb param.*sm_90: update", 3.9, LITTLE),
    ("instructions", r"rule=rmsprop param.*sm_90: update", 4.23, LITTLE),
    ("instructions", r"rule=adagrad param.*sm_90: update", 4.02, LITTLE),
    ("instructions", r"rule=ademamix param.*sm_90: update", 3.77, LITTLE),
    ("instructions", r"rule=adopt param.*scaler.*sm_90: update", 3.7, LITTLE),
    ("flight", r"^--set=grad=.*: update", 32768, THREADS),
    ("unaligned", r"^--set=grad=.*--norm", 1.83, ONLY),
    ("unaligned", r"^--set=grad=.*--clip", 1.45, ONLY),
    ("sweeps", r"^--set=grad=.*sm_80", 0.78, ONLY),
    ("sweeps", r"^--set=grad=.*sm_90", 0.51, ONLY),
    ("step", r"rule=sgd param.*--clip --loss-scaler.*sm_80", 0.74, BETWEEN),
    ("step", r"rule=sgd param.*--clip --loss-scaler.*sm_90", 0.59, BETWEEN),
    ("step", r"^--set=grad=.*sm_80", 0.56, ONLY + "; " + BETWEEN),
    ("step", r"^--set=grad=.*sm_90", 0.38, ONLY + "; " + BETWEEN),
    ("sweeps", r"rule=lamb.*loss-scaler.*sm_90: 8 M", 0.77, START),
    ("unaligned", r"rule=(sgd|signsgd|rmsprop).*param=b?f16.*--clip.*sm_90", 1.312, LITTLE),
    ("unaligned", r"rule=lamb", 1.7, SUMS + "; aligned ones have quick bodies"),
    ("sweeps", r"sm_80: 2 M", 0.83, START),
    ("sweeps", r"sm_90: 2 M", 0.75, START),
    ("sweeps", r"sm_80: 8 M", 0.88, START),
    ("sweeps", r"sm_90: 8 M", 0.82, START),
    ("step", r"sm_80: 2 M", 0.52, BETWEEN),
    ("step", r"sm_90: 2 M", 0.34, BETWEEN),
    ("step", r"sm_80: 8 M", 0.75, BETWEEN),
    ("step", r"sm_90: 8 M", 0.63, BETWEEN),
]


class Exceptions:
    def __init__(self, rows=None):
        self.rows = KNOWN if rows is None else rows
        self.used = set()

    def excuses(self, miss):
        """Whether a row allows a miss; shares and bytes in flight may not be less than it says, everything else not more."""
        for number, (rule, pattern, worst, _) in enumerate(self.rows):
            place = f"{miss.request} on {miss.target}: {miss.where}"
            good = miss.value >= worst if miss.rule in ("sweeps", "step", "flight") else miss.value <= worst
            if rule == miss.rule and re.search(pattern, place) and good:
                self.used.add(number)
                return True
        return False

    def unused(self):
        return [row for number, row in enumerate(self.rows) if number not in self.used]
