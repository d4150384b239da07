"""Random lives of an optimizer beside torch's: whatever happens between steps, the same values."""

import copy
import random

import pytest
import torch
import twins

import altgrad

CASES = [("AdamW", {}), ("Adam", dict(amsgrad=True)), ("SGD", dict(momentum=0.9)),
         ("RMSprop", dict(centered=True)), ("Adagrad", {})]


class Life:
    """Twins with three groups, the last of which is born on the way."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.name, kwargs = CASES[seed % len(CASES)]
        self.bound = self.dice.choice([None, 0.5])
        shapes = [(self.dice.randint(0, 9), self.dice.randint(1, 40)) for _ in range(6)]
        self.a, self.b = twins.make(shapes)
        for place in range(seed % 3):  # torch's part
            for param in (self.a[2 * place], self.b[2 * place]):
                param.data = param.data.double()
        groups = lambda ps: [dict(params=ps[:2]), dict(params=ps[2:4], lr=0.02)]
        self.ours = getattr(altgrad.optim, self.name)(
            groups(self.a), lr=0.01, max_grad_norm=self.bound, **kwargs)
        self.theirs = getattr(torch.optim, self.name)(
            groups(self.b), lr=0.01, foreach=False, **kwargs)

    def grow(self):
        # torch's own Adagrad has no state for a group that comes later.
        if len(self.ours.param_groups) == 2 and self.name != "Adagrad":
            self.ours.add_param_group(dict(params=self.a[4:]))
            self.theirs.add_param_group(dict(params=self.b[4:]))

    def turn(self):
        index, value = self.dice.randrange(len(self.ours.param_groups)), self.dice.random() < 0.5
        for optimizer in (self.ours, self.theirs):
            optimizer.param_groups[index]["maximize"] = value

    def derive(self):
        index, value = self.dice.randrange(len(self.ours.param_groups)), self.dice.random() < 0.3
        for optimizer in (self.ours, self.theirs):
            optimizer.param_groups[index]["differentiable"] = value

    def swap(self):
        """Two parameters change places."""
        one, other = self.dice.randrange(2), self.dice.randrange(2)
        for optimizer in (self.ours, self.theirs):
            a, b = (group["params"] for group in optimizer.param_groups[:2])
            a[one], b[other] = b[other], a[one]

    def decay(self):
        for group in self.ours.param_groups + self.theirs.param_groups:
            group["lr"] *= 0.9

    def replace(self):
        for param in self.a + self.b:
            param.data = param.data.clone()

    def reload(self):
        self.ours.load_state_dict(copy.deepcopy(self.theirs.state_dict()))

    def copy(self):
        self.ours, self.a = copy.deepcopy((self.ours, self.a))

    def rest(self):
        pass

    def step(self):
        for p, q in zip(self.a, self.b):
            p.grad = q.grad = None
            if self.dice.random() < 0.8:
                q.grad = torch.randn(q.shape, dtype=q.dtype)
                transposed = self.dice.random() < 0.3
                p.grad = q.grad.clone()
                if transposed:
                    p.grad = p.grad.t().contiguous().t()
        if self.bound:
            torch.nn.utils.clip_grad_norm_(
                [p for group in self.theirs.param_groups for p in group["params"]], self.bound)
        self.ours.step()
        self.theirs.step()


@pytest.mark.filterwarnings("ignore:altgrad.optim:UserWarning")
@pytest.mark.parametrize("seed", range(30))
def test_life(seed):
    life = Life(seed)
    events = [life.grow, life.turn, life.derive, life.swap, life.decay, life.replace, life.reload,
              life.copy, life.rest]
    for _ in range(20):
        life.dice.choice(events)()
        life.step()
        for p, q in zip(life.a, life.b):
            torch.testing.assert_close(p, q)
    for p, q in zip(life.a, life.b):
        for key, value in life.theirs.state.get(q, {}).items():
            torch.testing.assert_close(life.ours.state[p][key], value)
