"""Lists of gradients for the tests of altgrad.ops, and their norms in f64."""

import math

import numpy as np
import torch

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SIZES = [(300, 17), (4096,), (5,), (), (8193,), (0, 3), (1,)]
KINDS = [1.0, 2.0, math.inf]


def grads(dtype=torch.float32, sizes=SIZES, scale=1.0):
    return [torch.randn(size).mul_(scale).to(dtype) for size in sizes]


def params(gradients):
    made = [torch.nn.Parameter(torch.zeros_like(g, dtype=torch.float32)) for g in gradients]
    for param, grad in zip(made, gradients):
        param.grad = grad.clone() if param.dtype == grad.dtype else None
        if param.grad is None:
            param.data = param.data.to(grad.dtype)
            param.grad = grad.clone()
    return made


def norm(gradients, kind=2.0):
    flat = np.concatenate([g.double().numpy().ravel() for g in gradients] + [np.zeros(1)])
    return float(np.linalg.norm(flat, kind))


def bits(tensors):
    return [t.contiguous().view(-1).view(torch.uint8).clone() if t.numel() else t for t in tensors]


def same(one, other):
    return all(map(torch.equal, bits(one), bits(other)))
