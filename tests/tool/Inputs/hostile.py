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
# MLIR ends a comment at a carriage return as well.
write("return.mlir", "// \r#a = " + "[" * 200_000 + "\n")
write("wide-alias.mlir", "!a0 = tuple<i1, i1>\n" + "".join(f"!a{i} = tuple<!a{i - 1}, !a{i - 1}>\n" for i in range(1, 40))
      + "altgrad.step @s(in %x: !a39) { commit }\n")
write("deep-alias.mlir", "#a0 = [1]\n" + "".join(f"#a{i} = [#a{i - 1}]\n" for i in range(1, 40_000)))
write("alias.mlir", "#f = #altgrad.format<bf16>\n!t = !altgrad.tensors<#f>\n"
      + "altgrad.step @s(in %x: !t, in %y: !t) { commit }\n")
