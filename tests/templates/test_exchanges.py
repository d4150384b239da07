"""Every word that ranks join is joined behind the phase that keeps it and before each phase that reads it."""

import json
import re
import subprocess

import pytest

import runner

# Two maxima over the step, the second computed from the first.
MAXIMA = """
altgrad.step @maxima(inout %w: !altgrad.tensors<f32>) {
  %x = load %w : !altgrad.tensors<f32>
  %a = reduce max %x over step : f32
  %y = arith.divf %x, %a : f32
  %b = reduce max %y over step : f32
  %z = arith.divf %y, %b : f32
  %list = collect %z : f32 to !altgrad.reals
  commit always %list to %w : !altgrad.tensors<f32>
}
"""
NORMS = [["--clip"], ["--clip", "--norm=linf"], ["--clip", "--norm=l1"], ["--norm=linf"], ["--clip=percentile"]]
REQUESTS = [[f"--rule={rule}", f"--storage={storage}", *norm, *others]
            for rule in ("adamw", "muon", "lamb", "prodigy")
            for storage in ("param=bf16", "param=bf16 copy=ocp.e4m3fn,current", "param=bf16 copy=ocp.e4m3fn,delayed:4")
            for norm in NORMS for others in ([], ["--expect-remote-products"])]
REQUESTS.append(["--rule=prodigy", "--storage=param=bf16"])


def emit(product, request, text):
    words = [runner.COMPILER, *request, f"--rule-path={runner.ROOT}/templates", "--exchange", f"--emit={product}"]
    return subprocess.run(words, input=text, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("words", [["-"], *REQUESTS], ids=" ".join)
def test_words_are_joined_before_they_are_read(words):
    text = MAXIMA if words == ["-"] else None
    target = ["--target=x86-64-v3"]
    manifest = json.loads(emit("manifest", [*words, *target], text))
    bodies = re.split(r"\n    phase @", emit("mlir", words, text))[1:]
    assert len(bodies) == len(manifest["phases"])
    joined = [(one["phase"], word["word"]) for one in manifest["exchanges"] for word in one["words"]]
    assert joined and [phase for phase, _ in joined] == sorted(phase for phase, _ in joined)
    for phase, word in joined:
        kept = [n for n, body in enumerate(bodies) if re.search(rf"workspace_store .* in step {word} ", body)]
        read = [n for n, body in enumerate(bodies) if re.search(rf"workspace_load step {word} ", body)]
        assert max(kept) < phase <= min(read), (phase, word, kept, read)
