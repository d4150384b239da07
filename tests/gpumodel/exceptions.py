"""What is known to break a rule of the gate, with how far it may and why. A row that nothing needs any more can go."""

import re

# rule, pattern of "request on target: where", the worst value that is accepted, reason
ENDS = "an access that a tensor's end cuts has a region, and every four elements have a guard"
ROWS = "a warp that sums has one row of loads on its way"
STRIDE = "a warp works a whole chunk, and chunks are shared out with a stride: few elements leave processors idle"
BETWEEN = "scalars and folds are launches of their own, one after the other"
KNOWN = [
    ("regions", r": update", 5, ENDS),
    ("regions", r"rule=lamb.*: reduce", 33, "divisions of a sum over a tensor are each on their own"),
    ("flight", r": reduce", 32768, ROWS),
    ("instructions", r"rule=lamb.*sm_90: reduce", 4.6, "codes of 16 bits are read twice, for the norm and for the update"),
    ("instructions", r"--unscale.* on sm_90: reduce", 4, "codes of 16 bits are decoded, unscaled and tested for a sum"),
    ("instructions", r"rmsprop.*sm_90: update", 3.84, "a root and two divisions for 10 bytes"),
    ("stack", r"amsgrad\}.*=(bf16|f16)", 8, "one pointer does not fit beside four states of 16 bits"),
    ("sweeps", r"sm_80: 2 M", 0.44, STRIDE),
    ("sweeps", r"sm_90: 2 M", 0.26, STRIDE),
    ("sweeps", r"sm_80: 8 M", 0.82, STRIDE),
    ("sweeps", r"sm_90: 8 M", 0.63, STRIDE),
    ("step", r"sm_80: 2 M", 0.36, BETWEEN),
    ("step", r"sm_90: 2 M", 0.18, BETWEEN),
    ("step", r"sm_80: 8 M", 0.65, BETWEEN),
    ("step", r"sm_90: 8 M", 0.43, BETWEEN),
]


class Exceptions:
    def __init__(self, rows=None):
        self.rows = KNOWN if rows is None else rows
        self.used = set()

    def excuses(self, miss):
        """Whether a row allows a miss; a share may not be less than it says, everything else not more."""
        for number, (rule, pattern, worst, _) in enumerate(self.rows):
            place = f"{miss.request} on {miss.target}: {miss.where}"
            good = miss.value >= worst if miss.rule in ("sweeps", "step") else miss.value <= worst
            if rule == miss.rule and re.search(pattern, place) and good:
                self.used.add(number)
                return True
        return False

    def unused(self):
        return [row for number, row in enumerate(self.rows) if number not in self.used]
