"""Runs every ```mlir example of the .td and .md files given through altgrad-opt.

An example gets the context that its op or pass needs from the table below. In the
documentation of a pass two examples around `==>` are compared: what the pass
makes of the first is the second.
"""
import itertools
import pathlib
import re
import subprocess
import sys
import textwrap

LISTS = "in %grads: !altgrad.tensors<bf16>, inout %master: !altgrad.tensors<f32>"
REALS = "%g = dequantize %grads : !altgrad.tensors<bf16>\n%w = dequantize %master : !altgrad.tensors<f32>\n"
RANDOM = ", in random %seed: i64, in random %t: i64"
SQUARE = "!altgrad.tensors<f32 per rows x rows>"
END = "commit always %w to %master : !altgrad.tensors<f32>"


def step(body, scalars="", end=END, prelude=REALS):
    return f"altgrad.step @s({LISTS}{scalars}) {{\n{prelude}{body}\n{end}\n}}"


def element(body):
    """A context for what stands between a step and its sweeps."""
    return step(body, prelude=REALS + "%x = element %w\n%factor = arith.constant 2.0 : f32\n"
                "%values = collect %x : f32 to !altgrad.reals\n%c = load %grads : !altgrad.tensors<bf16>\n")


NUMBERS = itertools.count()


def phase(domain, body):
    return f"phase @p{next(NUMBERS)} {domain} {{\n{body}\n}}\n"


def phases(text):
    """A step in phases."""
    return (f"altgrad.step @s({LISTS} set 1, in %lr: f64, inout %norm: f32, inout %t: i64) {{\n{text}\n"
            + phase("once", "%o = arith.constant 1.0 : f32\n%k = arith.constant 1 : i64\nwrite %o to %norm : f32\nwrite %k to %t : i64")
            + "commit\n}").replace("inout %master", "in %master")


def swept(number=0, lists="grads", dtype="bf16"):
    """A phase that keeps a sum in a word of each chunk of a set."""
    return (f"phase @sweep chunks set {number} {{\n%n = sweep @s load(%c from %{lists} : !altgrad.tensors<{dtype}>) "
            "reduce(sumsq over step) store() {\n"
            + ("emit %c : f32" if dtype == "f32" else f"%x = decode %c format<{dtype}> : i16 to f32\nemit %x : f32")
            + "\n}\nworkspace_store %n in chunk 0 : f32\n}\n")


def folded(number=0, **of):
    """The same and a phase that keeps the sum of each tensor."""
    return (swept(number, **of) + f"phase @fold rows set {number} {{\n%n = fold sumsq chunk 0 : f32\n"
            "workspace_store %n in row 0 : f32\n}\n")


def filled(name, kind):
    """A sweep that fills a list in the workspace."""
    source = "grads" if kind == "bf16" else "master"
    return (f"sweep @fill load(%c from %{source} : !altgrad.tensors<{kind}>) reduce() store(%{name} : !altgrad.tensors<{kind}>) {{\n"
            f"emit %c : {'i16' if kind == 'bf16' else 'f32'}\n}}\n")


def rename(text, **names):
    """Values that an example defines give way to those of the context."""
    for old, new in names.items():
        text = re.sub(rf"%{old}\b", f"%{new}", text)
    return text


def aliases(sign):
    return lambda text: "\n".join(f"{sign}a{i} = {line}" for i, line in enumerate(text.split("\n")))


def squares(text):
    """A step with a matrix %x of f32, its square %s of rows x rows, and a basis %q0 of that."""
    return multiplied(text, made="%x = altgrad.matrix %u : !altgrad.tensors<f32>\n%s = altgrad.matmul %x, %x transposed : "
                      f"!altgrad.tensors<f32>, !altgrad.tensors<f32> to {SQUARE}\n%q0 = altgrad.factorize eigenbasis %s : {SQUARE}\n")


def multiplied(text, scalars="", made="%x = altgrad.matrix %u : !altgrad.tensors<bf16>\n%a = altgrad.gram %x : "
               "!altgrad.tensors<bf16>\n%y0 = altgrad.product %a, %x : !altgrad.tensors<bf16>\n%z = altgrad.matrix %u : "
               "!altgrad.tensors<f32>\n%r = altgrad.gram %z : !altgrad.tensors<f32>\n"):
    """A step with an element %u, its matrix %x, the square %a, the product %y0, and in f32 the matrix %z, the square %r."""
    return step("%u = element %w\n" + made + text, scalars)


SGD = ("altgrad.rule @sgd(param %w: f32, grad %g: f32, hyper %lr: f64) {\n%rate = truncf %lr : f64 to f32\n"
       "%dw = mulf %rate, %g : f32\n%w1 = subf %w, %dw : f32\naltgrad.yield param(%w1) state()\n}\n")
