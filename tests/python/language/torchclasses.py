"""Optimizers as people write them in PyTorch: what from_torch has to find in a step."""

import math

import torch


class FirstStep(torch.optim.Optimizer):
    """A buffer that is None at first, states that begin as the gradient and as 1, a counter in the group, a branch on it."""

    def __init__(self, params, lr=0.1, beta=0.9, warm=3, power=0.5, centered=False, steps=2):
        super().__init__(params, dict(lr=lr, beta=beta, warm=warm, power=power, centered=centered, steps=steps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            for p in group["params"]:
                if p.grad is None:
                    continue
                state, grad = self.state[p], p.grad
                if not state:
                    state.update(last=grad.clone(), scale=1.0, largest=torch.ones_like(p), buf=None)
                elif group["centered"]:
                    grad = grad - state["last"]
                state["buf"] = grad.clone() if state["buf"] is None else state["buf"].mul_(group["beta"]).add_(grad, alpha=0.5)
                state["scale"] = 0.5 * state["scale"] + group["lr"] * group["step"]
                torch.maximum(state["largest"] * 0.9, grad.abs(), out=state["largest"])
                rate = group["lr"] / (1 + group["step"]) ** group["power"]
                if group["step"] > group["warm"]:
                    rate *= math.cos(group["power"]) * min(1.0, state["scale"])
                for _ in range(group["steps"]):
                    p.sub_(rate * state["buf"] / state["largest"])
                state["last"].copy_(p.grad)


class Lars(torch.optim.Optimizer):
    """Numbers of the tensor, a choice between them, and p.data."""

    def __init__(self, params, lr, trust=0.1, eps=1e-9):
        super().__init__(params, dict(lr=lr, trust=trust, eps=eps))

    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                size, length = torch.norm(p.data), p.grad.data.norm()
                rate = group["trust"] * size / (length + group["eps"]) if size > 0 and length > 0 else 1.0
                p.data.add_(p.grad.data, alpha=float(-group["lr"]) if isinstance(rate, float) else -group["lr"] * rate.item())


class Noted(torch.optim.Optimizer):
    """The rate that each group had at first, a count that belongs to no parameter, and functions of elements."""

    def __init__(self, params, lr=0.1, power=0.4):
        super().__init__(params, dict(lr=lr, power=power))
        self.rates = [group["lr"] for group in self.param_groups]

    @torch.no_grad()
    def step(self, closure=None):
        if "k" not in self.state:
            self.state["k"] = torch.tensor([0], dtype=torch.long)
        rate = math.sqrt(self.state["k"] + 1)
        for group, first in zip(self.param_groups, range(len(self.param_groups))):
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["sum"] = torch.zeros_like(p)
                state["sum"].add_(p.grad.abs().pow(group["power"]))
                size = torch.tanh(state["sum"]) + torch.special.expm1(-p.grad.abs()) + torch.atan2(p.grad, state["sum"])
                p.sub_(torch.sigmoid(p.grad) * size, alpha=rate * group["lr"] ** 2 / self.rates[first])
        self.state["k"].add_(1)


class Mistake(torch.optim.Optimizer):
    """A class whose step does `what`, for the catalogue of what cannot be traced."""

    def __init__(self, params, what, lr=0.1):
        super().__init__(params, dict(lr=lr))
        self.what, self.seen, self.history = what, 0.0, []
        self.rates = [group["lr"] for group in self.param_groups]

    def step(self, closure=None):
        for group in self.param_groups:
            total = sum(p.grad.norm() for p in group["params"])
            for p in group["params"]:
                self.what(self, group, p, p.grad, self.state[p], total)


class EachAlone(torch.optim.Optimizer):
    """Updates each parameter by itself."""

    def __init__(self, params, lr=0.1):
        super().__init__(params, dict(lr=lr))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, self.state[p], group["lr"])


class OldOrder(EachAlone):
    """torch's old order of arguments, foreach functions, out= and views."""

    def update(self, p, state, lr):
        g = p.grad
        if not state:
            state["m"], state["v"] = torch.zeros_like(p), torch.full_like(p, 0.25)
        m, v = state["m"], state["v"]
        m.mul_(0.9).add_(0.1, g)
        v.mul_(0.9).addcmul_(0.1, g, g)
        flat, high = m.view(-1), torch.empty_like(p)
        flat.mul_(1.01)
        torch.max(v, g.abs(), out=high)
        torch._foreach_mul_([high], 2.0)
        p.addcdiv_(-lr, m, high)
        p.data.sub_(0.01, torch._foreach_sqrt([v])[0])


class ByLists(EachAlone):
    """Numbers of rows and columns without a dimension of 1, as in the papers' own Adafactor."""

    def update(self, p, state, lr):
        if not state:
            state["row"], state["column"] = torch.zeros(p.shape[:-1]), torch.zeros(p.shape[:-2] + p.shape[-1:])
        row, column, square = state["row"], state["column"], p.grad.square() + 1e-30
        row.lerp_(square.mean(dim=-1), 0.3)
        column.lerp_(square.amax(dim=-2), 0.3)
        factor = (row / row.mean(dim=-1, keepdim=True)).unsqueeze(-1) * column.unsqueeze(-2)
        p.sub_((p.grad - p.grad.mean(0)) * factor.rsqrt(), alpha=lr)
        p.div_(p.norm(dim=0, keepdim=True).max().clamp(min=1.0) * column.std() + 1.0)


class ByViews(EachAlone):
    """The elements as rows, as one row and as a list, and functions that torch makes of others."""

    def update(self, p, state, lr):
        rows, layer, flat = p.grad.view(p.size(0), -1), p.grad.view(1, -1), p.grad.reshape(-1)
        away = torch.nn.functional.cosine_similarity(rows, p.view(p.size(0), -1), dim=1)[:, None]
        std, mean = torch.std_mean(away, correction=0)
        u = rows / rows.norm(dim=1).view([-1, 1]) + layer.view_as(p) / layer.norm(dim=1) * flat.std(dim=0) + away * (std + mean)
        u.add_(torch.nn.functional.normalize(p.grad, dim=0) * (p.grad.mean(dim=0)[None, :] > 0)).mul_(p.shape[1] * 0.5)
        p.sub_(u * flat.view(p.shape).sign(), alpha=lr)
