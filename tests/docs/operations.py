"""Compiles the example of every operation that `altgrad-opt --list-ops` lists, each in a rule of its own."""
import subprocess
import sys

RULE = ("altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32, hyper %lr: f64, step %t: i64, "
        "option %flag: i1 = false) {{\n{}\naltgrad.yield param(%w) state(%m)\n}}\n")

listed = subprocess.run(["altgrad-opt", "--list-ops"], check=True, capture_output=True, text=True).stdout
for line in listed.splitlines():
    name, types, meaning, example = line.split("\t")
    text = RULE.format(example.replace("; ", "\n"))
    run = subprocess.run(["altgrad-opt", "-"], input=text, capture_output=True, text=True)
    # Printed again, the operation stands there with its full name or without `arith.`.
    if run.returncode or name.removeprefix("arith.") not in run.stdout:
        sys.exit(f"{name}:\n{text}\n{run.stderr}")
print(f"{len(listed.splitlines())} operations")