WRITE = "commit always %{} to %master : !altgrad.tensors<f32>"

CONTEXTS = {
    "": lambda text: text,  # a page, not an operation
    "Altgrad_FormatAttr": aliases("#"),
    "Altgrad_BlockAttr": aliases("#"),
    "Altgrad_ArgumentAttr": lambda text: f"#a = {text}",
    "Altgrad_TensorsType": aliases("!"),
    "Altgrad_RuleOp": lambda text: text,
    "Altgrad_YieldOp": lambda text: "altgrad.rule @r(param %w1: f32, grad %g: f32, state %m1: f32, "
                                    f"state %v1: f32) {{\n{text}\n}}",
    "Altgrad_ReduceOp": lambda text: "altgrad.rule @r(param %w: f32, grad %g: f32) {\n"
                                     f"{text}\naltgrad.yield param(%n) state()\n}}",
    "Altgrad_IndexOp": step,
    "Altgrad_TagOp": step,
    "Altgrad_HasFirstOp": step,
    "Altgrad_DrawOp": lambda text: step(text, RANDOM),
    "Altgrad_UniformOp": lambda text: step("%r = altgrad.draw seed(%seed) step(%t) store(0) : i32\n" + text, RANDOM),
    "Altgrad_RandomOp": lambda text: "altgrad.rule @r(param %w: f32, grad %g: f32) {\n" + text + "\naltgrad.yield param(%z) state()\n}",
    "Altgrad_DimOp": step,
    "Altgrad_ScaledQuotientOp": lambda text: step("%x = element %w\n" + rename(text, w="x", scale="x", inverse="x")),
    "Altgrad_BinadeOp": lambda text: step("%x = element %w\n" + rename(text, w="x")),
    **{f"Altgrad_{name}Op": lambda text: step("%x = element %w\n" + rename(text, w="x")) for name in ("Sigmoid", "Softplus", "Function")},
    "Altgrad_LerpOp": lambda text: step("%x = element %w\n" + rename(text, m="x", g="x", rest="x")),
    "Altgrad_SquaresType": aliases("!"),
    "Altgrad_MatrixOp": lambda text: multiplied(rename(text, x="v")),
    "Altgrad_EntryOp": lambda text: multiplied(rename(text, y="y0")),
    "Altgrad_GramOp": lambda text: multiplied(rename(text, a="v")),
    "Altgrad_ProductOp": lambda text: multiplied(rename(text, w="w0")),
    "Altgrad_MatmulOp": lambda text: squares(rename(text, q="q0")),
    "Altgrad_FactorizeOp": lambda text: squares(text),
    "Altgrad_SelectByAspectOp": lambda text: multiplied("".join(f"%{name} = altgrad.product %r, %z : !altgrad.tensors<f32>\n"
                                                        for name in ("long", "short")) + text),
    "Altgrad_ProductsFiniteOp": lambda text: multiplied("%e = altgrad.entry %y0 : !altgrad.tensors<bf16>\n" + text),
    "Altgrad_OrthogonalizeOp": lambda text: multiplied(text, ", in %eps: f64"),
    "Altgrad_ScaleByShapeOp": step,
    "Altgrad_MatchNormOp": lambda text: multiplied(rename(text, w="u", g="u")),
    "Altgrad_RowMeanSquareOp": lambda text: multiplied(rename(text, o="u")),
    "Altgrad_ApplyStepOp": lambda text: multiplied(rename(text, w="u", m="u"), ", in %lr: f64"),
    "Altgrad_MultiplyOp": lambda text: step("".join(f"%{name} = spill : !altgrad.tensors<bf16>\n" for name in "xaby")
                                            + "".join(f"%{name} = spill : !altgrad.tensors<f32>\n" for name in ("r", "w0", "t", "v", "z"))
                                            + f"%q = spill : {SQUARE}\nsweep @fill walk row_squares load() reduce() store(%q : {SQUARE}) {{\n"
                                            + "%none = arith.constant 0.0 : f32\nemit %none : f32\n}\n"
                                            + "".join(filled(name, kind) for name, kind in (("x", "bf16"), ("r", "f32"), ("w0", "f32"), ("v", "f32")))
                                            + rename(text, w="w0")),
    "Altgrad_StepOp": lambda text: text,
    "Altgrad_DequantizeOp": lambda text: step(rename(text, w="v", model="grads")),
    "Altgrad_RecodeOp": lambda text: f"altgrad.step @s(in %w: !altgrad.tensors<ocp.e4m3fn>) {{\n{text}\ncommit\n}}",
    "Altgrad_UnscaleOp": lambda text: step(rename(text, g="v"), ", in %inv_scale: f32"),
    "Altgrad_ClipOp": lambda text: step(rename(text, a="g", b="w"), ", in %max_norm: f32"),
    "Altgrad_UpdateLossScaleOp": lambda text: step(
        text, ", in %s: f32" + "".join(f", in %{name}: i64" for name in ("n", "interval", "left", "times"))
        + "".join(f", in %{name}: f64" for name in ("up", "down", "least", "most")),
        prelude=REALS + "%found = arith.cmpf une, %s, %s : f32\n"),
    "Altgrad_NormOp": step,
    "Altgrad_CoefficientOp": lambda text: step(rename(text.split("\n")[0], k="j") + "\n" + text.split("\n")[1],
                                               ", in %norm: f32, in %max_norm: f32"),
    "Altgrad_RoundOp": lambda text: step(text, ", in %norm: f32"),
    "Altgrad_AcrossOp": lambda text: step("%square = norm l2 %w over tensor\n%length = norm l2 %w over unit\n" + text),
    "Altgrad_AllReduceOp": lambda text: step("%x = element %w\n" + rename(text, g="x")),
    "Altgrad_PercentileOp": lambda text: step(
        text, ", inout history %norms: f32, in %norm: f32, in %percent: f32", WRITE.format("w") + ", %norm to %norms : f32"),
    "Altgrad_ScaleOp": lambda text: step(text, ", in %k: f32"),
    "Altgrad_UpdateOp": lambda text: step(
        rename(text, m="w", v="w", x="w", y="g", z="w"),
        "".join(f", in %{name}: f64" for name in ("lr", "b1", "b2", "eps", "decay")) + "".join(
            f", in %{name}: i64" for name in ("t", "seed", "draws"))),
    "Altgrad_QuantizeOp": lambda text: step(rename(text, w1="w"), RANDOM),
    "Altgrad_CommitOp": lambda text: step(
        "", ", in %norm: f32, out %gnorm: f32, inout %t: i64", text, REALS
        + "%finite = arith.cmpf ord, %norm, %norm : f32\n%t1 = arith.addi %t, %t : i64\n"
        + "%x = element %w\n%w1 = collect %x : f32 to !altgrad.reals\n"),
    "Altgrad_LoadOp": lambda text: step(text),
    "Altgrad_DecodeOp": lambda text: element(rename(text, x="number")),
    "Altgrad_EncodeOp": lambda text: element("%r = load %grads : !altgrad.tensors<bf16>\n" + rename(text, c="code")),
    "Altgrad_AdvanceCodeOp": lambda text: element("%r = load %grads : !altgrad.tensors<bf16>\n%e = encode %x format<ocp.e4m3fn> "
                                           "round<nearest_even> overflow<saturate> : f32 to i8\n" + rename(text, c="e")),
    "Altgrad_JoinOp": lambda text: step(rename(text, w="v", param="grads"), ", in %rest: !altgrad.tensors<int16>"),
    "Altgrad_SplitOp": lambda text: step(rename(text, w1="w")),
    "Altgrad_UpperCodeOp": lambda text: element(rename(text, c="code")),
    "Altgrad_LowerCodeOp": element,
    "Altgrad_JoinCodesOp": lambda text: element("%r = load %grads : !altgrad.tensors<bf16>\n" + rename(text, x="number")),
    "Altgrad_ElementOp": lambda text: element(rename(text, x="again")),
    "Altgrad_CollectOp": lambda text: element(rename(text, values="again", g="scaled")),
    "Altgrad_SpillOp": lambda text: step(text),
    "Altgrad_SweepOp": lambda text: step(rename(text, g="code")),
    "Altgrad_EmitOp": lambda text: step(
        "%n = sweep @s load(%code from %grads : !altgrad.tensors<bf16>) reduce(add over step)\n"
        f"store(%grads : !altgrad.tensors<bf16>) {{\n%x = decode %code format<bf16> : i16 to f32\n{text}\n}}")
        .replace("in %grads", "inout %grads"),
    "Altgrad_StageOp": lambda text: step(
        "sweep @s load(%x from %master : !altgrad.tensors<f32>) reduce() store(%master : !altgrad.tensors<f32>) {\n"
        f"%most = reduce absmax %x over block<1x32> : f32\n{text.replace('[0, 1]', '[0]')}\nemit %most : f32\n}}", end="commit"),
    "Altgrad_PhaseOp": lambda text: phases(folded() + text),
    "Altgrad_ReadOp": lambda text: phases(phase("once", text)),
    "Altgrad_WriteOp": lambda text: phases(phase(
        "once", "%t1 = read %t : i64\n%x = read %norm : f32\n%finite = arith.cmpf ord, %x, %x : f32\n" + text)),
    "Altgrad_WorkspaceLoadOp": lambda text: phases(
        phase("rows", "%n = read %norm : f32\nworkspace_store %n in row 3 : f32") + phase("rows", text)),
    "Altgrad_WorkspaceStoreOp": lambda text: phases(phase("rows", "%x = read %norm : f32\n" + text)),
    "Altgrad_FoldOp": lambda text: phases(swept() + phase("rows", text)),
    "Altgrad_TotalOp": lambda text: phases(folded(1, lists="master", dtype="f32") + phase("once", text)),
    "InlineRulesPass": lambda text: (SGD if "update" in text else "")
                                    + step(text, ", in %lr: f64", WRITE.format("w1")),
    "ExpandGradientsPass": lambda text: step(
        text, ", in %max_norm: f32, out %n: f32", WRITE.format("c") + ", %norm to %n : f32",
        REALS + ("" if "clip" in text else "%tiny = arith.constant 1.0e-6 : f32\n%one = arith.constant 1.0 : f32\n")),
    "ExpandMatricesPass": lambda text: "altgrad.step @s(inout %w: !altgrad.tensors<f32>, in %eps: f64) {\n%v = dequantize %w : "
                                       f"!altgrad.tensors<f32>\n%u = element %v\n{text}\n%l = collect %o : f32 to "
                                       "!altgrad.reals\ncommit always %l to %w : !altgrad.tensors<f32>\n}",
    "ExpandFormatsPass": lambda text: "altgrad.step @s(in %model: !altgrad.tensors<bf16>, out %o: f32) {\n"
                                      f"{text}\n%s = reduce add %x over step : f32\ncommit always %s to %o : f32\n}}",
    "SplitSweepsPass": lambda text: "altgrad.step @s(in %grads: !altgrad.tensors<f32>, "
                                    f"out %out: !altgrad.tensors<f32>) {{\n{text}\n}}",
    "KeepFunctionsPass": lambda text: step("%x = element %w\n" + text + "\n%l = collect %y : f32 to !altgrad.reals", end=WRITE.format("l")),
    "PlanPhasesPass": lambda text: "altgrad.step @s(in %g: !altgrad.tensors<f32>, out %norm: f32) {\n" + text + "\n}",
    "CutStagesPass": lambda text: step(
        "sweep @s load(%x from %master : !altgrad.tensors<f32>) reduce() store(%master : !altgrad.tensors<f32>) {\n"
        f"{text}\n}}", end="commit"),
    "FastPathPass": lambda text: step(text, ", in %k: f32", prelude="%one = arith.constant 1.0 : f32\n", end="commit"),
    "FitResourcesPass": lambda text: phases(text.replace("...", swept().split("{\n", 1)[1].rsplit("}", 1)[0])),
    "LowerNumericsPass": lambda text: "llvm.func @f(%c: i16) -> f32 {\n%c16 = arith.constant 16 : i32\n"
                                      f"{text}\nllvm.return %x : f32\n}}",
}
# The pass whose documentation says `before ==> after`.
PASSES = {"InlineRulesPass": "--altgrad-inline-rules", "ExpandGradientsPass": "--altgrad-expand-gradients",
          "ExpandMatricesPass": "--altgrad-expand-matrices", "ExpandFormatsPass": "--altgrad-expand-formats", "SplitSweepsPass": "--altgrad-split-sweeps",
          "KeepFunctionsPass": "--altgrad-keep-functions",
          "PlanPhasesPass": "--pass-pipeline=builtin.module(altgrad.step(altgrad-plan-phases))",
          "LowerNumericsPass": "--altgrad-lower-numerics"}


