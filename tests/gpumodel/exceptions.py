"""What is known to break a rule of the gate, with how far it may and why. A row that nothing needs any more can go."""

import re

# rule, pattern of "request on target: where", the worst value that is accepted, reason
KNOWN = []


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
