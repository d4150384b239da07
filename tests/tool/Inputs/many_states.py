"""Prints a rule with so many states, each divided by the sum of all."""
import sys

count = range(int(sys.argv[1]))
print("altgrad.rule @many(param %w: f32, grad %g: f32, " + ", ".join(f"state %m{i}: f32" for i in count) +
      ", hyper %lr: f64 = 1.0e-3) {\n  %l = truncf %lr : f64 to f32\n  %s0 = mulf %l, %g : f32")
for i in count:
    print(f"  %n{i} = altgrad.lerp %m{i} to %g by %l : f32\n  %s{i + 1} = addf %s{i}, %n{i} : f32")
for i in count:
    print(f"  %d{i} = divf %n{i}, %s{len(count)} : f32")
print(f"  %w1 = subf %w, %s{len(count)} : f32\n  altgrad.yield param(%w1) state(" + ", ".join(f"%d{i}" for i in count) + ")\n}")