def examples(path):
    """(definition, text, whether it follows `==>`) of each example of a file."""
    definition, block, after = "", None, False
    for line in path.read_text().split("\n"):
        if found := re.match(r"(?:def|class) (\w+)", line):
            definition = found[1]
        if "```mlir" in line:
            block = []
        elif "```" in line and block is not None:
            yield definition, textwrap.dedent("\n".join(block)), after
            block = None
        elif block is not None:
            block.append(line)
        elif line.strip():
            after = line.strip() == "==>"


def compile(text, *flags):
    """What altgrad-opt prints for a text; ends the run if it does not parse."""
    run = subprocess.run(["altgrad-opt", "-", *flags], input=text, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{text}\n{run.stderr}")
    return run.stdout


count = compared = 0
for name in sys.argv[1:]:
    before = ""
    for definition, text, after in examples(pathlib.Path(name)):
        if definition not in CONTEXTS:
            sys.exit(f"{name}: the example of {definition} has no context in {__file__}")
        count += 1
        if not after:
            before = CONTEXTS[definition](text)
            compile(before)
            continue
        made = compile(before, PASSES[definition])
        tidy = ("--cse", "--canonicalize")  # the order of constants does not matter
        if compile(made, *tidy) != compile(CONTEXTS[definition](text), *tidy):
            sys.exit(f"{name}: {definition} makes\n{made}\nof\n{before}\nand not\n{text}")
        compared += 1
print(f"{count} examples, {compared} of them what a pass makes of another")
