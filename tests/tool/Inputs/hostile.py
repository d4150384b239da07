"""Writes specs that are too long, too deep or no text into the folder given."""
import pathlib
import random
import sys

folder = pathlib.Path(sys.argv[1])
step = "altgrad.step @s(in %x: f32) { commit }\n"
rule = "altgrad.rule @r(param %w: f32, grad %g: f32) {\n"
end = "  altgrad.yield param(%x) state()\n}\n"


def write(name, text):
    data = text if isinstance(text, bytes) else text.encode()
    (folder / name).write_bytes(data)


write("long.mlir", "//" + "x" * 9_999_997 + "\n")
write("brackets.mlir", "#a = " + "[" * 10_000 + "]" * 10_000 + "\n")
write("regions.mlir", "module {" * 10_000 + "}" * 10_000 + "\n")
write("types.mlir", "!t = " + "tuple<" * 10_000 + "i1" + ">" * 10_000 + "\n")
write("bytecode.mlir", b"ML\xefR\x0d\x01MLIR\x00")
write("nul.mlir", b"//\n//\0\n" + step.encode())
write("noise.mlir", random.Random(1).randbytes(5_000).replace(b"\0", b" "))
write("empty.mlir", "")
write("assembly.mlir", rule + '  %x = llvm.inline_asm "int3", "=x,x" %w : (f32) -> f32\n' + end)
write("chain.mlir", rule + "  %a0 = addf %w, %g : f32\n"
      + "".join(f"  %a{i} = addf %a{i - 1}, %g : f32\n" for i in range(1, 2_000))
      + "  %x = negf %a1999 : f32\n" + end)
write("many.mlir", rule + "".join(f"  %a{i} = addf %w, %g : f32\n" for i in range(4_096))
      + "  %x = negf %w : f32\n" + end)
write("double.mlir", rule + "  %a0 = addf %w, %g : f32\n"
      + "".join(f"  %a{i} = addf %a{i - 1}, %a{i - 1} : f32\n" for i in range(1, 60))
      + "  %s = altgrad.reduce add %a59 over tensor : f32\n  %x = mulf %s, %a59 : f32\n" + end)
write("scalars.mlir", "altgrad.step @s(in %h: f64, out %o: f64) {\n  %a0 = arith.addf %h, %h : f64\n"
      + "".join(f"  %a{i} = arith.addf %a{i - 1}, %a{i - 1} : f64\n" for i in range(1, 60))
      + "  commit always %a59 to %o : f64\n}\n")
write("choices.mlir", "altgrad.rule @r(param %w: f32, grad %g: f32, state %m: f32, option %o: i1 = false) {\n"
      + "  %b0 = ori %o, %o : i1\n"
      + "".join(f"  %b{i} = ori %b{i - 1}, %b{i - 1} : i1\n" for i in range(1, 60))
      + "  %m1 = select %b59, %g, %m : f32\n  altgrad.yield param(%g) state(%m1)\n}\n")
write("quotes.mlir", '#a = "\\\\"\n#b = ' + "[" * 400_000 + "\n")
write("minus.mlir", "#a = affine_map<(d0) -> (" + "-" * 900_000 + "d0)>\n")
write("beside.mlir", step + "llvm.func @f() { llvm.inline_asm has_side_effects \"int3\", \"\" : () -> ()\n  llvm.return }\n")
write("comment.mlir", "// " + "(" * 1_000 + "\n" + '#a = "' + "[" * 1_000 + '"\n' + step)
write("arguments.mlir", "altgrad.step @s(" + ", ".join(f"in %a{i}: f32" for i in range(4_097)) + ") { commit }\n")
write("lists.mlir", "altgrad.step @s(" + ", ".join(f"in %a{i}: !altgrad.tensors<f32>" for i in range(129)) + ") { commit }\n")
write("functions.mlir", rule.replace(") {", ", hyper %h: f64) {")
      + "".join(f"  %a{i} = math.exp %h : f64\n" for i in range(513)) + "  %x = negf %w : f32\n" + end)
write("powers.mlir", rule + "".join(f"  %a{i} = math.powf %w, %g : f32\n" for i in range(74)) + "  %x = negf %w : f32\n" + end)
write("reductions.mlir", "altgrad.step @s(in %w: !altgrad.tensors<f32>) {\n  %v = dequantize %w : !altgrad.tensors<f32>\n"
      + "  %x = element %v\n" + "".join(f"  %a{i} = reduce add %x over step : f32\n" for i in range(65)) + "  commit\n}\n")
for name, many, block in (("runs", 129, "1x32"), ("tiles", 33, "32x1")):
    write(f"{name}.mlir", rule + "".join(f"  %a{i} = altgrad.reduce add %g over block<{block}> : f32\n" for i in range(many))
          + "  %x = negf %w : f32\n" + end)
write("stepruns.mlir", "altgrad.step @s(in %w: !altgrad.tensors<f32>) {\n  %v = dequantize %w : !altgrad.tensors<f32>\n"
      + "  %x = element %v\n" + "".join(f"  %a{i} = reduce add %x over block<1x32> : f32\n" for i in range(129)) + "  commit\n}\n")
write("updates.mlir", rule + "  %a0 = addf %w, %g : f32\n"
      + "".join(f"  %a{i} = addf %a{i - 1}, %g : f32\n" for i in range(1, 4_000)) + "  %x = negf %a3999 : f32\n" + end
      + "altgrad.step @s(inout %w: !altgrad.tensors<f32>) {\n  %x0 = dequantize %w : !altgrad.tensors<f32>\n"
      + "".join(f"  %x{i} = update @r param(%x{i - 1}) grad(%x{i - 1}) state() hyper()\n" for i in range(1, 4_000))
      + "  commit always %x3999 to %w : !altgrad.tensors<f32>\n}\n")
for kind, digits in ("float", "1." + "1" * 100_000), ("integer", "1" * 100_000), ("thousand", "1" * 1_000):
    write(f"{kind}.mlir", "altgrad.step @s(out %o: f64) {\n  %c = arith.constant " + digits
          + " : f64\n  commit always %c to %o : f64\n}\n")
# MLIR ends a comment at a carriage return as well.
write("return.mlir", "// \r#a = " + "[" * 200_000 + "\n")
write("wide-alias.mlir", "!a0 = tuple<i1, i1>\n" + "".join(f"!a{i} = tuple<!a{i - 1}, !a{i - 1}>\n" for i in range(1, 40))
      + "altgrad.step @s(in %x: !a39) { commit }\n")
write("deep-alias.mlir", "#a0 = [1]\n" + "".join(f"#a{i} = [#a{i - 1}]\n" for i in range(1, 40_000)))
write("alias.mlir", "#f = #altgrad.format<bf16>\n!t = !altgrad.tensors<#f>\n"
      + "altgrad.step @s(in %x: !t, in %y: !t) { commit }\n")
