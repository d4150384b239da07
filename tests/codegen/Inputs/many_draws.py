"""Prints a step that rounds so many lists by draws of so many bits."""
import sys

count, bits = map(int, sys.argv[1:])
lists = ", ".join(f"inout %w{i}: !altgrad.tensors<bf16>" for i in range(count))
print(f"altgrad.step @many(in %seed: i64, in %step: i64, {lists}) {{")
for i in range(count):
    kind = "" if bits == 16 else " : i32"
    print(f"  %x{i} = dequantize %w{i} : !altgrad.tensors<bf16>\n"
          f"  %e{i} = element %x{i}\n  %s{i} = arith.addf %e{i}, %e{i} : f32\n"
          f"  %y{i} = collect %s{i} : f32 to !altgrad.reals\n"
          f"  %d{i} = draw seed(%seed) step(%step) store({i}) : i{bits}\n"
          f"  %q{i} = quantize %y{i} round<stochastic> draw(%d{i}{kind}) overflow<nonfinite> : !altgrad.tensors<bf16>")
print("  commit always " + ", ".join(f"%q{i} to %w{i} : !altgrad.tensors<bf16>" for i in range(count)) + "\n}")
