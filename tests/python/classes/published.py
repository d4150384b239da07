"""Optimizers in float64 as their papers and authors have them; torch's are torch's own."""

import torch

CASES = [
    ("NAdam", {}), ("NAdam", dict(weight_decay=0.1, momentum_decay=0.01, maximize=True)),
    ("NAdam", dict(weight_decay=0.1, decoupled_weight_decay=True, betas=(0.8, 0.99))),
    ("RAdam", dict(betas=(0.9, 0.95))), ("RAdam", dict(weight_decay=0.1, lr=0.01)),
    ("RAdam", dict(weight_decay=0.1, decoupled_weight_decay=True, maximize=True)),
    ("Adamax", {}), ("Adamax", dict(weight_decay=0.1, betas=(0.8, 0.9), maximize=True)),
    ("Adadelta", {}), ("Adadelta", dict(weight_decay=0.1, rho=0.95, lr=0.5, maximize=True)),
    ("Rprop", {}), ("Rprop", dict(etas=(0.4, 1.3), step_sizes=(1e-3, 0.02), maximize=True)),
    ("ASGD", {}), ("ASGD", dict(t0=5, weight_decay=0.1, lambd=0.1, maximize=True)),
]


class OfTorch:
    def __init__(self, kind, params, words):
        self.params = [torch.nn.Parameter(param) for param in params]
        self.optimizer = kind(self.params, **words)

    def step(self, grads):
        for param, grad in zip(self.params, grads):
            param.grad = grad
        self.optimizer.step()


def make(name, params, **words):
    return OfTorch(getattr(torch.optim, name), params, words)
