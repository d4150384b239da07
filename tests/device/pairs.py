"""The same optimizer twice, on the CPU and on the GPU, with equal gradients: every byte of both must be equal."""

import io
import sys

import torch

from gpu import ROOT, STAND_IN

sys.path.append(str(ROOT / "tests" / "python"))
import twins  # noqa: E402


class Pair:
    """`make(params)` is called for the CPU's parameters and for the GPU's; `build` makes one parameter of a value."""

    def __init__(self, gpu, make, shapes=twins.SHAPES, dtype=torch.float32, dtypes=None, build=None):
        self.gpu, self.make = gpu, make
        build = build or (lambda value, place: value)
        kinds = dtypes or [dtype] * len(shapes)
        values = [torch.randn(shape).to(kind) for shape, kind in zip(shapes, kinds)]
        self.params = [[torch.nn.Parameter(build(value.clone().to(where), place)) for place, value in enumerate(values)]
                       for where in ("cpu", gpu.device)]
        self.optimizers = [make(params) for params in self.params]

    def grads(self, scale=1.0, build=None):
        """New gradients, equal on both sides; in the memory order that `build` gives them."""
        for place, (host, other) in enumerate(zip(*self.params)):
            value = (scale * torch.randn(host.shape)).to(host.dtype)
            for param in (host, other):
                grad = value.clone().to(param.device)
                param.grad = build(grad, place) if build else grad

    def step(self, count=1, before=None, **choice):
        for number in range(count):
            self.grads(**choice)
            for params, optimizer in zip(self.params, self.optimizers):
                if before:
                    before(number, params, optimizer)
                optimizer.step()
        return self

    def both(self, change):
        for params, optimizer in zip(self.params, self.optimizers):
            change(optimizer, params)

    def same(self, what=""):
        """Raises AssertionError where parameters, states or norms are not the same bytes, or lie elsewhere."""
        self.gpu.synchronize()
        for place, (host, other) in enumerate(zip(*self.params[:2])):
            equal(host, other, f"{what} parameter {place}")
            mine, theirs = (o.state.get(p, {}) for o, p in zip(self.optimizers, (host, other)))
            if list(mine) != list(theirs):
                raise AssertionError(f"{what} parameter {place} has the states {list(theirs)}, not {list(mine)}")
            for key in mine:
                # Adagrad's counts are made on the CPU, and brought to the GPU by the first step.
                if theirs[key].device != other.device and (key != "step" or theirs[key] > 0):
                    raise AssertionError(f"{what} state {key} of parameter {place} is on {theirs[key].device}")
                equal(mine[key], theirs[key], f"{what} state {key} of parameter {place}")
        norms = [getattr(optimizer, "grad_norm", None) for optimizer in self.optimizers]
        if norms[0] is not None:
            equal(*norms, f"{what} grad_norm")
            if norms[1].device != self.gpu.device:
                raise AssertionError(f"{what} grad_norm is on {norms[1].device}")


def bytes_of(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)


def equal(host, other, what):
    mine, theirs = bytes_of(host), bytes_of(other)
    if host.dtype != other.dtype or host.shape != other.shape:
        raise AssertionError(f"{what}: {other.dtype} {tuple(other.shape)}, not {host.dtype} {tuple(host.shape)}")
    if not torch.equal(mine, theirs):
        at = int((mine != theirs).nonzero()[0]) // host.itemsize
        values = [t.detach().cpu().reshape(-1)[at].item() for t in (host, other)]
        count = int((mine != theirs).sum())
        raise AssertionError(f"{what}: {count} of {mine.numel()} bytes differ, element {at} is {values[1]!r}, "
                             f"on the CPU {values[0]!r}")


def through_file(state_dict):
    """As torch.save writes it and torch.load reads it, on the CPU."""
    file = io.BytesIO()
    for held in (*state_dict["state"].values(), *state_dict["param_groups"]):
        for key, value in held.items():
            if isinstance(value, torch.Tensor) and value.device.type == STAND_IN:
                held[key] = value.cpu()  # which pickle does not know
    torch.save(state_dict, file)
    file.seek(0)
    return torch.load(file, weights_only=True, map_location="cpu")


def every(cases):
    """Runs (name, body) of each; returns how many, and raises AssertionError with those that do not hold."""
    wrong, count = [], 0
    for name, body in cases:
        torch.manual_seed(count)
        count += 1
        try:
            body()
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
            print(f"    {wrong[-1]}", flush=True)
            if "CUDA error" in str(error) or len(wrong) == 20:
                break
    if wrong:
        raise AssertionError(f"{len(wrong)} of {count} cases: {wrong[0]}")
    return f"{count} cases"
