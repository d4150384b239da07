"""New memory that is ours, states and results, lies in huge pages where the system gives them to those who ask."""

import mmap
import re
from pathlib import Path

import pytest
import torch

import altgrad

pytestmark = pytest.mark.skipif(
    not Path("/sys/kernel/mm/transparent_hugepage/enabled").exists(), reason="this system has no huge pages")


def is_asked(tensor):
    """Whether somebody has asked for huge pages for the middle of its memory."""
    at, within = tensor.data_ptr() + tensor.nbytes // 2, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            begin, end = (int(word, 16) for word in found.groups())
            within = begin <= at < end
        elif within and line.startswith("VmFlags:"):
            return "hg" in line.split()
    raise LookupError("no mapping has this memory")


def test_states_of_a_large_parameter():
    # A mapping of its own: torch's memory may have been a result's before.
    param = torch.nn.Parameter(torch.frombuffer(mmap.mmap(-1, 16 << 20), dtype=torch.float32))
    param.grad = torch.ones_like(param)
    optimizer = altgrad.optim.AdamW([param])
    optimizer.step()
    assert not is_asked(param)
    assert all(is_asked(optimizer.state[param][key]) for key in ("exp_avg", "exp_avg_sq"))


def test_results_that_are_large():
    numbers = torch.randn(4 << 20)
    result = altgrad.quantize(numbers, "bf16")
    assert is_asked(result) and torch.equal(result, numbers.bfloat16().float())
    codes, _ = altgrad.quant.quantize_blocks(torch.randn(1 << 13, 1 << 10))
    assert is_asked(codes)
    (clipped,), *_ = altgrad.fused_grad_unscale_clip([numbers], 1e9, 2.0)
    assert is_asked(clipped) and torch.equal(clipped, numbers / 2)
