"""scikit-learn's handwritten digits in batches that can be resumed, a small network, and a plain loop."""

import torch
from sklearn.datasets import load_digits

BATCH, LR = 96, 3e-3


def load():
    digits = load_digits()
    return torch.tensor(digits.data / 16.0, dtype=torch.float32), torch.tensor(digits.target)


class Batches:
    """Shuffled by the epoch; goes on where its state says."""

    def __init__(self, count=1440):
        x, y = load()
        self.x, self.y, self.epoch, self.at = x[:count], y[:count], 0, 0

    def __len__(self):
        return len(self.x) // BATCH

    def __iter__(self):
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(self.epoch))
        for chosen in order.split(BATCH)[self.at:]:
            # Before the last one is given: who counts does not ask for another.
            self.epoch, self.at = self.epoch + (self.at + 1) // len(self), (self.at + 1) % len(self)
            yield self.x[chosen], self.y[chosen]

    def state_dict(self):
        return {"epoch": self.epoch, "at": self.at}

    def load_state_dict(self, state):
        self.epoch, self.at = state["epoch"], state["at"]


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 10))


def loss_of(net, batch):
    return torch.nn.functional.cross_entropy(net(batch[0]), batch[1])


def accuracy(net):
    """On the digits that `Batches` leaves out."""
    x, y = load()
    with torch.no_grad():
        return (net(x[1440:]).argmax(1) == y[1440:]).float().mean().item()


def plain(make, config, epochs, accumulate=1, scaler=None, before=None):
    """(network, optimizer, scaler) after a loop without a trainer; `before(optimizer, scaler, step)`."""
    net = network()
    optimizer, scaler, step = make(net.parameters()), scaler or config.scaler(), 0
    batches = Batches()
    for _ in range(epochs):
        optimizer.zero_grad()
        for index, batch in enumerate(batches):
            with config.autocast(cache_enabled=False):
                loss = loss_of(net, batch)
            scaler.scale(loss / accumulate).backward()
            if (index + 1) % accumulate == 0 or index + 1 == len(batches):
                if before:
                    before(optimizer, scaler, step)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                step += 1
    return net, optimizer, scaler
