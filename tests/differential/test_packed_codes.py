"""Codes of 4 bits, two to a byte: every byte on every path, which half is whose, and what lies behind odd ends."""

import numpy as np
import pytest

import books
import compare
import mx
import program
import ptxrun
import templatecases

ALL = {"races": True} if ptxrun.available() else None
SIZES = [8193, 1, 33, 0, 4096, 319]
CASES = [("adamw", "m=torchao4:128 v=torchao4u:128", ["--clip"]),
         ("adam{amsgrad}", "param=bf16 grad=bf16 master=f32 states=torchao4u:32 m=torchao4:32", ["--unscale"]),
         ("lion", "copy=mxfp4,even m=mxfp4,floor", ["--loss-scaler=torch"]),
         ("adamw", "param=bf16,stochastic copy=mxfp4,stochastic v=bf16", ["--statistics"]),
         ("lamb", "param=f32 m=ocp.e2m1:256 v=bnb8u:256", ["--clip"])]


def agree(compiled, special=0.01):
    rng = np.random.default_rng(13)
    rows = compiled.rows([SIZES])
    rows.offset = [256 * i * 2**26 for i in range(len(SIZES))]
    for shifts in ([0] * len(SIZES), [1, 0, 3, 0, 15, 2]):
        values = templatecases.start_values(compiled, rows, rng, special)
        compare.run_steps(compiled, rows, shifts, values, [(special, {}), (0.0, {})], rng, ALL)


@pytest.mark.parametrize("rule, storage, flags", CASES, ids=lambda case: str(case))
def test_every_byte_is_the_references(rule, storage, flags):
    agree(program.Program(program.generated(rule, storage, *flags)))


@pytest.mark.parametrize("form", ["ocp.e2m1", "torchao4"])
def test_lists_without_scales(form):
    """In place, beside sums and another packed list that is only read."""
    tensors = f"!altgrad.tensors<{form} packed>"
    agree(program.Program(f"""
      altgrad.step @s(inout %w: {tensors}, in %g: {tensors}, out %x: {tensors}, out %n: f32 per_tensor) {{
        %wr = dequantize %w : {tensors}
        %gr = dequantize %g : {tensors}
        %we = element %wr
        %ge = element %gr
        %half = arith.constant 0.5 : f32
        %part = arith.mulf %we, %half : f32
        %sum = arith.addf %part, %ge : f32
        %norm = reduce sumsq %sum over tensor : f32
        %new = collect %sum : f32 to !altgrad.reals
        %code = quantize %new round<nearest_even> overflow<saturate> : {tensors}
        %again = collect %ge : f32 to !altgrad.reals
        %other = quantize %again round<nearest_even> overflow<saturate> : {tensors}
        commit always %norm to %n : f32, %code to %w : {tensors}, %other to %x : {tensors}
      }}"""), special=0)


def stored(storage, numbers):
    """(name of the path, bytes of the copy) of a parameter that its step does not move."""
    compiled = program.Program(program.generated("sgd{momentum_on}", storage))
    rows = compiled.rows([[len(numbers)]])
    values = templatecases.start_values(compiled, rows, np.random.default_rng(0), 0)
    values.update(w=numbers.view(np.uint32), g=numbers.view(np.uint32), lr=np.zeros(1), decay=np.zeros(1),
                  momentum=np.zeros(1), dampening=np.zeros(1))
    memory = compare.Memory(compiled.signature, rows, [0]).fill(values)
    for name, run in compare.executors(compiled, ALL):
        got = memory.twin()
        for stream in got.streams.values():
            if stream.packed:
                stream.view(0)[:] = 0xFF  # the last four bits, too
        run(got)
        yield name, {name: stream.view(0).copy() for name, stream in got.streams.items()}


@pytest.mark.parametrize("count", [1, 2, 31, 33, 300, 4097, 8191])
def test_torchaos_bytes_and_behind_an_odd_end_zeros(count):
    """OptimState4bit: codes[::2] << 4 | codes[1::2]."""
    numbers = np.random.default_rng(3).standard_normal(count).astype(np.float32)
    blocks = np.pad(numbers, (0, -count % 32)).reshape(-1, 32)
    scales = np.maximum(np.abs(blocks).max(1), np.float32(1e-12))
    codes = np.append(books.encode("torchao4", blocks / scales[:, None]).ravel()[:count], np.zeros(count % 2, np.uint8))
    for name, got in stored("buf=torchao4:32", numbers):
        np.testing.assert_array_equal(got["buf"], codes[::2] << 4 | codes[1::2], err_msg=name)


@pytest.mark.parametrize("count", [1, 31, 300, 4097])
def test_ocps_bytes_and_behind_an_odd_end_zeros(count):
    """The even element's code is the lower half, as torch.float4_e2m1fn_x2 has it."""
    numbers = np.random.default_rng(4).standard_normal(count).astype(np.float32)
    codes, scales = mx.encoded(numbers, "rceil", "ocp.e2m1")
    codes = np.append(codes, np.zeros(count % 2, np.uint8))
    for name, got in stored("copy=mxfp4", numbers):
        np.testing.assert_array_equal(got["copy"], codes[::2] | codes[1::2] << 4, err_msg=name)
        np.testing.assert_array_equal(got["copy_scale"], scales, err_msg=name)


def test_torchao_has_the_same_bytes_of_mxfp4():
    to_mx = pytest.importorskip("torchao.prototype.mx_formats.mx_tensor").to_mx
    import torch
    from torchao.prototype.mx_formats.config import ScaleCalculationMode
    rng = np.random.default_rng(7)
    numbers = (rng.standard_normal(32 * 4000) * np.exp2(rng.integers(-60, 60, 32 * 4000))).astype(np.float32)
    for rule in ("floor", "ceil", "even"):
        scales, codes = to_mx(torch.from_numpy(numbers), torch.float4_e2m1fn_x2, 32, ScaleCalculationMode[rule.upper()])
        for name, got in stored(f"copy=mxfp4,{rule}", numbers):
            np.testing.assert_array_equal(got["copy_scale"], scales.view(torch.uint8).numpy().ravel(), err_msg=name)
            np.testing.assert_array_equal(got["copy"], codes.view(torch.uint8).numpy().ravel(), err_msg=name)


def test_the_manifest_says_which_half_is_whose():
    compiled = program.Program(program.generated("adamw", "m=torchao4:32 v=torchao4u:32 copy=mxfp4"))
    packed = {s["name"]: s["even"] for s in compiled.manifest["streams"] if s["bits"] == 4}
    assert packed == {"m": "high", "v": "high", "copy": "low"}
    assert {s["even"] for s in compiled.manifest["streams"] if s["bits"] != 4} == {"none"}
    phase, = [p for p in compiled.manifest["phases"] if p["kind"] == "sweep"]
    assert (phase["read"], phase["written"]) == (4 + 4 + 2 * (0.5 + 4 / 32), 4 + 2 * (0.5 + 4 / 32) + 0.5 + 1 / 32)
