"""What the drawn runs learn: the next letter of this repository's own documents and sources."""

import pathlib

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONTEXT, BATCH, WIDTH = 12, 256, 384
LENGTH = 100_000
LETTERS = 128  # ASCII; what is beyond counts as one letter


class Text:
    """Batches of (CONTEXT letters, the letter behind them), in an order that `seed` alone says.

    `length` is in letters; at most about a million and a half are there.
    """

    def __init__(self, length=LENGTH):
        names = [ROOT / "dialect/Rationale.md", ROOT / "runtime/Rationale.md", ROOT / "tests/README.md"]
        for folder in ("dialect", "passes", "codegen", "runtime"):
            names += sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in (".cpp", ".h", ".py", ".td"))
        words = "".join(name.read_text() for name in names)
        self.codes = torch.tensor([min(ord(letter), LETTERS - 1) for letter in words[:length]])
        self.x = self.codes.unfold(0, CONTEXT, 1)[:-1]
        self.y = self.codes[CONTEXT:]
        self.batches_of_an_epoch = -(-len(self.x) // BATCH)

    def batches(self, epochs, seed=1):
        shuffle = torch.Generator().manual_seed(seed)
        for _ in range(epochs):
            for picked in torch.randperm(len(self.x), generator=shuffle).split(BATCH):
                yield self.x[picked], self.y[picked]


def network(seed=0):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Embedding(LETTERS, 48), torch.nn.Flatten(),
        torch.nn.Linear(48 * CONTEXT, WIDTH), torch.nn.ReLU(),
        torch.nn.Linear(WIDTH, WIDTH), torch.nn.ReLU(), torch.nn.Linear(WIDTH, LETTERS))
