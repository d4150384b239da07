"""Prints a rule with as many states as it is told."""
import sys

states = range(int(sys.argv[1]))
print("altgrad.rule @wide(param %w: f32, grad %g: f32" + "".join(f", state %s{i}: f32" for i in states) + ") {")
print("  %w1 = addf %w, %g : f32")
for i in states:
    print(f"  %n{i} = addf %s{i}, %g : f32")
print("  altgrad.yield param(%w1) state(" + ", ".join(f"%n{i}" for i in states) + ")\n}")
