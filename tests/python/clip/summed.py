"""Two optimizers with the same gradients, of which one has norm_in_backward."""

import torch
import twins

import altgrad.optim

SHAPES = [(8,), (5, 3), (4097,), (0,), (300, 200)]


class Pair:
    """Twins with the same gradients: `one` sums in backward, `two` does not."""

    def __init__(self, name="AdamW", shapes=SHAPES, dtype=torch.float32, **more):
        more = {"lr": 0.1, "max_grad_norm": 0.5, **more}
        self.params = twins.make(shapes, dtype)
        cls = getattr(altgrad.optim, name)
        self.one = cls(self.params[0], norm_in_backward=True, **more)
        self.two = cls(self.params[1], **more)

    def backward(self, of=None, scale=1.0, sides=(0, 1)):
        weights = [torch.randn(p.shape).to(p.dtype) for p in self.params[0]]
        for side in sides:
            loss = sum([(p * w).sum() for p, w in zip(self.params[side], weights)
                        if of is None or p is self.params[side][of]])
            (loss * scale).backward()

    def change(self, function):
        for params in self.params:
            with torch.no_grad():
                function(params)

    def step(self):
        """(rows taken as they were summed, rows summed in vain); zeroes the gradients."""
        for optimizer in (self.one, self.two):
            optimizer.step()
        for p, q in zip(*self.params):
            assert torch.equal(p, q)
            for key, value in self.two.state[q].items():
                assert torch.equal(self.one.state[p][key], value), key
        assert torch.equal(self.one.grad_norm, self.two.grad_norm)
        rows = [table.summed_rows() for table in self.one._built.tables]
        self.zero()
        return tuple(map(sum, zip(*rows)))

    def zero(self):
        for params in self.params:
            for p in params:
                p.grad = None


def ready(**more):
    """A Pair that has made its first step, which sums everything itself."""
    pair = Pair(**more)
    pair.backward()
    assert pair.step() == (0, 0)
    return pair
