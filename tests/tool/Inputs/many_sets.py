"""So many sets of lamb, all in other formats, one option a line."""

import itertools
import sys

FORMATS = ["f32", "bf16", "f16", "altgrad.e6m9", "altgrad.e4m11"]
for param, grad, m in itertools.islice(itertools.product(FORMATS, repeat=3), int(sys.argv[1])):
    print(f"'--set=rule=lamb param={param} grad={grad} m={m}'")
