"""The usual calls need no compiler: their bundles were built with the library."""

import os
import subprocess
import sys

from stock import needs_bundles


pytestmark = needs_bundles

CALLS = """
import torch, altgrad
for dtypes in (["float32"], ["bfloat16"], ["float16"], ["float32", "bfloat16"]):
    params = [torch.nn.Parameter(torch.zeros(5, dtype=getattr(torch, t))) for t in dtypes]
    for p in params:
        p.grad = torch.ones_like(p)
    grads = [p.grad for p in params]
    altgrad.compute_global_grad_norm(grads)
    altgrad.clip_grad_norm_(params, 1.0)
    altgrad.clip_grad_norm_(params, 0.5, error_if_nonfinite=True)
    altgrad.clip_grad_value_(params, 0.1)
    altgrad.fused_grad_unscale_clip(grads, 1.0, 2.0, inplace=True)
    if len(dtypes) == 1:
        altgrad.fused_grad_unscale_clip(grads, 1.0, 2.0)
"""


def test_no_compiler_is_needed(tmp_path):
    environment = {**os.environ, "ALTGRAD_OPT": "/nowhere/altgrad-opt",
                   "ALTGRAD_CACHE_DIR": str(tmp_path / "cache"),
                   "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", CALLS], env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
