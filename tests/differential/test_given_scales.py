"""What is quantized over one scale for the step, or over those of tensors, blocks and elements."""

import numpy as np
import pytest

import compare
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [5000, 3, 0, 257, 32, 4096, 31]


def compiled(words, fmt, scales):
    flags = [f"--scales={scales}"] if scales else []
    return program.Program(program.call(f"--set={words}", f"--quantize={fmt}", *flags, "--print-step"))


@pytest.mark.parametrize("scales", ["", "tensor", "element", "16", "32", "128", "256"])
@pytest.mark.parametrize("words, fmt", [
    ("grad=f32 copy=f32", "ocp.e4m3fn"), ("grad=bf16 copy=bf16", "ocp.e5m2"), ("grad=f16 copy=f16", "altgrad.e3m4"),
    ("grad=f32 copy=ocp.e5m2", "ocp.e5m2"), ("grad=bf16 copy=altgrad.e3m4", "altgrad.e3m4")])
def test_every_byte_is_the_references(words, fmt, scales):
    step = compiled(words, fmt, scales)
    rows = step.rows([SIZES])
    for seed, special in ((3, 0.0), (5, 0.05)):
        rng = np.random.default_rng(seed)
        shifts = [int(s) for s in rng.choice([0, 0, 1, 3], len(rows.numel))]
        values = templatecases.start_values(step, rows, rng, special)
        compare.run_steps(step, rows, shifts, values, [(special, {})], rng, ALL)


@pytest.mark.parametrize("scales, each", [("tensor", [2, 2, 2, 0.5]), ("element", [2, 0.5, 4, 1]), ("16", [4, 4, 4, 8])])
def test_a_number_has_the_scale_of_its_own(scales, each):
    """Of 3.3, 3.3, 3.3 and, in another tensor, 3.3: against plain numbers."""
    step = compiled("grad=f32 copy=f32", "ocp.e4m3fn", scales)
    rows = step.rows([[3, 1]])
    kept = {"tensor": [each[0], each[3]], "element": each, "16": [each[0], each[3]]}[scales]
    kept = np.array(kept, np.float32)
    kept = kept if scales == "tensor" else kept.view(np.uint32)
    values = {"grad": np.full(4, 3.3, np.float32).view(np.uint32), "grad_scale": kept, "copy": np.zeros(4, np.uint32)}
    memory = compare.Memory(step.signature, rows, [0, 0]).fill(values)
    numbers = {0.5: 6.5 * 0.5, 1: 3.25, 2: 1.625 * 2, 4: 0.8125 * 4, 8: 0.40625 * 8}
    for name, run in compare.executors(step, ALL):
        got = memory.twin()
        run(got)
        assert got.streams["copy"].get().view(np.float32).tolist() == [numbers[s] for s in each], name
