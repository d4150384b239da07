"""What the compiler makes of random storage lines goes through ptxas: no kernel has more of anything than its target,
and none keeps numbers on the stack for which the compiler has counted registers."""

import re
import shutil
import subprocess

import pytest

import program
import randomline

PTXAS = shutil.which("ptxas") or shutil.which("/usr/local/cuda/bin/ptxas")
TARGETS = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a"]
# The widest of each kind that shares memory: draws of 32 bits, blocks by books, tiles of columns and squares.
WIDEST = ["param=bf16,stochastic32 states=bf16,stochastic32 copy=mxfp8,both",
          "param=bf16,stochastic32 states=bf16,stochastic32 copy=ocp.e4m3fn:128x128",
          "param=f16,stochastic32 states=bnb8:128 copy=mxfp8e5m2,both", "param=f16,stochastic32 states=bnb8:256 copy=nvfp4,stochastic32"]


# By how much the count of live numbers may be too low before a kernel has any of them on the stack: 75 of 80 was seen.
SPARE = 8


def assembled(text, target, folder):
    """Why there is no machine code of a step, or ''; and of each kernel with a stack the numbers that are live at once,
    the registers that they have, and the bytes of its stack."""
    path = folder / f"{target}.ptx"
    step = ["-", f"--rule-path={program.TEMPLATES}", f"--target={target}"]
    try:
        program.call(*step, "--emit=ptx", "-o", path, text=text)
    except subprocess.TimeoutExpired as endless:
        return str(endless), {}
    done = subprocess.run([PTXAS, "-v", f"-arch={target}", path, "-o", "/dev/null"], capture_output=True, text=True)
    if done.returncode:
        return done.stderr, {}
    stacks = {name: int(stack) for name, stack in
              re.findall(r"Function properties for (\w+)\n\s*(\d+) bytes stack frame", done.stderr)}
    if not any(stacks.values()):
        return "", {}
    counted = program.call(*step, "--emit=resources", text=text)
    return "", {name: (int(live), 65536 // 256 // int(blocks) // 8 * 8, stacks[name]) for name, live, blocks
                in re.findall(r"(\w+): .* registers \((\d+) live\), .* (\d) blocks", counted) if stacks[name]}


def refused(text, target, folder):
    """What is wrong with the machine code of a step, or ''."""
    words, stacks = assembled(text, target, folder)
    return words or "; ".join(f"{name}: {live} numbers have {has} registers, and {stack} bytes are on the stack"
                              for name, (live, has, stack) in stacks.items() if live + SPARE <= has)


needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="no ptxas on this machine")


@needs_ptxas
@pytest.mark.parametrize("seed", range(2000, 2010))
def test_random_requests(seed, tmp_path):
    """One target each: `soak.py --ptxas 500` asks for all five."""
    assert not refused(randomline.text(randomline.generate(seed)), TARGETS[seed % len(TARGETS)], tmp_path)


@needs_ptxas
@pytest.mark.parametrize("target", TARGETS)
def test_widest(target, tmp_path, full):
    if not full and target not in program.PTX:
        pytest.skip("with ALTGRAD_DIFFERENTIAL_FULL=1")
    for words in WIDEST:
        text = program.generated("ademamix", words, "--clip", "--statistics")
        assert not refused(text, target, tmp_path), words
