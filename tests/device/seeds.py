"""Random rules under random storage lines, stepped on the CPU and on the GPU: the same bytes.

`seeds.py DEVICE FIRST COUNT` tries some of what was packed, and prints each that differs.
"""

import json
import sys

import torch

import gpu as gpus
from gpu import ROOT, Skipped
from optimizers import scaled
from pairs import Pair, every

PACKED = ROOT / "build" / "device" / "requests.json"
MANY, OF_A_DAY = 400, 24
SHAPES = [(512,), (3, 256), (4097,), (40, 512), (1,)]
COPIES = "bf16", "ocp.e4m3fn", "ocp.e5m2", "mxfp8", "mxfp4", "nvfp4"
WAYS = {"--clip": dict(max_grad_norm=0.5), "--statistics": dict(statistics=True), "--scaler": dict(fused_amp=True)}


def request(spec):
    """Of one of randomline's: what torch has tensors for."""
    one, words = spec["sets"][0], dict(word.split("=", 1) for word in spec["sets"][0]["words"])
    # torch has gradients of the parameter's dtype; what a float8 parameter needs is another test's business.
    param = words.pop("param", "").split(",")[0]
    words.pop("grad", None)
    if not words.get("copy", "").startswith(COPIES):
        words.pop("copy", None)
    ways = {}
    for flag in spec["flags"]:
        ways |= WAYS.get(flag, {})
    return {"rule": one["rule"], "options": one["options"], "storage": " ".join(f"{k}={v}" for k, v in words.items()),
            "ways": ways, "param": param if param in ("bf16", "f16") else "f32"}


def pack():
    """Writes the requests, for a machine without tests/differential."""
    sys.path.append(str(ROOT / "tests" / "differential"))
    import randomline
    PACKED.parent.mkdir(parents=True, exist_ok=True)
    PACKED.write_text(json.dumps([request(randomline.generate(seed)) for seed in range(MANY)], indent=0))


def case(gpu, number, given, refused):
    import altgrad
    dtype = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}[given["param"]]

    def draws(turn, params, optimizer):
        torch.manual_seed(number)  # draws take their keys from torch's generator
        if given["ways"].get("fused_amp"):
            scaled(turn, params, optimizer)

    def body():
        def seeded(params):
            torch.manual_seed(number)
            return make(params, **given["ways"])
        try:
            make = altgrad.optim.FromRule(given["rule"], storage=given["storage"], options=given["options"])
            pair = Pair(gpu, seeded, SHAPES, dtype=dtype).step(1, before=draws)
        except (ValueError, TypeError, NotImplementedError, altgrad.Error) as error:
            refused.append(f"{number}: {error}")
            return
        pair.step(3, before=draws).same()
    return f"{number}: {given}", body


def random_requests(bundles, device, first=0, count=OF_A_DAY):
    gpu, refused = gpus.find(device), []
    if not PACKED.exists():
        raise Skipped(f"no {PACKED}: tools/device_check.sh pack")
    given = list(enumerate(json.loads(PACKED.read_text())))[first:first + (count if gpu.real else count // 4)]
    words = every([case(gpu, number, request, refused) for number, request in given])
    for line in refused:
        print(f"    refused {line}"[:200])
    return f"{words}, {len(refused)} of them refused"


CHECKS = [random_requests]

if __name__ == "__main__":
    print(random_requests({}, sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
