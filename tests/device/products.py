"""Our kernels for symmetric products on the GPU: within their bound of float64, symmetric by their bits, and how long they
take beside torch's GEMM."""

import ctypes
import os
import statistics
import struct
import subprocess

import torch

import forms
import gpu as gpus
from gpu import ROOT, Skipped

COMPILER = os.environ.get("ALTGRAD_OPT", str(ROOT / "build" / "bin" / "altgrad-opt"))
ROWS, COLUMNS, SHARED, DYNAMIC_SHARED = 128, 192, 4 * (128 + 192) * 32 * 2, 8  # dialect/Target.h; CU_FUNC_ATTRIBUTE_…
SPEC = """altgrad.rule @product(param %w: f32, grad %g: f32) {
  %x = altgrad.matrix %g : !altgrad.tensors<bf16>
  %a = altgrad.gram %x : !altgrad.tensors<bf16>
  %y = altgrad.product %a, %x : !altgrad.tensors<bf16>
  %e = altgrad.entry %y : !altgrad.tensors<bf16>
  altgrad.yield param(%e) state()
}
"""
SHAPES = [(1, 136, 200), (3, 264, 72), (1, 1024, 4096), (4, 512, 512)]
TIMED = [(1, 1024, 4096), (1, 2048, 2048), (1, 4096, 4096), (1, 8192, 8192), (16, 1024, 1024)]


def ptx(target):
    words = [COMPILER, "-", "--rule=product", "--own-products", "--emit=ptx", f"--target={target}"]
    return subprocess.run(words, input=SPEC.encode(), capture_output=True, check=True).stdout


class Kernels:
    """Of a module, for matrices of batch x n x k without gaps, or of batch x k x n with `columns`."""

    def __init__(self, driver, text):
        self.driver, self.module = driver, driver.load(text)

    def product(self, x, d, c, batch, n, k, alpha=1.0, beta=0.0, columns=False, stream=None):
        """Begins c = alpha X Xᵀ + beta d; x, d and c are addresses, d may be 0."""
        line = n if columns else k
        words = struct.pack("12q2f", x, x, d, c, n * k, line, n * k, line, n * n, n, n, k, alpha, beta)
        block, size = ctypes.create_string_buffer(words, len(words)), ctypes.c_size_t(len(words))
        extra = (ctypes.c_void_p * 5)(1, ctypes.addressof(block), 2, ctypes.addressof(size), 0)
        kernel, name = ctypes.c_void_p(), "altgrad_symmetric_" + ("columns_" if columns else "") + "bf16"
        self.driver.call("cuModuleGetFunction", ctypes.byref(kernel), self.module, name.encode())
        self.driver.call("cuFuncSetAttribute", kernel, DYNAMIC_SHARED, SHARED)
        grid = (-(-n // COLUMNS), -(-n // ROWS), batch)
        self.driver.call("cuLaunchKernel", kernel, *grid, 256, 1, 1, SHARED, stream, None, extra)


def bound(x, k, alpha):
    """Of mma's sums, each of 16 terms and the sum before them cut at 2^-23 of the largest; c's own rounding comes on top."""
    return -(-k // 32) * 2 * 18 * 2.0 ** -23 * abs(alpha) * (x.abs() @ x.abs().mT)


def far(c, x, d, k, alpha, beta):
    """What c is away from float64 in parts of what it may be: at most 1."""
    x = x.double()
    want = alpha * x @ x.mT + (beta * d.double() if d is not None else 0)
    return ((c.double() - want).abs() / (bound(x, k, alpha) + want.abs() * 2.0 ** -8 + 1e-30)).max().item()


def found(device):
    if not device.startswith("cuda"):
        raise Skipped("no GPU")
    gpu = gpus.find(device)
    driver = forms.Gpu(ctypes.CDLL("libcuda.so.1"), gpu.device.index or 0)
    return gpu, Kernels(driver, ptx("sm_90" if driver.chip >= 90 else "sm_80"))


def own_products(bundles, device):
    """Both orientations, batches, and the polynomial of a step."""
    gpu, kernels = found(device)
    worst = 0.0
    for batch, n, k in SHAPES:
        for columns in (False, True):
            x = torch.randn(batch, n, k, device=gpu.device).bfloat16()
            held, c = (x.mT.contiguous() if columns else x), torch.empty(batch, n, n, device=gpu.device).bfloat16()
            square = torch.randn(batch, n, n, device=gpu.device).bfloat16()
            square = square + square.mT
            for d, beta in ((None, 0.0), (square, -4.775)):
                stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
                kernels.product(held.data_ptr(), 0 if d is None else d.data_ptr(), c.data_ptr(), batch, n, k, 0.5, beta,
                                columns, stream)
                gpu.synchronize()
                assert torch.equal(c, c.mT), f"{n} x {k}: not symmetric"
                worst = max(worst, far(c, x, d, k, 0.5, beta))
                assert worst <= 1, f"{n} x {k}: {worst} of what rounding allows"
    return f"{len(SHAPES)} shapes, at most {worst:.2f} of what rounding allows"


def own_product_times(bundles, device):
    """Beside torch's GEMM: medians of device events, in ms, and the share of the operations that both do in time."""
    gpu, kernels = found(device)
    words = []
    for batch, n, k in TIMED:
        x = torch.randn(batch, n, k, device=gpu.device).bfloat16()
        c = torch.empty(batch, n, n, device=gpu.device).bfloat16()
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        bodies = {"own": lambda: kernels.product(x.data_ptr(), 0, c.data_ptr(), batch, n, k, stream=stream),
                  "torch": lambda: torch.bmm(x, x.mT, out=c)}
        ms = {name: statistics.median(gpu.timed(body, 0.3)[0] for _ in range(11)) for name, body in bodies.items()}
        words.append(f"{batch} of {n}x{k}: own {ms['own']:.4f}, torch {ms['torch']:.4f}, {ms['torch'] / ms['own']:.2f} x")
        print(f"    {words[-1]}", flush=True)
    return "; ".join(words)


CHECKS = [own_products, own_product_times]
