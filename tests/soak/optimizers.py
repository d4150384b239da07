"""Twins, one of altgrad and one of torch, and whatever a user may do to them between steps."""

import copy
import pickle

import torch

import altgrad

CASES = [("AdamW", dict(weight_decay=0.1)), ("Adam", dict(amsgrad=True)), ("SGD", dict(momentum=0.9, nesterov=True)),
         ("SGD", {}), ("RMSprop", dict(centered=True, momentum=0.5)), ("Adagrad", {})]
DTYPES = [torch.float32] * 5 + [torch.float64, torch.complex64]
NONSENSE = ["0.1", None, float("nan"), 1j, (0.1,), torch.ones(2), torch.tensor(0.1, device="meta"), -1.0, "meta"]


class Twins:
    def __init__(self, life):
        self.life, self.dice = life, life.dice
        name, words = self.dice.choice(CASES)
        shapes = [(self.dice.randint(0, 9), self.dice.choice([1, 7, 64, 600])) for _ in range(self.dice.randint(1, 5))]
        values = [torch.randn(shape, dtype=self.dice.choice(DTYPES)) for shape in shapes]
        self.a, self.b = ([torch.nn.Parameter(value.clone()) for value in values] for _ in range(2))
        self.bound = self.dice.choice([None, None, 0.5])
        cut = self.dice.randrange(len(values))
        groups = lambda ps: [dict(params=of) for of in (ps[:cut], ps[cut:]) if of]
        self.ours = getattr(altgrad.optim, name)(groups(self.a), lr=0.01, max_grad_norm=self.bound, **words)
        self.theirs = getattr(torch.optim, name)(groups(self.b), lr=0.01, foreach=False, **words)

    def grads(self):
        for p, q in zip(self.a, self.b):
            p.grad = q.grad = None
            if self.dice.random() < 0.85:
                grad = torch.randn(p.shape, dtype=p.dtype)
                if grad.dim() == 2 and self.dice.random() < 0.2:
                    grad = torch.randn(p.shape[::-1], dtype=p.dtype).t()
                p.grad, q.grad = grad, grad.clone()

    def step(self):
        self.grads()
        if self.bound:
            torch.nn.utils.clip_grad_norm_(self.b, self.bound, foreach=False)
        self.ours.step()
        with torch.inference_mode(False):  # where torch's states are made, which no later step could change
            self.theirs.step()
        for p, q in zip(self.a, self.b):
            torch.testing.assert_close(p, q, rtol=1e-4, atol=1e-5, equal_nan=True)
        self.life.said["steps"] += 1

    # What may happen, to both.

    def rate(self):
        lr = self.dice.choice([0.0, 0.02, torch.tensor(0.03)])
        for optimizer in (self.ours, self.theirs):
            self.dice.choice(optimizer.param_groups)  # a draw for each: both stay in step
            optimizer.param_groups[0]["lr"] = lr

    def maximize(self):
        for optimizer in (self.ours, self.theirs):
            optimizer.param_groups[-1]["maximize"] ^= True

    def data(self):
        """Other memory, perhaps in another order or with gaps."""
        for p, q in zip(self.a, self.b):
            how = self.dice.randrange(3)
            for of in (p, q):
                value = of.detach().clone()
                of.data = value if how == 0 else value.t().contiguous().t() if how == 1 else torch.stack(
                    [value, value], -1)[..., 0]

    def write(self):
        with torch.no_grad():
            for p, q in zip(self.a, self.b):
                p.mul_(0.5), q.mul_(0.5)

    def file(self):
        for optimizer in (self.ours, self.theirs):
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    def cross(self):
        """Each goes on from the other's file."""
        ours, theirs = (copy.deepcopy(of.state_dict()) for of in (self.ours, self.theirs))
        self.ours.load_state_dict(theirs), self.theirs.load_state_dict(ours)

    def reborn(self):
        self.ours, self.a = pickle.loads(pickle.dumps((self.ours, self.a)))
        self.theirs, self.b = pickle.loads(pickle.dumps((self.theirs, self.b)))

    def quiet(self):
        with torch.inference_mode():
            self.step()

    # What nobody should do.

    def nonsense(self):
        """A number that is none: refused, or as torch has it."""
        key, value = self.dice.choice(["lr", "weight_decay", "betas", "momentum", "eps"]), self.dice.choice(NONSENSE)
        for optimizer in (self.ours, self.theirs):
            if key not in optimizer.param_groups[0]:
                return False
        kept = self.ours.param_groups[0][key]
        self.grads()
        if all(p.grad is None for p in self.ours.param_groups[0]["params"]):
            return False
        self.ours.param_groups[0][key] = value
        if self.life.refused(self.ours.step, self.a, f"{key}={value!r}".replace("\n", " ")):
            self.ours.param_groups[0][key] = kept
            return False
        return True

    def short(self):
        """A storage that ends too early."""
        self.grads()
        there = [of for p in self.a if p.grad is not None and p.numel() > 8
                 for of in (p.data, p.grad, *self.ours.state.get(p, {}).values()) if isinstance(of, torch.Tensor)]
        if not there:
            return False
        tensor = self.dice.choice(there)
        tensor.untyped_storage().resize_(self.dice.choice([0, 2]))
        taken = not self.life.refused(self.ours.step, self.a, "a short storage")
        assert not taken, f"a storage that is too short for {tuple(tensor.shape)} was taken"
        return True

    def lost(self):
        """A state that is partly there."""
        held = [of for of in self.ours.state.values() if len(of) > 1]
        if not held:
            return False
        entries = self.dice.choice(held)
        key = self.dice.choice(list(entries))
        entries[key] = self.dice.choice([None, "x", torch.ones(3), torch.tensor(-1.0), entries[key].double()])
        self.grads()
        self.life.refused(self.ours.step, self.a, "a state that is another")
        return True


EVENTS = [Twins.rate, Twins.maximize, Twins.data, Twins.write, Twins.file, Twins.cross, Twins.reborn, Twins.quiet]
ENDS = [Twins.nonsense, Twins.short, Twins.lost]


def live(life):
    twins = Twins(life)
    for _ in range(life.dice.randint(2, 25)):
        twins.step()
        if life.dice.random() < 0.5:
            event = life.dice.choice(EVENTS)
            event(twins)
            life.said[event.__name__] += 1
    for _ in range(3):
        if life.dice.choice(ENDS)(twins):
            return
