"""altgrad's functions of gradients beside torch's, on the same lists: norm, clip, value, unscale and clip, quantize."""

import statistics

import torch

from . import candidates, measure

OPS = ("norm", "clip", "clip within", "value", "unscale+clip", "quantize", "quantize blocks")
FORMAT, LARGEST, SCALE, BLOCK = torch.float8_e4m3fn, 448.0, 0.37, 128


class Torch:
    """A list of gradients as a model has them after backward; every step finds them as they were."""

    def __init__(self, sizes, dtype, op):
        self.first = candidates.values(sizes, dtype, 0.01)
        self.params = [torch.nn.Parameter(g, requires_grad=False) for g in self.first]
        self.moving = len(sizes) > 500
        for param, g in zip(self.params, self.first):
            param.grad = g.clone()
        self.bound = 1e9 if op == "clip within" else 0.5 * float(torch.nn.utils.get_total_norm(self.first))
        self.inverse, self.found = torch.tensor(0.5), torch.tensor(0.0)
        self.scales = [torch.full((-(-g.numel() // BLOCK),), SCALE) for g in self.first]
        self.step = getattr(self, op.replace(" within", "").replace("+", "_").replace(" ", "_"))

    def renew(self):
        """Backward makes new gradients, or writes into those that are there."""
        if self.moving:
            for param, g in zip(self.params, self.first):
                param.grad = g.clone()
        else:
            torch._foreach_copy_([param.grad for param in self.params], self.first)

    def grads(self):
        return [param.grad for param in self.params]

    def norm(self):
        torch.nn.utils.get_total_norm(self.grads())

    def clip(self):
        torch.nn.utils.clip_grad_norm_(self.params, self.bound)

    def value(self):
        torch.nn.utils.clip_grad_value_(self.params, 0.01)

    def quantize_blocks(self):
        for g, scales in zip(self.grads(), self.scales):
            whole = g.numel() % BLOCK == 0
            rows = g.view(-1, BLOCK) if whole else g
            by = scales.view(-1, 1) if whole else scales.repeat_interleave(BLOCK)[:g.numel()]
            (rows.float() / by).clamp_(-LARGEST, LARGEST).to(FORMAT).float().mul_(by).to(g.dtype)

    def quantize(self):
        for g in self.grads():
            # `g` stays what it is, as ours leaves it: of float32, g.float() is g itself.
            (g.float() / SCALE).clamp_(-LARGEST, LARGEST).to(FORMAT).float().mul_(SCALE).to(g.dtype)

    def unscale_clip(self):
        torch._amp_foreach_non_finite_check_and_unscale_(self.grads(), self.found, self.inverse)
        torch.nn.utils.clip_grad_norm_(self.params, 0.5 * self.bound)


class Altgrad(Torch):
    def norm(self):
        import altgrad
        altgrad.compute_global_grad_norm(self.grads())

    def clip(self):
        import altgrad
        altgrad.clip_grad_norm_(self.params, self.bound)

    def value(self):
        import altgrad
        altgrad.clip_grad_value_(self.params, 0.01)

    def quantize(self):
        import altgrad
        for g in self.grads():
            altgrad.quantize(g, "ocp.e4m3fn", SCALE)

    def quantize_blocks(self):
        import altgrad
        for g, scales in zip(self.grads(), self.scales):
            altgrad.quantize(g, "ocp.e4m3fn", scales, block=BLOCK)

    def unscale_clip(self):
        import altgrad
        altgrad.fused_grad_unscale_clip(self.grads(), 0.5 * self.bound, 2.0, inplace=True)


MAKERS = {"torch": (Torch, 1), "altgrad": (Altgrad, 1)}


def run(name, workload, dtype, op, rounds, clock, show):
    """Medians of milliseconds, and the median and quartiles of torch's time over ours."""
    sizes, steps, _ = workload
    times = measure.run_case(MAKERS, (sizes, steps, True), dtype, op, rounds, clock, show)
    row = {own: statistics.median(series) for own, series in times.items()}
    row["of_torch"] = measure.ratio(times, "altgrad", "torch")
    spread = row["of_torch"]
    print(f"  {name:<36}{row['torch']:9.3f}{row['altgrad']:9.3f}{spread['median']:8.2f} x torch"
          f"   {spread['low']:.2f} to {spread['high']:.2f}", flush=True)
    return row
